//! Builds the row of a record.

use std::borrow::Cow;
use std::time::Duration;

use events::{MalformedRecord, RecordKind, SettlementsReader, v1};
use exchange_core::record::{
    AuctionRecord, BidRecord, CallRecord, DealRecord, EnrichmentResult, GenerationRecord,
    ImpRecord, SaleRecord,
};
use exchange_core::{Fate, NotAsked};
use openrtb::codes::MediaType;
use units::{Cpm, Multiplier};

use crate::log::position::RecordPosition;
use crate::names::DspNames;
use crate::row::{
    AnswerRow, AuctionRow, BidRow, CallRow, DealRow, EnrichmentRow, ImpRow, Label, LotRow,
    NotAskedRow, SaleRow, WinRow,
};

impl AuctionRow {
    /// The row of a record, with names from the generation it ran under.
    pub fn of(
        place: &RecordPosition,
        record: &AuctionRecord<'_>,
        generation: Option<&GenerationRecord>,
    ) -> Self {
        let names = DspNames::of(record, generation);
        let (maker, terms) = (AuctionRows { record, names }, record.terms.as_ref());
        let timings = &record.timings;
        let won = |sale: &&SaleRecord| record.bids[sale.bid].fate == Fate::Won;
        Self {
            time_us: record.arrival_unix_us,
            node: place.node.into(),
            epoch: place.epoch,
            sequence: place.sequence,
            id: record.id.to_owned(),
            caller_id: record.caller_id.to_owned(),
            generation: record.generation,
            publisher: record.publisher.map(str::to_owned),
            is_test: record.is_test,
            tmax_ms: record.tmax_ms.map(u64::from),
            ending: record.ending.label().into(),
            nbr: record.nbr.map(u64::from),
            currency: terms.map(|terms| terms.currency.to_string()),
            base_currency: names.0.map(|facts| facts.base.to_string()),
            auction_type: terms.map(|terms| terms.auction_type.label().into()),
            increment_micros: terms.map(|terms| terms.increment.micros()),
            notices: terms.map(|terms| terms.notices.label().into()),
            bids_returned: terms.map(|terms| terms.bids_returned.label().into()),
            parsed_us: timings.parsed.map(micros),
            asked_us: timings.asked.map(micros),
            closed_us: timings.closed.map(micros),
            cleared_us: timings.cleared.map(micros),
            answered_us: timings.answered.map(micros),
            left_us: timings.left_us,
            calls_count: record.calls.len() as u64,
            bids_count: (record.bids.len() + record.bids_left_out) as u64,
            wins_count: record.sales.iter().filter(won).count() as u64,
            bids_left_out: record.bids_left_out as u64,
            imps: record.imps.iter().map(imp).collect(),
            deals: record.deals.iter().map(|deal| maker.deal(deal)).collect(),
            not_asked: record
                .not_asked
                .iter()
                .map(|&(dsp, reason)| maker.not_asked(dsp, reason))
                .collect(),
            calls: record.calls.iter().map(|call| maker.call(call)).collect(),
            bids: record.bids.iter().map(|bid| maker.bid(bid)).collect(),
            sales: record.sales.iter().map(|sale| maker.sale(sale)).collect(),
            request: record.request.map(text),
            answers: record.answers.iter().map(|&(dsp, body)| maker.answer(dsp, body)).collect(),
            enrichments: (0..record.enrichments.len()).map(|at| maker.enrichment(at)).collect(),
        }
    }
}

fn imp(imp: &ImpRecord<'_>) -> ImpRow {
    ImpRow {
        id: imp.id.to_owned(),
        formats: formats(imp.formats).map(Label::from).collect(),
        is_private: imp.is_private,
        bidfloor_micros: imp.bidfloor.micros(),
        shown_floor_micros: imp.shown_floor.micros(),
        fee_ppm: imp.fee.get().into(),
        multiplier_millionths: millionths(imp.multiplier),
    }
}

/// Labels of a set of formats.
pub(crate) fn formats(set: u8) -> impl Iterator<Item = &'static str> {
    MediaType::members(set).map(MediaType::label)
}

/// Rows of the parts of a record: positions become names.
#[derive(Clone, Copy, Debug)]
pub struct AuctionRows<'r, 'b> {
    record: &'r AuctionRecord<'b>,
    names: DspNames<'r>,
}

impl<'r, 'b> AuctionRows<'r, 'b> {
    /// Takes names from the generation that the auction ran under, if known.
    pub fn new(record: &'r AuctionRecord<'b>, generation: Option<&'r GenerationRecord>) -> Self {
        Self { record, names: DspNames::of(record, generation) }
    }

    /// A DSP's id, or `#` and its position.
    pub fn dsp_id(&self, bid: &BidRecord<'_>) -> Cow<'r, str> {
        self.names.dsp(bid.dsp)
    }

    /// A seat's name, or `#` and its position. None if the DSP has not declared it.
    pub fn seat_name(&self, bid: &BidRecord<'_>) -> Option<Cow<'r, str>> {
        bid.seat.map(|seat| self.names.seat(bid.dsp, seat))
    }

    fn imp(&self, at: usize) -> String {
        self.record.imps[at].id.to_owned()
    }

    fn deal_id(&self, at: usize) -> String {
        self.record.deals[at].id.to_owned()
    }

    /// The row of a deal.
    pub fn deal(&self, deal: &DealRecord<'_>) -> DealRow {
        DealRow {
            imp: self.imp(deal.imp),
            id: deal.id.to_owned(),
            auction_type: deal.auction_type.label().into(),
            class: deal.class.into(),
            fee_ppm: deal.fee.get().into(),
            discount_ppm: deal.discount.get().into(),
            floor_micros: deal.floor.map(Cpm::micros),
        }
    }

    fn not_asked(&self, dsp: usize, reason: NotAsked) -> NotAskedRow {
        NotAskedRow { dsp: self.names.dsp(dsp).into_owned(), reason: reason.label().into() }
    }

    fn call(&self, CallRecord { call, response }: &CallRecord) -> CallRow {
        let imps = (0..self.record.imps.len()).filter(|at| call.ask.imps >> at & 1 == 1);
        let deals = (0..self.record.deals.len()).filter(|at| call.ask.deals >> at & 1 == 1);
        CallRow {
            dsp: self.names.dsp(call.ask.dsp).into_owned(),
            imps: imps.map(|at| self.imp(at)).collect(),
            deals: deals.map(|at| self.deal_id(at)).collect(),
            tmax_ms: call.tmax_ms.into(),
            outcome: call.outcome.label().into(),
            sent_us: call.sent.map(micros),
            latency_us: call.latency.map(micros),
            response: response.map(|fate| fate.label().into()),
        }
    }

    fn seat(&self, bid: &BidRecord<'_>) -> Option<String> {
        self.seat_name(bid).map(Cow::into_owned)
    }

    /// The row of a bid.
    pub fn bid(&self, bid: &BidRecord<'_>) -> BidRow {
        BidRow {
            dsp: self.names.dsp(bid.dsp).into_owned(),
            seat: self.seat(bid),
            imp: bid.imp.map(|imp| self.imp(imp)),
            id: bid.id.to_owned(),
            campaign: campaign(bid),
            currency: bid.currency.to_string(),
            price_micros: bid.price.map(Cpm::micros),
            deal: bid.deal.map(|deal| self.deal_id(deal)),
            floor_micros: bid.floor.map(Cpm::micros),
            worth_micros: bid.worth.map(Cpm::micros),
            tie: bid.tie,
            group: bid.group.map(|group| group as u64),
            barred: bid.barred.map(|fate| fate.label().into()),
            is_out_of_reach: bid.is_out_of_reach,
            fate: bid.fate.label().into(),
        }
    }

    /// The row of a sale.
    pub fn sale(&self, sale: &SaleRecord) -> SaleRow {
        let bid = &self.record.bids[sale.bid];
        SaleRow {
            bid: sale.bid as u64,
            id: bid.id.to_owned(),
            imp: bid.imp.map_or_else(String::new, |imp| self.imp(imp)),
            dsp: self.names.dsp(bid.dsp).into_owned(),
            seat: self.seat(bid).unwrap_or_default(),
            deal: bid.deal.map(|deal| self.deal_id(deal)),
            campaign: campaign(bid),
            fate: bid.fate.label().into(),
            price_micros: sale.price.micros(),
            net_micros: sale.net.micros(),
            paid_micros: sale.paid.micros(),
            paid_currency: bid.currency.to_string(),
            min_to_win_micros: sale.min_to_win.map(Cpm::micros),
            revenue_nanos: sale.revenue.get(),
        }
    }

    fn enrichment(&self, at: usize) -> EnrichmentRow {
        let EnrichmentResult { outcome, text, age_ms } = self.record.enrichments[at];
        let known = self.names.0.and_then(|generation| generation.enrichments.get(at));
        EnrichmentRow {
            name: known.map_or_else(|| format!("#{at}"), |known| known.name.to_string()),
            outcome: outcome.label().into(),
            age_ms,
            text: Some(text).filter(|text| !text.is_empty()).map(str::to_owned),
        }
    }

    fn answer(&self, dsp: usize, body: &[u8]) -> AnswerRow {
        AnswerRow { dsp: self.names.dsp(dsp).into_owned(), body: text(body) }
    }
}

fn campaign(bid: &BidRecord<'_>) -> Option<String> {
    Some(bid.campaign).filter(|campaign| !campaign.is_empty()).map(str::to_owned)
}

/// Bodies are JSON, or whatever was sent instead.
fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A price of one unit costs as many nanos as the multiplier has millionths.
fn millionths(multiplier: Multiplier) -> u64 {
    let unit = Cpm::new(1_000_000).unwrap_or(Cpm::ZERO);
    unit.cost(multiplier).map_or(0, units::Nanos::get)
}

impl WinRow {
    /// The wins of a record of the durable lane, none if it is of another kind.
    ///
    /// # Errors
    /// The record is malformed.
    pub fn all_of(
        place: &RecordPosition,
        kind: u8,
        payload: &[u8],
    ) -> Result<Vec<Self>, MalformedRecord> {
        let mut rows = Vec::new();
        if RecordKind::from_code(kind) == Some(RecordKind::Settlements) {
            SettlementsReader::new(payload)?.each(|win| {
                rows.push(Self {
                    time_us: place.time_ms.saturating_mul(1000),
                    node: place.node.into(),
                    epoch: place.epoch,
                    sequence: place.sequence,
                    client: win.client.to_owned(),
                    token: win.token.iter().map(|byte| format!("{byte:02x}")).collect(),
                    cost_nanos: win.cost_nanos,
                    currency: win.currency.to_owned(),
                });
            })?;
        }
        Ok(rows)
    }
}

impl LotRow {
    /// The event of a record of the durable lane. None if it is of another kind.
    ///
    /// # Errors
    /// The record is malformed.
    pub fn of(
        place: &RecordPosition,
        kind: u8,
        payload: &[u8],
    ) -> Result<Option<Self>, MalformedRecord> {
        if RecordKind::from_code(kind) != Some(RecordKind::Lot) {
            return Ok(None);
        }
        let lot = v1::Lot::read_record(payload)?;
        let events = [
            ("created", lot.created.is_some()),
            ("opened", lot.opened.is_some()),
            ("bid", lot.bid.is_some()),
            ("extended", lot.extended.is_some()),
            ("closed", lot.closed.is_some()),
            ("cancelled", lot.cancelled.is_some()),
            ("paid", lot.paid.is_some()),
        ];
        let event = events.into_iter().find_map(|(name, is)| is.then_some(name));
        let bid = lot.bid.as_ref();
        let text = |of: fn(&v1::LotBid) -> &String| bid.map(|bid| of(bid).clone());
        Ok(Some(Self {
            time_us: lot.at_ms.saturating_mul(1000),
            node: place.node.into(),
            epoch: place.epoch,
            sequence: place.sequence,
            event: event.unwrap_or("unknown").into(),
            number: bid.map(|bid| bid.number.into()),
            bidder: text(|bid| &bid.bidder),
            account: text(|bid| &bid.account),
            maximum_micros: bid.map(|bid| bid.maximum_micros),
            currency: text(|bid| &bid.currency),
            key: text(|bid| &bid.key),
            closes_ms: lot.extended.as_ref().map(|extended| extended.closes_ms),
            reason: lot.cancelled.map(|cancelled| cancelled.reason),
            told: lot.news.map(|news| self::text(&news)),
            lot: lot.id,
        }))
    }
}

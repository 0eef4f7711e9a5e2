//! Replays an auction from its record and compares values, floors, winners and prices with the
//! recorded ones.
//!
//! What precedes clearing and does not affect prices is taken from the record: DSPs asked, refusals
//! of bids, order of ties. Floors are recomputed unless they depend on a bid's format, size or
//! duration, which are not recorded.

use std::fmt;

use openrtb::codes::NoBidReason;
use units::{Cpm, Ppm, Price, Rounding};

use super::auction::{
    AuctionRecord, BidRecord, DealRecord, EnrichmentResult, ImpRecord, SaleRecord, TermsRecord,
};
use super::difference::{ChangedValue, ReplayDifference, ValueChange};
use super::generation::{EnrichmentRecord, GenerationRecord};
use super::inputs::{BidInputs, BudgetRefusal, ClearingInputs, RecomputedClearing};
use super::limits::ID_BYTES_MAX;
use crate::answering::sale::Sale;
use crate::auction::fate::Fate;
use crate::auction::terms::{AuctionType, gross, or_max, reaches};
use crate::clearing::clear::{BidGroup, ClearingEntry, Seat};
use crate::clearing::pricing::BidTerms;
use crate::market::sold::SoldDeal;
use crate::market::{BidsReturned, NoticeMode, PublisherTerms};

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// Identical to the record.
    Same,
    /// No bid was judged, so there is nothing to recompute.
    NotHeld,
    /// The record lacks bids, so it cannot be recomputed.
    Cut,
}

/// Replays the auction of `record` under `generation`.
///
/// # Errors
/// If the replay differs from the record.
pub fn replay(
    record: &AuctionRecord<'_>,
    generation: &GenerationRecord,
) -> Result<ReplayOutcome, ReplayDifference> {
    check_generation(record, generation)?;
    let Some(terms) = &record.terms else { return Ok(ReplayOutcome::NotHeld) };
    let mut replay = ReplayComparison { record, generation, terms, changes: Vec::new() };
    replay.check_terms();
    let outcome = match () {
        () if !record.was_held() => ReplayOutcome::NotHeld,
        () if record.bids_left_out > 0 => ReplayOutcome::Cut,
        () => {
            match replay.inputs().recompute() {
                Ok(recomputed) => replay.compare(&recomputed),
                Err(unsound) if replay.changes.is_empty() => {
                    return Err(ReplayDifference::Unsound(unsound));
                }
                Err(_) => (),
            }
            ReplayOutcome::Same
        }
    };
    ReplayDifference::of(replay.changes).map_or(Ok(outcome), Err)
}

fn check_generation(
    record: &AuctionRecord<'_>,
    generation: &GenerationRecord,
) -> Result<(), ReplayDifference> {
    let (recorded, given) = (record.generation, generation.number);
    if recorded == given { Ok(()) } else { Err(ReplayDifference::Generation { recorded, given }) }
}

pub(super) struct ReplayComparison<'r, 'b> {
    pub(super) record: &'r AuctionRecord<'b>,
    pub(super) generation: &'r GenerationRecord,
    pub(super) terms: &'r TermsRecord,
    pub(super) changes: Vec<ValueChange>,
}

impl ReplayComparison<'_, '_> {
    pub(super) fn check_terms(&mut self) {
        let (record, generation) = (self.record, self.generation);
        let increment = generation.increment;
        let increment = generation.rates.convert(
            increment.amount,
            increment.currency,
            self.terms.currency,
            Rounding::Up,
        );
        let recorded = OptionalPrice(Some(self.terms.increment));
        self.expect(ChangedValue::Auction, "increment", recorded, OptionalPrice(increment));
        self.check_bidfloors();
        self.check_enrichments();
        // A truncated id cannot be looked up.
        if !record.publisher.is_some_and(may_be_cut) {
            self.check_publisher(generation.publishers.terms(record.publisher));
        }
        for at in 0..record.not_asked.len() {
            self.check_dsp(ChangedValue::NotAsked(at), record.not_asked[at].0);
        }
        for at in 0..record.calls.len() {
            self.check_dsp(ChangedValue::Call(at), record.calls[at].call.ask.dsp);
        }
    }

    fn check_publisher(&mut self, publisher: &PublisherTerms) {
        let (record, generation) = (self.record, self.generation);
        let TermsRecord { notices, bids_returned, .. } = *self.terms;
        let (was, is) = (notices.label(), publisher.notices.label());
        self.expect(ChangedValue::Auction, "notices", was, is);
        let (was, is) = (bids_returned.label(), publisher.bids.label());
        self.expect(ChangedValue::Auction, "bids_returned", was, is);
        for (at, imp) in record.imps.iter().enumerate() {
            self.expect(ChangedValue::Imp(at), "fee", imp.fee, publisher.fee);
        }
        for (at, deal) in record.deals.iter().enumerate() {
            if let Some(sold) = deal.sold {
                self.check_sold_deal(at, sold, publisher);
                continue;
            }
            if may_be_cut(deal.id) {
                continue;
            }
            let terms = generation.deals.get(deal.id);
            let class = terms.and_then(|terms| terms.priority);
            let class = class.unwrap_or(u8::from(generation.deals_first));
            let fee = terms.and_then(|terms| terms.fee).unwrap_or(publisher.fee);
            let discount = terms.filter(|_| deal.auction_type != AuctionType::Agreed);
            let discount = discount.map_or(Ppm::ZERO, |terms| terms.discount);
            self.expect(ChangedValue::Deal(at), "class", deal.class, class);
            self.expect(ChangedValue::Deal(at), "fee", deal.fee, fee);
            self.expect(ChangedValue::Deal(at), "discount", deal.discount, discount);
        }
    }

    /// Checks that enrichments are those of the generation, and that an auction lacked what it needed
    /// if and only if it was refused for that.
    fn check_enrichments(&mut self) {
        let (record, generation) = (self.record, self.generation);
        let (known, rules) = (record.enrichments.len(), generation.enrichments.len());
        self.expect(ChangedValue::Auction, "enrichments", known, rules);
        let mut of_rules = generation.enrichments.iter().zip(&record.enrichments);
        let lacks = |(rule, it): (&EnrichmentRecord, &EnrichmentResult<'_>)| {
            rule.is_required && !it.outcome.is_added()
        };
        let is_lacking = of_rules.any(lacks);
        let is_refused = record.nbr == Some(NoBidReason::DataUnknown.code());
        self.expect(ChangedValue::Auction, "refused for lack of data", is_refused, is_lacking);
    }

    /// Checks the deal at position `at` against the sold deal of the generation that it names.
    fn check_sold_deal(&mut self, at: usize, sold: usize, publisher: &PublisherTerms) {
        let (deal, subject) = (self.record.deals[at], ChangedValue::Deal(at));
        let Some(known) = self.generation.sold.get(sold) else {
            let count = self.generation.sold.len();
            self.differ(subject, "sold", sold, format_args!("one of {count}"));
            return;
        };
        let SoldDeal { price, .. } = known;
        let agreed = self.generation.rates.convert(
            price.amount,
            price.currency,
            self.terms.currency,
            Rounding::Down,
        );
        let (auction_type, is_agreed) = (deal.auction_type.label(), AuctionType::Agreed.label());
        if !may_be_cut(deal.id) {
            self.expect(subject, "id", deal.id, &*known.id);
        }
        self.expect(subject, "auction_type", auction_type, is_agreed);
        self.expect(subject, "class", deal.class, known.priority);
        self.expect(subject, "fee", deal.fee, publisher.fee);
        self.expect(subject, "discount", deal.discount, Ppm::ZERO);
        self.expect(subject, "floor", OptionalPrice(deal.floor), OptionalPrice(agreed));
    }

    /// Checks that a bid under a sold deal is the buyer's.
    fn check_buyer(&mut self, at: usize) {
        let bid = &self.record.bids[at];
        let sold = bid.deal.and_then(|deal| self.record.deals[deal].sold);
        let Some(known) = sold.and_then(|sold| self.generation.sold.get(sold)) else { return };
        self.expect(ChangedValue::Bid(at), "dsp", bid.dsp, known.dsp);
    }

    fn check_dsp(&mut self, subject: ChangedValue, dsp: usize) {
        let dsps = self.generation.dsps.len();
        if dsps <= dsp {
            self.differ(subject, "dsp", dsp, format_args!("one of {dsps}"));
        }
    }

    /// The inputs of the auction's clearing.
    pub(super) fn inputs(&mut self) -> ClearingInputs {
        let record = self.record;
        let bids: Vec<BidInputs> = (0..record.bids.len()).map(|at| self.bid(at)).collect();
        let mut groups: Vec<BidGroup> = Vec::with_capacity(record.groups.len());
        for group in &record.groups {
            groups.push(BidGroup { imps: group.imps.clone(), possible: group.is_possible, tie: 0 });
        }
        // The entry of each bid, or the next one.
        let mut entries = Vec::with_capacity(bids.len());
        let mut next = 0;
        for bid in &bids {
            entries.push(next);
            let Ok(entry) = bid.entry else { continue };
            next += 1;
            if let Some(group) = entry.group {
                groups[group].tie ^= entry.tie;
            }
        }
        let refused = record.refusals.iter().map(|refusal| BudgetRefusal {
            question: refusal.question,
            entry: entries[refusal.bid],
            price: refusal.price,
            fate: refusal.fate,
        });
        let TermsRecord { notices, bids_returned, .. } = *self.terms;
        ClearingInputs {
            currency: self.terms.currency,
            base: self.generation.base,
            rates: self.generation.rates.clone(),
            increment: self.terms.increment,
            imps: record.imps.len(),
            refusals: refused.collect(),
            groups,
            bids,
            returns_others: notices == NoticeMode::Upstream && bids_returned == BidsReturned::All,
        }
    }

    fn bid(&mut self, at: usize) -> BidInputs {
        let (record, generation) = (self.record, self.generation);
        let bid = &record.bids[at];
        let deal = bid.deal.map(|deal| &record.deals[deal]);
        let is_below = matches!(bid.fate, Fate::BelowFloor | Fate::BelowDealFloor);
        let came_to_price = bid.worth.is_some() || is_below;
        let (mut discounted_price, mut entry) = (Cpm::ZERO, Err(bid.fate));
        if came_to_price {
            let discount = deal.map_or(Ppm::ZERO, |deal| deal.discount);
            discounted_price = bid.price.map_or(Cpm::ZERO, |price| discount.taken_from(price));
            let worth = generation.rates.convert(
                discounted_price,
                bid.currency,
                self.terms.currency,
                Rounding::Down,
            );
            let counts = counts_for(bid, deal, worth.filter(|worth| *worth > Cpm::ZERO));
            self.expect(
                ChangedValue::Bid(at),
                "worth",
                OptionalPrice(bid.worth),
                OptionalPrice(counts.ok()),
            );
            self.check_floor(at, deal);
            self.check_bidder(at);
            self.check_buyer(at);
            entry = match (counts, bid.imp, bid.seat) {
                (Ok(price), Some(imp), Some(seat)) => Ok(self.entry(bid, imp, seat, price)),
                (counts, ..) => Err(counts.err().unwrap_or(bid.fate)),
            };
        }
        let terms = bid.imp.map(|imp| self.terms_of(bid, &record.imps[imp], discounted_price));
        BidInputs { entry, terms, is_out_of_reach: bid.is_out_of_reach }
    }

    fn entry(&self, bid: &BidRecord<'_>, imp: usize, seat: usize, price: Cpm) -> ClearingEntry {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        ClearingEntry {
            imp,
            seat: Seat { dsp: bid.dsp, seat },
            class: deal.map_or(0, |deal| deal.class),
            auction_type: deal.map_or(self.terms.auction_type, |deal| deal.auction_type),
            price,
            floor: bid.floor.unwrap_or(Cpm::ZERO),
            tie: bid.tie,
            group: bid.group,
            is_deal: deal.is_some(),
            barred: bid.barred,
        }
    }

    fn terms_of(
        &self,
        bid: &BidRecord<'_>,
        imp: &ImpRecord<'_>,
        discounted_price: Cpm,
    ) -> BidTerms {
        let deal = bid.deal.map(|deal| &self.record.deals[deal]);
        BidTerms {
            currency: bid.currency,
            discounted_price,
            floor: bid.floor,
            fee: deal.map_or(imp.fee, |deal| deal.fee),
            discount: deal.map_or(Ppm::ZERO, |deal| deal.discount),
            class: deal.map_or(0, |deal| deal.class),
            is_agreed: deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed),
            multiplier: imp.multiplier,
        }
    }

    /// Checks a floor as far as the record allows: an agreed price or a plain floor exactly, and
    /// otherwise that an open bid's floor is at least the impression's own.
    fn check_floor(&mut self, at: usize, deal: Option<&DealRecord<'_>>) {
        let bid = &self.record.bids[at];
        let (Some(floor), Some(imp)) = (bid.floor, bid.imp) else { return };
        match deal {
            Some(deal) if deal.auction_type == AuctionType::Agreed => {
                let agreed = OptionalPrice(deal.floor);
                self.expect(ChangedValue::Bid(at), "floor", OptionalPrice(Some(floor)), agreed);
            }
            Some(deal) if deal.is_floor_plain => {
                let plain = deal.floor.or_else(|| self.inherited(imp, deal));
                self.expect(
                    ChangedValue::Bid(at),
                    "floor",
                    OptionalPrice(Some(floor)),
                    OptionalPrice(plain),
                );
            }
            Some(_) => (),
            None if self.record.imps[imp].is_floor_plain => {
                let shown = self.record.imps[imp].shown_floor;
                self.expect(ChangedValue::Bid(at), "floor", floor, shown);
            }
            None => {
                let least = self.record.imps[imp].bidfloor;
                if floor < least {
                    self.differ(
                        ChangedValue::Bid(at),
                        "floor",
                        floor,
                        format_args!("at least {least}"),
                    );
                }
            }
        }
    }

    fn inherited(&self, imp: usize, deal: &DealRecord<'_>) -> Option<Cpm> {
        let Some(net) = self.record.imps[imp].bidfloor_net else { return Some(Cpm::ZERO) };
        self.gross(net, deal.fee)
    }

    /// The floor for DSPs at which the publisher nets `net`, in the auction's currency.
    fn gross(&self, net: Price, fee: Ppm) -> Option<Cpm> {
        let (rates, to) = (&self.generation.rates, self.terms.currency);
        let rate = rates.ratio(net.currency, to)?;
        Some(or_max(gross(net.amount, rate, fee)))
    }

    fn check_bidfloors(&mut self) {
        for at in 0..self.record.imps.len() {
            let imp = self.record.imps[at];
            let Some(net) = imp.bidfloor_net else { continue };
            // An impression without a rate was not sold, so its floor does not matter.
            if let Some(floor) = self.gross(net, imp.fee) {
                self.expect(ChangedValue::Imp(at), "bidfloor", imp.bidfloor, floor);
            }
            if imp.shown_floor < imp.bidfloor {
                let least = format_args!("at least {}", imp.bidfloor);
                self.differ(ChangedValue::Imp(at), "shown_floor", imp.shown_floor, least);
            }
        }
    }

    fn check_bidder(&mut self, at: usize) {
        let bid = &self.record.bids[at];
        let Some(dsp) = self.generation.dsps.get(bid.dsp) else { return }; // Its call was reported.
        let seats = dsp.seats.len();
        if let Some(seat) = bid.seat.filter(|seat| seats <= *seat) {
            self.differ(ChangedValue::Bid(at), "seat", seat, format_args!("one of {seats}"));
        }
        if !dsp.currencies.contains(&bid.currency) {
            self.differ(
                ChangedValue::Bid(at),
                "currency",
                bid.currency,
                "one that its DSP bids in",
            );
        }
    }

    fn compare(&mut self, recomputed: &RecomputedClearing) {
        for (at, (bid, fate)) in self.record.bids.iter().zip(&recomputed.fates).enumerate() {
            if bid.fate != *fate {
                self.differ(ChangedValue::Bid(at), "fate", bid.fate.label(), fate.label());
            }
        }
        let (was, is) = (&self.record.sales, &recomputed.sales);
        for at in 0..was.len().max(is.len()) {
            let subject = ChangedValue::Sale(at);
            match (was.get(at), is.get(at).zip(recomputed.prices.get(at))) {
                (Some(was), Some((sale, price))) => self.compare_sale(at, was, sale, *price),
                (Some(was), None) => self.differ(subject, "bid", was.bid, "none"),
                (None, Some((sale, _))) => self.differ(subject, "bid", "none", sale.bid),
                (None, None) => (),
            }
        }
    }

    fn compare_sale(&mut self, at: usize, was: &SaleRecord, sale: &Sale, price: Cpm) {
        let subject = ChangedValue::Sale(at);
        self.expect(subject, "bid", was.bid, sale.bid);
        self.expect(subject, "price", was.price, price);
        self.expect(subject, "net", was.net, sale.net);
        self.expect(subject, "paid", was.paid, sale.paid);
        self.expect(
            subject,
            "min_to_win",
            OptionalPrice(was.min_to_win),
            OptionalPrice(sale.min_to_win),
        );
        self.expect(subject, "revenue", was.revenue, sale.revenue);
    }

    fn expect<T: PartialEq + fmt::Display>(
        &mut self,
        subject: ChangedValue,
        field: &'static str,
        recorded: T,
        recomputed: T,
    ) {
        if recorded != recomputed {
            self.differ(subject, field, recorded, recomputed);
        }
    }

    fn differ(
        &mut self,
        subject: ChangedValue,
        field: &'static str,
        recorded: impl fmt::Display,
        recomputed: impl fmt::Display,
    ) {
        let (recorded, recomputed) = (recorded.to_string(), recomputed.to_string());
        let name = self.name(subject);
        self.changes.push(ValueChange { subject, name, field, recorded, recomputed });
    }

    fn name(&self, subject: ChangedValue) -> String {
        let record = self.record;
        let dsp = |dsp: usize| self.generation.dsps.get(dsp);
        let bid = |at: usize| {
            let bid = &record.bids[at];
            let dsp = dsp(bid.dsp);
            let seat = dsp.zip(bid.seat).and_then(|(dsp, seat)| dsp.seats.get(seat));
            let seat = seat.map_or("?", |seat| seat);
            format!("{}, seat {seat}, id {:?}", dsp.map_or("?", |dsp| &dsp.id), bid.id)
        };
        match subject {
            ChangedValue::Auction => String::new(),
            ChangedValue::Imp(at) => format!("id {:?}", record.imps[at].id),
            ChangedValue::Deal(at) => format!("id {:?}", record.deals[at].id),
            ChangedValue::NotAsked(at) => {
                dsp(record.not_asked[at].0).map_or("?", |dsp| &dsp.id).into()
            }
            ChangedValue::Call(at) => {
                dsp(record.calls[at].call.ask.dsp).map_or("?", |dsp| &dsp.id).into()
            }
            ChangedValue::Bid(at) => bid(at),
            ChangedValue::Sale(at) => {
                record.sales.get(at).map_or_else(String::new, |sale| bid(sale.bid))
            }
        }
    }
}

fn counts_for(
    bid: &BidRecord<'_>,
    deal: Option<&DealRecord<'_>>,
    worth: Option<Cpm>,
) -> Result<Cpm, Fate> {
    // A price that converts to zero reaches no floor.
    let Some(worth) = worth else { return Err(Fate::BelowDealFloor) };
    let below = if deal.is_some() { Fate::BelowDealFloor } else { Fate::BelowFloor };
    let floor = bid.floor.filter(|floor| reaches(worth, *floor)).ok_or(below)?;
    let is_agreed = deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed);
    Ok(if is_agreed { floor } else { worth })
}

/// Whether the record may have truncated the id.
fn may_be_cut(id: &str) -> bool {
    // A character has at most four bytes.
    id.len() + 4 > ID_BYTES_MAX
}

#[derive(PartialEq)]
struct OptionalPrice(Option<Cpm>);

impl fmt::Display for OptionalPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(price) => price.fmt(f),
            None => f.write_str("none"),
        }
    }
}

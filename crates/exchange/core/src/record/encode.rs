//! Encodes the record of an auction: the inputs and results of its clearing. Allocates only to grow
//! the buffer, and to check URLs of win notices that serve ads of losers.

use std::time::Duration;

use events::{MessageWriter, RECORD_BYTES_MAX, VERSION, fields};
use openrtb::BidRequest;
use openrtb::codes::NoBidReason;
use strum::{IntoStaticStr, VariantArray};
use units::{Cpm, Multiplier};

use super::codes::SchemaCode;
use super::inputs::{BudgetRefusal, is_out_of_reach};
use super::limits::{BIDS_MAX, ID_BYTES_MAX};
use super::outcome::{AuctionEnding, CallOutcome};
use crate::answering::sale::Sale;
use crate::asking::eligibility::BidderCall;
use crate::asking::not_asked::NotAsked;
use crate::auction::Auction;
use crate::auction::enriched::AuctionEnrichment;
use crate::auction::terms::{AuctionDeal, AuctionType, ImpTerms, gross, or_max};
use crate::judging::judge::ResponseFate;
use crate::notices::conclude::ClearedAuction;

const MARGIN: usize = 16;

/// A finished auction.
#[derive(Clone, Copy, Debug)]
pub struct AuctionContext<'p> {
    /// Our auction id.
    pub id: &'p str,
    /// The caller's request, validated.
    pub request: &'p BidRequest<'p>,
    /// Generation of the configuration.
    pub generation: u64,
    /// Arrival of the request's head, in microseconds of Unix time.
    pub arrival_unix_us: u64,
    /// When its phases ended.
    pub timings: Timings,
    /// How it ended.
    pub ending: AuctionEnding,
    /// Why nothing was sold. None if something was.
    pub no_bid: Option<NoBidReason>,
    /// None if it was refused before its terms were known.
    pub auction: Option<&'p Auction<'p>>,
    /// None if no answers were judged.
    pub judged: Option<JudgedAuction<'p>>,
    /// The bodies to record.
    pub bodies: RecordedBodies<'p>,
}

/// When each phase of an auction ended, since its arrival. None for phases it did not reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// The request was parsed.
    pub parsed: Option<Duration>,
    /// The DSPs to ask were selected.
    pub asked: Option<Duration>,
    /// All DSPs had answered, or time was up.
    pub closed: Option<Duration>,
    /// Winners and prices were known.
    pub cleared: Option<Duration>,
    /// The response was written.
    pub answered: Option<Duration>,
    /// Microseconds then left until the deadline; negative if it was late.
    pub left_us: i64,
}

/// Judged answers and their results.
#[derive(Clone, Copy, Debug)]
pub struct JudgedAuction<'p> {
    /// Answers, judgement, clearing and sales.
    pub cleared: ClearedAuction<'p, 'p>,
    /// Refusals by accounts during clearing and [`crate::offer_others`].
    pub refusals: &'p [BudgetRefusal],
}

/// The bodies to record, if the auction is sampled.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordedBodies<'p> {
    /// The request's body, [masked](crate::Masks::apply).
    pub request: Option<&'p [u8]>,
    /// Whether to record the bodies of answers too.
    pub answers: bool,
}

/// A DSP that was asked, and the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// What it was asked for.
    pub ask: BidderCall,
    /// The `tmax` sent to it.
    pub tmax_ms: u32,
    /// The outcome of the call.
    pub outcome: CallOutcome,
    /// When it was sent, since the auction's arrival. None if it was not.
    pub sent: Option<Duration>,
    /// From sending to the answer, if that came in time.
    pub latency: Option<Duration>,
}

/// How much of an auction was recorded. A record has at most [`RECORD_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RecordedExtent {
    /// Everything.
    Whole,
    /// Everything but bodies, which would have exceeded the limit.
    WithoutBodies,
    /// Only those bids that were sold: the auction cannot be recomputed.
    SoldBidsOnly,
}

units::labelled!(RecordedExtent);

/// Appends the record of an auction to `out`. `not_asked` and `calls` are DSPs by position in the
/// market, both in market order.
///
/// Returns how much was recorded. None, with nothing written, if not even the calls fit.
pub fn encode(
    context: &AuctionContext<'_>,
    not_asked: impl IntoIterator<Item = (usize, NotAsked)>,
    calls: impl IntoIterator<Item = RecordedCall>,
    out: &mut Vec<u8>,
) -> Option<RecordedExtent> {
    let mut record = MessageWriter::new(out);
    write_head(&mut record, context);
    if let Some(auction) = context.auction {
        write_auction(&mut record, auction);
    }
    for (dsp, reason) in not_asked {
        record.message(fields::auction::NOT_ASKED, |out| {
            out.position(fields::not_asked::DSP, dsp);
            out.uint(fields::not_asked::REASON, reason.number());
        });
    }
    let mut judged = RecordedAnswers::new(context.judged.as_ref());
    for call in calls {
        let imps = context.auction.map_or(0, Auction::imps_len);
        record.message(fields::auction::CALLS, |out| write_call(out, &call, imps, &mut judged));
    }
    let mut kept = RecordedExtent::Whole;
    if let (Some(auction), Some(judged)) = (context.auction, &context.judged) {
        kept = RecordedBids { auction, judged }.write(&mut record);
    }
    if record.len() + enrichments_len(context.auction) + MARGIN > RECORD_BYTES_MAX {
        record.truncate(0);
        return None;
    }
    kept = kept.max(write_bodies(&mut record, context));
    for enrichment in context.auction.map_or(&[][..], Auction::enrichments) {
        record.message(fields::auction::ENRICHMENTS, |out| write_enriched(out, enrichment));
    }
    record.finish();
    Some(kept)
}

fn write_head(record: &mut MessageWriter<'_>, context: &AuctionContext<'_>) {
    use fields::auction as field;
    let request = context.request;
    record.uint(field::VERSION, VERSION.into());
    record.text(field::ID, cut(context.id));
    record.text(field::CALLER_ID, request.id.as_ref().map_or("", |id| cut(id)));
    record.uint(field::GENERATION, context.generation);
    record.uint(field::ARRIVAL_UNIX_US, context.arrival_unix_us);
    record.message(field::MOMENTS, |out| write_timings(out, &context.timings));
    record.present_text(field::PUBLISHER, request.publisher_id().map(cut));
    record.flag(field::IS_TEST, request.is_test());
    record.present_uint(field::TMAX_MS, request.tmax.as_ref().map(|tmax| u64::from(**tmax)));
    record.uint(field::ENDING, context.ending.number());
    record.present_uint(field::NBR, context.no_bid.map(|reason| reason.code().into()));
}

fn write_timings(out: &mut MessageWriter<'_>, timings: &Timings) {
    use fields::moments as field;
    out.present_uint(field::PARSED_US, timings.parsed.map(micros));
    out.present_uint(field::ASKED_US, timings.asked.map(micros));
    out.present_uint(field::CLOSED_US, timings.closed.map(micros));
    out.present_uint(field::CLEARED_US, timings.cleared.map(micros));
    out.present_uint(field::ANSWERED_US, timings.answered.map(micros));
    out.sint(field::LEFT_US, timings.left_us);
}

fn write_auction(record: &mut MessageWriter<'_>, auction: &Auction<'_>) {
    record.message(fields::auction::TERMS, |out| {
        use fields::terms as field;
        let terms = auction.publisher_terms();
        out.text(field::CURRENCY, auction.currency.code());
        out.uint(field::AUCTION_TYPE, auction.auction_type.number());
        out.uint(field::INCREMENT_MICROS, auction.increment.micros());
        out.uint(field::NOTICES, terms.notices.number());
        out.uint(field::BIDS_RETURNED, terms.bids.number());
    });
    for imp in &auction.imps {
        record.message(fields::auction::IMPS, |out| write_imp(out, imp));
    }
    for (imp, terms) in auction.imps.iter().enumerate() {
        let deals = &auction.deals[terms.deals_start..][..terms.imp.deals().len()];
        for deal in deals {
            record.message(fields::auction::DEALS, |out| write_deal(out, imp, terms, deal));
        }
    }
    for (imp, terms) in auction.imps.iter().enumerate() {
        for deal in &auction.deals[terms.sold.clone()] {
            record.message(fields::auction::DEALS, |out| write_deal(out, imp, terms, deal));
        }
    }
}

fn write_imp(out: &mut MessageWriter<'_>, imp: &ImpTerms<'_>) {
    use fields::imp as field;
    let shown = Some(imp.shown_floor()).filter(|shown| *shown != imp.floor);
    out.text(field::ID, cut(imp.id));
    out.uint(field::FORMATS, imp.imp.formats().into());
    out.flag(field::IS_PRIVATE, imp.imp.is_private());
    out.uint(field::BIDFLOOR_MICROS, imp.floor.micros());
    out.present_uint(field::SHOWN_FLOOR_MICROS, shown.map(Cpm::micros));
    out.uint(field::FEE_PPM, imp.fee.get().into());
    if imp.multiplier != Multiplier::ONE {
        out.uint(field::MULTIPLIER_MILLIONTHS, millionths(imp.multiplier));
    }
    if let Some(floor) = imp.imp.bidfloor.as_ref().filter(|_| imp.has_rate) {
        out.present_uint(field::BIDFLOOR_NET_MICROS, Some(floor.amount.micros()));
        out.text(field::BIDFLOOR_CURRENCY, imp.floor_currency.code());
    }
    out.flag(field::IS_FLOOR_PLAIN, imp.has_plain_floor());
}

fn write_deal(out: &mut MessageWriter<'_>, at: usize, imp: &ImpTerms<'_>, deal: &AuctionDeal<'_>) {
    use fields::deal as field;
    let plain = |floor: openrtb::FloorPrice<'_>| or_max(gross(floor.amount, deal.rate, deal.fee));
    let floor = match deal.auction_type {
        AuctionType::Agreed => Some(deal.agreed_price()),
        _ => deal.deal.bidfloor.map(plain),
    };
    out.position(field::IMP, at);
    out.text(field::ID, cut(deal.id));
    out.uint(field::AUCTION_TYPE, deal.auction_type.number());
    out.uint(field::CLASS, deal.class.into());
    out.uint(field::FEE_PPM, deal.fee.get().into());
    out.uint(field::DISCOUNT_PPM, deal.discount().get().into());
    out.present_uint(field::FLOOR_MICROS, floor.map(Cpm::micros));
    out.flag(field::IS_FLOOR_PLAIN, imp.has_plain_deal_floor(deal));
    out.present_position(field::SOLD, deal.sold);
}

fn write_call(
    out: &mut MessageWriter<'_>,
    call: &RecordedCall,
    imps: usize,
    judged: &mut RecordedAnswers<'_>,
) {
    use fields::call as field;
    let RecordedCall { ask, tmax_ms, mut outcome, sent, latency } = *call;
    let mut response = None;
    if outcome == CallOutcome::Answered {
        response = judged.response_of(ask.dsp);
        if response == Some(ResponseFate::Malformed) {
            outcome = CallOutcome::Malformed;
        }
    }
    out.position(field::DSP, ask.dsp);
    if ask.imps != all(imps) {
        out.uint(field::IMPS, ask.imps);
    }
    let mut deals = ask.deals;
    let deals = std::iter::from_fn(|| {
        let deal = deals.trailing_zeros();
        deals &= deals.wrapping_sub(1);
        (deal < u128::BITS).then_some(deal)
    });
    out.packed(field::DEALS, deals.map(u64::from));
    out.uint(field::TMAX_MS, tmax_ms.into());
    out.uint(field::OUTCOME, outcome.number());
    out.present_uint(field::SENT_US, sent.map(micros));
    out.present_uint(field::LATENCY_US, latency.map(micros));
    out.present_uint(field::RESPONSE, response.map(ResponseFate::number));
}

/// The set of the first `imps` impressions.
pub(super) const fn all(imps: usize) -> u64 {
    if imps < 64 { (1 << imps) - 1 } else { u64::MAX }
}

struct RecordedAnswers<'p> {
    judged: Option<&'p JudgedAuction<'p>>,
    next: usize,
}

impl<'p> RecordedAnswers<'p> {
    const fn new(judged: Option<&'p JudgedAuction<'p>>) -> Self {
        Self { judged, next: 0 }
    }

    /// The fate of `dsp`'s answer. None if it was not judged.
    fn response_of(&mut self, dsp: usize) -> Option<ResponseFate> {
        let JudgedAuction { cleared, .. } = self.judged?;
        let answer = cleared.answers.get(self.next)?;
        if answer.ask.dsp != dsp {
            return None;
        }
        self.next += 1;
        Some(cleared.judgement.responses[self.next - 1])
    }
}

#[derive(Clone, Copy)]
struct RecordedBids<'p> {
    auction: &'p Auction<'p>,
    judged: &'p JudgedAuction<'p>,
}

impl RecordedBids<'_> {
    fn write(self, record: &mut MessageWriter<'_>) -> RecordedExtent {
        let before = record.len();
        if self.write_all(record).is_some() {
            return RecordedExtent::Whole;
        }
        record.truncate(before);
        self.write_sold(record);
        RecordedExtent::SoldBidsOnly
    }

    fn write_all(self, record: &mut MessageWriter<'_>) -> Option<()> {
        use fields::auction as field;
        let JudgedAuction { cleared, refusals } = *self.judged;
        let bids = cleared.judgement.bids.len();
        let room = RECORD_BYTES_MAX - enrichments_len(Some(self.auction));
        let fits = |record: &MessageWriter<'_>| record.len() + MARGIN <= room;
        for bid in 0..bids {
            record.message(field::BIDS, |out| self.write_bid(out, bid, true));
            if !fits(record) {
                return None;
            }
        }
        for group in &cleared.judgement.groups {
            record.message(field::GROUPS, |out| {
                out.packed(fields::group::IMPS, group.imps.iter().map(|imp| *imp as u64));
                out.flag(fields::group::IS_POSSIBLE, group.possible);
            });
        }
        for refused in refusals {
            record.message(field::REFUSALS, |out| self.write_refusal(out, refused));
        }
        for sale in cleared.sales {
            record.message(field::SALES, |out| self.write_sale(out, sale, sale.bid));
        }
        (fits(record) && bids <= BIDS_MAX).then_some(())
    }

    fn write_sold(self, record: &mut MessageWriter<'_>) {
        use fields::auction as field;
        let ClearedAuction { judgement, sales, .. } = self.judged.cleared;
        for sale in sales {
            record.message(field::BIDS, |out| self.write_bid(out, sale.bid, false));
        }
        for (bid, sale) in sales.iter().enumerate() {
            record.message(field::SALES, |out| self.write_sale(out, sale, bid));
        }
        record.position(field::BIDS_LEFT_OUT, judgement.bids.len() - sales.len());
    }

    fn write_bid(self, out: &mut MessageWriter<'_>, index: usize, with_group: bool) {
        use fields::bid as field;
        let ClearedAuction { answers, judgement, clearing, .. } = self.judged.cleared;
        let judged = &judgement.bids[index];
        let bid = judged.bid.as_ref();
        let entry = judged.entry.map(|entry| (&judgement.entries[entry], clearing.fates[entry]));
        let price = bid.and_then(|bid| bid.price().ok());
        out.position(field::DSP, answers[judged.answer].ask.dsp);
        out.present_position(field::SEAT, judged.seat.map(|seat| seat.seat));
        out.present_position(field::IMP, judged.imp);
        out.text(field::ID, bid.and_then(|bid| bid.id.as_deref()).map_or("", cut));
        if judged.currency != self.auction.currency {
            out.text(field::CURRENCY, judged.currency.code());
        }
        out.present_uint(field::PRICE_MICROS, price.map(Cpm::micros));
        out.present_position(field::DEAL, judged.deal);
        out.present_uint(field::FLOOR_MICROS, judged.floor.map(Cpm::micros));
        if let Ok((entry, _)) = entry {
            out.present_uint(field::WORTH_MICROS, Some(entry.price.micros()));
            out.fixed64(field::TIE, entry.tie);
            out.present_position(field::GROUP, entry.group.filter(|_| with_group));
            out.uint(field::BARRED, entry.barred.map_or(0, SchemaCode::number));
            let out_of_reach = is_out_of_reach(self.auction, judgement, index);
            out.flag(field::IS_OUT_OF_REACH, out_of_reach);
        }
        out.uint(field::FATE, entry.map_or_else(|fate| fate, |(_, fate)| fate).number());
        let campaign = bid.and_then(openrtb::Bid::campaign);
        out.text(field::CAMPAIGN, campaign.as_deref().map_or("", cut));
    }

    fn write_refusal(self, out: &mut MessageWriter<'_>, refused: &BudgetRefusal) {
        use fields::refusal as field;
        out.position(field::QUESTION, refused.question);
        out.position(field::BID, self.judged.cleared.judgement.bid_of(refused.entry));
        out.uint(field::PRICE_MICROS, refused.price.micros());
        out.uint(field::FATE, refused.fate.number());
    }

    fn write_sale(self, out: &mut MessageWriter<'_>, sale: &Sale, bid: usize) {
        use fields::sale as field;
        out.position(field::BID, bid);
        out.uint(field::PRICE_MICROS, self.clearing_price(sale).micros());
        out.uint(field::NET_MICROS, sale.net.micros());
        out.uint(field::PAID_MICROS, sale.paid.micros());
        out.present_uint(field::MIN_TO_WIN_MICROS, sale.min_to_win.map(Cpm::micros));
        out.uint(field::REVENUE_NANOS, sale.revenue.get());
    }

    fn clearing_price(self, sale: &Sale) -> Cpm {
        let ClearedAuction { judgement, clearing, .. } = self.judged.cleared;
        let entry = judgement.bids[sale.bid].entry.expect("what is sold took part");
        let wins = clearing.wins.iter().flatten().chain(&clearing.also_returned);
        let mut of_entry = wins.filter(|win| win.entry == entry);
        of_entry.next().expect("a sale is of a win").price
    }
}

fn write_bodies(record: &mut MessageWriter<'_>, context: &AuctionContext<'_>) -> RecordedExtent {
    let RecordedBodies { request, answers } = context.bodies;
    let answers = context.judged.as_ref().filter(|_| answers);
    let answers = answers.map_or(&[][..], |judged| judged.cleared.answers);
    let bodies = request.into_iter().chain(answers.iter().map(|answer| answer.body));
    let len: usize = bodies.map(|body| body.len() + MARGIN).sum();
    let len = len + enrichments_len(context.auction);
    if record.len() + len + MARGIN > RECORD_BYTES_MAX {
        return RecordedExtent::WithoutBodies;
    }
    record.present_bytes(fields::auction::REQUEST, request);
    for answer in answers {
        record.message(fields::auction::ANSWERS, |out| {
            out.position(fields::answer::DSP, answer.ask.dsp);
            out.bytes(fields::answer::BODY, answer.body);
        });
    }
    RecordedExtent::Whole
}

/// Most bytes of the auction's enrichments in the record.
fn enrichments_len(auction: Option<&Auction<'_>>) -> usize {
    let texts = auction.map_or(&[][..], Auction::enrichments).iter();
    texts.map(|it| it.text.as_ref().map_or(0, |text| text.len()) + 2 * MARGIN).sum()
}

fn write_enriched(out: &mut MessageWriter<'_>, enrichment: &AuctionEnrichment) {
    use fields::enrichment_result as field;
    let AuctionEnrichment { outcome, text, age } = enrichment;
    out.uint(field::OUTCOME, outcome.number());
    out.text(field::TEXT, text.as_deref().unwrap_or_default());
    out.uint(field::AGE_MS, u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
}

fn micros(duration: Duration) -> u64 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX).into()
}

/// A price of one unit costs as many nanos as the multiplier has millionths.
fn millionths(multiplier: Multiplier) -> u64 {
    const UNIT: Cpm = match Cpm::new(1_000_000) {
        Some(unit) => unit,
        None => Cpm::ZERO,
    };
    UNIT.cost(multiplier).expect("a million viewers pay less than 2^64 nanos").get()
}

pub(super) fn cut(id: &str) -> &str {
    if id.len() <= ID_BYTES_MAX { id } else { &id[..id.floor_char_boundary(ID_BYTES_MAX)] }
}

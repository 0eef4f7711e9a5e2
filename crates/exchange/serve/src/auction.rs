//! The life of one auction on its shard: parse, choose, ask, collect, clear, answer.
//!
//! It makes no decision about money: those are `exchange-core`'s.

use std::rc::Rc;
use std::time::Duration;

use exchange_core::{
    Answer, Ask, Auction, Judgement, Refusal, Sale, Schedule, clear, eligible, judge, outbound,
    response, sales,
};
use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, Invalid, parse_request};
use tokio::time::Instant;

use crate::fanout::{Outcome, Outcomes, Question, ask_all};
use crate::shard::{Shard, Snapshot};

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// 200 with this body.
    Bid(String),
    /// No sale; `id` is the JSON text of the caller's id.
    NoBid {
        /// The caller's id, as JSON.
        id: String,
        /// Why.
        reason: NoBidReason,
    },
    /// 400 with a body that says what is wrong.
    Invalid(Invalid),
}

/// Holds one auction by the configuration in `snapshot`. `arrival` is when the request's head came.
pub async fn hold(shard: &Shard, snapshot: &Rc<Snapshot>, body: &[u8], arrival: Instant) -> Reply {
    let reply = Holding { shard, snapshot, arrival }.reply(body).await;
    match &reply {
        Reply::Bid(_) => shard.metrics.filled.increment(),
        Reply::NoBid { reason, .. } => shard.metrics.count_no_bid(*reason),
        Reply::Invalid(invalid) => {
            shard.metrics.invalid[invalid.reason as usize].increment();
            shard.metrics.count_no_bid(NoBidReason::InvalidRequest);
        }
    }
    reply
}

/// An auction under way.
#[derive(Clone, Copy)]
struct Holding<'s> {
    shard: &'s Shard,
    snapshot: &'s Snapshot,
    arrival: Instant,
}

/// A valid request, and when it had been read.
#[derive(Clone, Copy)]
struct Inbound<'r> {
    id: &'r str,
    request: &'r BidRequest<'r>,
    body: &'r str,
    parsed: Instant,
}

impl Holding<'_> {
    async fn reply(self, body: &[u8]) -> Reply {
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("not UTF-8 at byte {}", error.valid_up_to());
                return Reply::Invalid(Invalid::at(openrtb::Reason::NotJson, "", problem));
            }
        };
        let request = match parse_request(text) {
            Ok(request) => request,
            Err(invalid) => return Reply::Invalid(invalid),
        };
        let parsed = Instant::now();
        self.shard.metrics.parse.record(parsed - self.arrival);
        let id = self.shard.next_id();
        let inbound = Inbound { id: &id, request: &request, body: text, parsed };
        match self.hold(inbound).await {
            Ok(body) => Reply::Bid(body),
            Err(Refusal::Invalid(invalid)) => Reply::Invalid(invalid),
            Err(Refusal::NoBid(reason)) => {
                let id = request.id.as_ref().map_or("\"\"", |id| id.raw());
                Reply::NoBid { id: id.to_owned(), reason }
            }
        }
    }

    async fn hold(self, inbound: Inbound<'_>) -> Result<String, Refusal> {
        let Inbound { id, request, body, parsed } = inbound;
        let (shard, config) = (self.shard, self.snapshot.config());
        let tmax = request.tmax.as_ref().map(|tmax| **tmax);
        let schedule = Schedule::new(shard.tick(self.arrival), tmax, &config.limits)
            .ok_or(Refusal::NoBid(NoBidReason::InsufficientAuctionTime))?;
        // A body that was slow to come has used the time up.
        if !schedule.suffices(self.shard.tick(parsed)) {
            return Err(Refusal::NoBid(NoBidReason::InsufficientAuctionTime));
        }
        let auction = Auction::new(id, request, &config.market)?;
        let asks = self.eligible(&auction);
        if asks.is_empty() {
            return Err(Refusal::NoBid(NoBidReason::NoEligibleDsp));
        }
        let outbound = outbound(&auction, body);
        let questions = self.questions(&auction, &schedule, &asks);
        self.shard.metrics.impressions.add(auction.imps_len() as u64);
        self.shard.metrics.ask.record(parsed.elapsed());
        let abandoned = Abandoned { holding: Some(self), asks: &asks };
        let asked = Instant::now();
        let outcomes = ask_all(&outbound, &questions, shard.room()).await;
        abandoned.disarm();
        let closed = Instant::now();
        self.shard.metrics.collect.record(closed - asked);
        let answer = self.conclude(&auction, &asks, &outcomes);
        let done = Instant::now();
        self.shard.metrics.clear.record(done - closed);
        self.shard.metrics.total.record(done - self.arrival);
        let overshoot = self.shard.tick(done).since(schedule.deadline);
        if overshoot > Duration::ZERO {
            self.shard.metrics.overshoot.record(overshoot);
        }
        let answer = answer.ok_or_else(|| Refusal::NoBid(why_nothing(&outcomes.calls)));
        shard.keep_room(outcomes.into_room());
        answer
    }

    fn eligible(&self, auction: &Auction<'_>) -> Vec<Ask> {
        let dsps = 0..auction.market.dsps.len();
        let ask = |dsp| match eligible(auction, dsp) {
            Ok(ask) => Some(ask),
            Err(reason) => {
                self.snapshot.dsps[dsp].metrics.not_asked[reason as usize].increment();
                None
            }
        };
        dsps.filter_map(ask).collect()
    }

    fn questions<'q>(
        &'q self,
        auction: &'q Auction<'_>,
        schedule: &Schedule,
        asks: &[Ask],
    ) -> Vec<Question<'q>> {
        let now = self.shard.tick(Instant::now());
        let ext = auction.request.user.as_ref().and_then(|user| user.ext.as_ref());
        let own = ext.and_then(|ext| ext.buyeruids.as_ref());
        let prebid = ext.and_then(|ext| ext.prebid.as_ref()?.buyeruids.as_ref());
        let question = |ask: &Ask| {
            let dsp = &auction.market.dsps[ask.dsp];
            let mut uids = own.into_iter().chain(prebid);
            Question {
                pool: &self.snapshot.dsps[ask.dsp].pool,
                imps: ask.imps,
                deals: ask.deals,
                tmax_ms: schedule.dsp_tmax_ms(now, dsp.timeout),
                buyeruid: uids.find_map(|uids| uids.raw_of(&dsp.id)),
                wait_until: self.shard.instant(schedule.wait_until(now, dsp.timeout)),
            }
        };
        asks.iter().map(question).collect()
    }

    /// Judges, clears and writes the answer; `None` when nothing is sold.
    fn conclude(&self, auction: &Auction<'_>, asks: &[Ask], outcomes: &Outcomes) -> Option<String> {
        let mut answers = Vec::with_capacity(asks.len());
        for (call, (ask, outcome)) in asks.iter().zip(&outcomes.calls).enumerate() {
            self.snapshot.dsps[ask.dsp].metrics.outcomes[*outcome as usize].increment();
            if *outcome == Outcome::Answered {
                answers.push(Answer { ask: *ask, body: outcomes.body(call) });
            }
        }
        let judgement = judge(auction, &answers);
        for (answer, fate) in answers.iter().zip(&judgement.responses) {
            self.snapshot.dsps[answer.ask.dsp].metrics.responses[*fate as usize].increment();
        }
        let clearing = clear(
            &judgement.entries,
            &judgement.groups,
            auction.imps_len(),
            auction.increment,
            // No service keeps accounts: every seat may pay.
            |_| true,
        );
        let sales = sales(auction, &judgement, &clearing);
        for bid in &judgement.bids {
            let fate = match bid.verdict {
                Ok(entry) => clearing.fates[entry],
                Err(fate) => fate,
            };
            self.shard.metrics.fates[fate as usize].increment();
        }
        self.book(auction, &judgement, &sales);
        if sales.is_empty() {
            return None;
        }
        Some(response(auction, &answers, &judgement, &sales))
    }

    /// Counts what was sold; a test sells nothing.
    fn book(&self, auction: &Auction<'_>, judgement: &Judgement<'_>, sales: &[Sale]) {
        if auction.request.is_test() {
            self.shard.metrics.tests.increment();
            return;
        }
        self.shard.metrics.sold.add(sales.len() as u64);
        for sale in sales {
            let seat = judgement.bids[sale.bid].seat.expect("a winner has a seat");
            let seat = &self.snapshot.dsps[seat.dsp].seats[seat.seat];
            seat.wins.increment();
            seat.revenue_nanos.add(sale.revenue.get());
        }
    }
}

/// Without a sale: our fault when not one DSP could be asked, else nobody bid enough.
fn why_nothing(calls: &[Outcome]) -> NoBidReason {
    let never_asked = |outcome: &Outcome| {
        matches!(outcome, Outcome::Unreachable | Outcome::Unresolved | Outcome::Saturated)
    };
    if calls.iter().all(never_asked) { NoBidReason::TechnicalError } else { NoBidReason::Unknown }
}

/// Counts an auction and its calls as abandoned, unless it got its answers.
struct Abandoned<'s> {
    holding: Option<Holding<'s>>,
    asks: &'s [Ask],
}

impl Abandoned<'_> {
    fn disarm(mut self) {
        self.holding = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(Holding { shard, snapshot, .. }) = self.holding else { return };
        shard.metrics.abandoned.increment();
        for ask in self.asks {
            snapshot.dsps[ask.dsp].metrics.outcomes[Outcome::Abandoned as usize].increment();
        }
    }
}

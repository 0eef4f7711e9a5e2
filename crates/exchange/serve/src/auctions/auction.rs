//! The life of one auction on its shard: parse, choose, ask, collect, clear, answer.
//!
//! `exchange-core` makes all decisions about money.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use exchange_core::explain::Explanation;
use exchange_core::guard::CallTrial;
use exchange_core::record::CallOutcome;
use exchange_core::{
    Auction, AuctionRefusal, AuctionSchedule, BidderCall, DspSelection, NotAsked, eligible_direct,
    outbound,
};
use hyper::StatusCode;
use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, InvalidRequest, Outbound, parse_request};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::auctions::closing::{AuctionClosing, ClosedAuction};
use crate::auctions::explain::{ExplainRecord, with_debug};
use crate::auctions::record::{Calls, RecordedAuction, recorded_calls, unanswered_calls};
use crate::auctions::reservations::DirectOffer;
use crate::auctions::trace::{AuctionTimings, AuctionTrace, TracedCalls};
use crate::fanout::{Outcomes, Question, ask_all};
use crate::guards::CallInFlight;
use crate::notices::NoticeCommand;
use crate::shard::{ExchangeShard, ShardSnapshot};

#[derive(Debug)]
pub enum AuctionReply {
    /// 200 with this body.
    Bid {
        body: String,
        /// To send once the body is written.
        notices: Vec<NoticeCommand>,
    },
    NoBid {
        /// The caller's id, as JSON text.
        id: String,
        reason: NoBidReason,
        /// How it went, if the caller asks and may.
        explanation: Option<Box<Explanation>>,
    },
    /// 400 with a body that names the error.
    Invalid(InvalidRequest),
    /// The caller may not sell here, or asks too often.
    Refused {
        /// 401, 403 or 429.
        status: StatusCode,
        problem: &'static str,
    },
}

/// A bid request as it came over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct AuctionRequest<'r> {
    /// When the kernel received the request's head.
    pub arrival: Instant,
    pub body: &'r [u8],
    /// The publisher's key that the caller presents.
    pub key: Option<&'r [u8]>,
    /// W3C `traceparent` header.
    pub traceparent: Option<&'r [u8]>,
}

/// Runs one auction under `snapshot`.
pub async fn run(
    shard: &ExchangeShard,
    snapshot: &Rc<ShardSnapshot>,
    request: AuctionRequest<'_>,
) -> AuctionReply {
    let (arrival, received) = (request.arrival, Instant::now());
    shard.metrics.receive.record(received - arrival);
    let reply = AuctionRun { shard, snapshot, arrival, received }.reply(request).await;
    match &reply {
        AuctionReply::Bid { .. } => shard.metrics.filled.increment(),
        AuctionReply::Refused { .. } => (), // Counted with all refused callers.
        AuctionReply::NoBid { reason, .. } => shard.metrics.count_no_bid(*reason),
        AuctionReply::Invalid(invalid) => {
            shard.metrics.invalid[invalid.reason as usize].increment();
            shard.metrics.count_no_bid(NoBidReason::InvalidRequest);
        }
    }
    reply
}

#[derive(Clone, Copy)]
struct AuctionRun<'s> {
    shard: &'s ExchangeShard,
    snapshot: &'s ShardSnapshot,
    arrival: Instant,
    received: Instant,
}

#[derive(Clone, Copy)]
struct ParsedRequest<'r> {
    id: &'r str,
    request: &'r BidRequest<'r>,
    body: &'r str,
    parsed: Instant,
    /// Set if the auction is to be explained.
    record: Option<&'r ExplainRecord>,
    traceparent: Option<&'r [u8]>,
}

impl<'r> ParsedRequest<'r> {
    fn trace<'t>(&self, shard: &'t ExchangeShard) -> AuctionTrace<'t>
    where
        'r: 't,
    {
        AuctionTrace { tracer: &shard.tracer, id: self.id, traceparent: self.traceparent }
    }
}

struct PreparedAuction<'a> {
    schedule: AuctionSchedule,
    auction: Auction<'a>,
    chosen: AskedDsps,
}

#[derive(Default)]
struct AskedDsps {
    asks: Vec<BidderCall>,
    calls_in_flight: Vec<CallInFlight>,
    trials: Vec<CallTrial>,
    /// Other DSPs, each with the reason.
    not_asked: Vec<(usize, NotAsked)>,
    /// None if direct campaigns may bid for nothing.
    direct: Option<BidderCall>,
}

impl AuctionRun<'_> {
    async fn reply(self, presented: AuctionRequest<'_>) -> AuctionReply {
        let text = match std::str::from_utf8(presented.body) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("not UTF-8 at byte {}", error.valid_up_to());
                return AuctionReply::Invalid(InvalidRequest::at(
                    openrtb::InvalidReason::NotJson,
                    "",
                    problem,
                ));
            }
        };
        let request = match parse_request(text) {
            Ok(request) => request,
            Err(invalid) => return AuctionReply::Invalid(invalid),
        };
        self.shard.metrics.mistyped.add(request.mistyped().len() as u64);
        if let Err((status, problem)) = self.admit(request.publisher_id(), presented.key) {
            return AuctionReply::Refused { status, problem };
        }
        let parsed = Instant::now();
        self.shard.metrics.parse.record(parsed - self.received);
        let id = self.shard.next_id();
        let record = ExplainRecord::if_requested(&request, self.snapshot.config());
        let record = record.as_ref();
        let traceparent = presented.traceparent;
        let inbound =
            ParsedRequest { id: &id, request: &request, body: text, parsed, record, traceparent };
        let held = match self.prepare(&inbound).await {
            Ok(prepared) => self.hold(inbound, prepared).await,
            Err(refusal) => {
                self.refused(&inbound, None, &refusal);
                Err(refusal)
            }
        };
        let reason = match &held {
            Err(AuctionRefusal::NoBid(reason)) => *reason,
            _ => NoBidReason::Unknown,
        };
        let explain = |record: &ExplainRecord| {
            record.explain(&id, &request, self.snapshot.config(), reason).ok().map(Box::new)
        };
        let explanation = record.and_then(explain);
        match (held, explanation) {
            (Ok((body, notices)), None) => AuctionReply::Bid { body, notices },
            (Ok((body, notices)), Some(explanation)) => {
                AuctionReply::Bid { body: with_debug(body, *explanation), notices }
            }
            (Err(AuctionRefusal::Invalid(invalid)), _) => AuctionReply::Invalid(invalid),
            (Err(AuctionRefusal::NoBid(reason)), explanation) => {
                let id = request.id.as_ref().map_or("\"\"", |id| id.raw());
                AuctionReply::NoBid { id: id.to_owned(), reason, explanation }
            }
        }
    }

    /// Whether this caller may sell for this publisher now.
    fn admit(
        self,
        publisher: Option<&str>,
        presented: Option<&[u8]>,
    ) -> Result<(), (StatusCode, &'static str)> {
        let config = self.snapshot.config();
        let Some(terms) = publisher.and_then(|id| config.callers.get(id)) else {
            let refusal = (StatusCode::FORBIDDEN, "the publisher is not one of ours");
            return if config.publishers_only { Err(refusal) } else { Ok(()) };
        };
        if let Some(key) = &terms.key {
            let presented = presented.ok_or((
                StatusCode::UNAUTHORIZED,
                "the publisher's key is needed: authorization: Bearer, or x-api-key",
            ))?;
            // Constant time: the comparison must not reveal how much of the key is right.
            if !bool::from(key.expose().as_bytes().ct_eq(presented)) {
                return Err((StatusCode::FORBIDDEN, "the key is not the publisher's"));
            }
        }
        let guard = publisher.and_then(|id| self.snapshot.callers.get(id));
        let Some(guard) = guard else { return Ok(()) };
        let (permit, _) = guard
            .borrow_mut()
            .admit()
            .map_err(|_| (StatusCode::TOO_MANY_REQUESTS, "the publisher sends more than it may"))?;
        // Only the rate is limited, not concurrency.
        guard.borrow_mut().release(permit);
        Ok(())
    }

    async fn prepare<'a>(
        &'a self,
        inbound: &ParsedRequest<'a>,
    ) -> Result<PreparedAuction<'a>, AuctionRefusal> {
        let ParsedRequest { id, request, parsed, .. } = *inbound;
        let config = self.snapshot.config();
        let tmax = request.tmax.as_ref().map(|tmax| **tmax);
        let schedule = AuctionSchedule::new(self.shard.tick(self.arrival), tmax, &config.limits)
            .ok_or(AuctionRefusal::NoBid(NoBidReason::InsufficientAuctionTime))?;
        // A slow body has used up the time.
        if !schedule.leaves_time(self.shard.tick(parsed)) {
            return Err(AuctionRefusal::NoBid(NoBidReason::InsufficientAuctionTime));
        }
        let auction = Auction::new(id, request, &config.market)?;
        let (imps, on_sale) = (auction.imps_len(), auction.imps_on_sale());
        self.shard.metrics.unpriced.add((imps - on_sale) as u64);
        let chosen = self.choose(&auction).await;
        Ok(PreparedAuction { schedule, auction, chosen })
    }

    /// Records an auction without calls. `prepared` is None if its preparation failed.
    fn refused(
        &self,
        inbound: &ParsedRequest<'_>,
        prepared: Option<&PreparedAuction<'_>>,
        refusal: &AuctionRefusal,
    ) {
        let reason = match refusal {
            AuctionRefusal::NoBid(reason) => *reason,
            AuctionRefusal::Invalid(_) => NoBidReason::InvalidRequest,
        };
        let timings = self.timings(inbound);
        inbound.trace(self.shard).record(&timings, reason.label(), []);
        let recorded = self.recorded(inbound, prepared);
        recorded.refused(reason, &timings);
    }

    fn timings(&self, inbound: &ParsedRequest<'_>) -> AuctionTimings {
        AuctionTimings {
            arrival: self.arrival,
            received: self.received,
            parsed: inbound.parsed,
            asked: None,
            closed: None,
            cleared: None,
            answered: Instant::now(),
        }
    }

    fn recorded<'m>(
        &'m self,
        inbound: &ParsedRequest<'m>,
        prepared: Option<&'m PreparedAuction<'m>>,
    ) -> RecordedAuction<'m> {
        let ParsedRequest { id, request, body, .. } = *inbound;
        let deadline = prepared.map(|prepared| self.shard.instant(prepared.schedule.deadline));
        RecordedAuction {
            shard: self.shard,
            snapshot: self.snapshot,
            id,
            request,
            body,
            deadline,
            auction: prepared.map(|prepared| &prepared.auction),
            not_asked: prepared.map_or(&[], |prepared| &prepared.chosen.not_asked),
        }
    }

    async fn hold(
        self,
        inbound: ParsedRequest<'_>,
        mut prepared: PreparedAuction<'_>,
    ) -> Result<(String, Vec<NoticeCommand>), AuctionRefusal> {
        if let Some(record) = inbound.record {
            record.not_asked(&prepared.chosen.not_asked);
        }
        if prepared.chosen.asks.is_empty() && prepared.chosen.direct.is_none() {
            let refusal = AuctionRefusal::NoBid(NoBidReason::NoEligibleDsp);
            self.refused(&inbound, Some(&prepared), &refusal);
            return Err(refusal);
        }
        let rights = std::mem::take(&mut prepared.chosen.calls_in_flight);
        let trials = std::mem::take(&mut prepared.chosen.trials);
        let PreparedAuction { schedule, auction, chosen: AskedDsps { asks, direct, .. } } =
            &prepared;
        let shard = self.shard;
        let outbound = outbound(auction, inbound.body);
        shard.metrics.impressions.add(auction.imps_on_sale() as u64);
        let questions = self.questions(&prepared, &outbound, rights);
        shard.metrics.ask.record(inbound.parsed.elapsed());
        let recorded = self.recorded(&inbound, Some(&prepared));
        let asked = Instant::now();
        let timings = AuctionTimings { asked: Some(asked), ..self.timings(&inbound) };
        let calls = (&**asks, &*questions);
        let abandoned = AbandonedAuction { recorded, calls, timings, outcomes: None };
        let waiting = AbandonmentGuard(Some(abandoned));
        let round = ask_all(&outbound, &questions, shard.body_buffer());
        // Direct campaigns bid while DSPs think.
        let direct =
            DirectOffer::bids(shard, self.snapshot, auction, inbound.body.as_bytes(), *direct);
        let mut outcomes = round.collect().await;
        waiting.disarm();
        let timings = AuctionTimings { closed: Some(Instant::now()), ..timings };
        let abandoned = AbandonedAuction { timings, outcomes: Some(&outcomes), ..abandoned };
        let closing = AuctionClosing {
            recorded,
            auction,
            schedule,
            calls,
            outcomes: &outcomes,
            direct: direct.as_ref(),
        };
        // Closing may fetch ads.
        let waiting = AbandonmentGuard(Some(abandoned));
        let answer = closing.conclude(trials, timings).await;
        waiting.disarm();
        self.measure(&answer.timings, schedule);
        if let Some(record) = inbound.record {
            record.answered(recorded_calls(calls, &outcomes, self.arrival), &outcomes);
            record.direct(direct.as_ref());
        }
        for call in &answer.unreadable {
            outcomes.calls[*call] = CallOutcome::Malformed;
        }
        self.trace(&inbound, &answer, asks, &outcomes);
        shard.keep_body_buffer(outcomes.into_buffer());
        match answer.response {
            Ok(response) => Ok((response, answer.notices)),
            Err(why) => {
                // Without a response to write, send loss notices at once.
                shard.send_notices(answer.notices);
                Err(AuctionRefusal::NoBid(why))
            }
        }
    }

    fn measure(&self, timings: &AuctionTimings, schedule: &AuctionSchedule) {
        let metrics = &self.shard.metrics;
        let AuctionTimings { asked, closed, cleared, answered, .. } = *timings;
        let phases = [
            (&metrics.collect, asked, closed),
            (&metrics.clear, closed, cleared),
            (&metrics.answer, cleared, Some(answered)),
            (&metrics.total, Some(self.arrival), Some(answered)),
        ];
        for (phase, since, until) in phases {
            if let (Some(since), Some(until)) = (since, until) {
                phase.record(until - since);
            }
        }
        let overshoot = self.shard.tick(answered).since(schedule.deadline);
        if overshoot > Duration::ZERO {
            metrics.overshoot.record(overshoot);
        }
    }

    fn trace(
        &self,
        inbound: &ParsedRequest<'_>,
        answer: &ClosedAuction,
        asks: &[BidderCall],
        outcomes: &Outcomes,
    ) {
        let ending = answer.response.as_ref().map_or_else(|why| why.label(), |_| "filled");
        let dsps = &self.snapshot.config().market.dsps;
        let calls = asks.iter().zip(&outcomes.calls).enumerate().map(|(call, (ask, outcome))| {
            let ended = outcomes.answered_at(call);
            TracedCalls { dsp: &dsps[ask.dsp].id, outcome: *outcome, ended }
        });
        inbound.trace(self.shard).record(&answer.timings, ending, calls);
    }

    /// Chooses bidders, and takes permits to call them.
    async fn choose(&self, auction: &Auction<'_>) -> AskedDsps {
        let mut choosing = DspSelection::new(auction, self.snapshot.dsps.len());
        while choosing.proceed() {
            tokio::task::yield_now().await; // Others wait for the shard.
        }
        let found = choosing.finish();
        let eligible = found.iter().filter(|found| found.is_ok()).count();
        let mut chosen = AskedDsps {
            asks: Vec::with_capacity(eligible),
            calls_in_flight: Vec::with_capacity(eligible),
            trials: Vec::with_capacity(eligible),
            ..AskedDsps::default()
        };
        for (dsp, found) in found.into_iter().enumerate() {
            let lane = &self.snapshot.dsps[dsp];
            let admitted = found.and_then(|ask| {
                let (permit, trial) = lane.guard.borrow_mut().admit()?;
                Ok((ask, CallInFlight::new(&lane.guard, permit), trial))
            });
            match admitted {
                Ok((ask, right, trial)) => {
                    chosen.asks.push(ask);
                    chosen.calls_in_flight.push(right);
                    chosen.trials.push(trial);
                }
                Err(reason) => {
                    lane.metrics.not_asked[reason as usize].increment();
                    chosen.not_asked.push((dsp, reason));
                }
            }
        }
        let direct = self.snapshot.direct().filter(|_| self.shard.budget().is_some());
        chosen.direct = direct.and_then(|dsp| eligible_direct(auction, dsp).ok());
        chosen
    }

    fn questions<'q>(
        &'q self,
        prepared: &'q PreparedAuction<'_>,
        outbound: &Outbound<'_>,
        rights: Vec<CallInFlight>,
    ) -> Vec<Question<'q>> {
        let PreparedAuction { schedule, auction, chosen } = prepared;
        let now = self.shard.tick(Instant::now());
        let ext = auction.request.user.as_ref().and_then(|user| user.ext.as_ref());
        let own = ext.and_then(|ext| ext.buyeruids.as_ref());
        let prebid = ext.and_then(|ext| ext.prebid.as_ref()?.buyeruids.as_ref());
        let question = |(ask, right): (&BidderCall, CallInFlight)| {
            let dsp = &auction.market.dsps[ask.dsp];
            let is_limited = auction.is_limited(ask.dsp);
            let mut uids = own.into_iter().chain(prebid).filter(|_| !is_limited);
            Question {
                pool: &self.snapshot.dsps[ask.dsp].pool,
                imps: ask.imps,
                deals: ask.deals,
                tmax_ms: schedule.dsp_tmax_ms(now, dsp.timeout, dsp.network_margin),
                buyeruid: uids.find_map(|uids| uids.raw_of(&dsp.id)),
                bidder: outbound.names_bidder(&dsp.id).then_some(&*dsp.id),
                is_limited,
                wait_until: self.shard.instant(schedule.wait_until(now, dsp.timeout)),
                permit: Cell::new(Some(right)),
            }
        };
        chosen.asks.iter().zip(rights).map(question).collect()
    }
}

#[derive(Clone, Copy)]
struct AbandonedAuction<'a> {
    recorded: RecordedAuction<'a>,
    calls: Calls<'a>,
    timings: AuctionTimings,
    /// None while DSPs were still answering.
    outcomes: Option<&'a Outcomes>,
}

impl AbandonedAuction<'_> {
    /// Counts and records it, with the calls that are not counted yet.
    fn note(&self) {
        let Self { recorded, calls, outcomes, .. } = *self;
        let timings = AuctionTimings { answered: Instant::now(), ..self.timings };
        recorded.shard.metrics.abandoned.increment();
        if let Some(outcomes) = outcomes {
            let calls = recorded_calls(calls, outcomes, timings.arrival);
            return recorded.abandoned(calls, &timings);
        }
        for ask in calls.0 {
            let metrics = &recorded.snapshot.dsps[ask.dsp].metrics;
            metrics.outcomes[CallOutcome::Abandoned as usize].increment();
        }
        recorded.abandoned(unanswered_calls(calls), &timings);
    }
}

/// Notes the auction as abandoned if dropped before it is disarmed.
struct AbandonmentGuard<'a>(Option<AbandonedAuction<'a>>);

impl AbandonmentGuard<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonmentGuard<'_> {
    fn drop(&mut self) {
        // A panic is our fault and counted as such, not an abandoned call.
        if let Some(abandoned) = self.0.filter(|_| !std::thread::panicking()) {
            abandoned.note();
        }
    }
}

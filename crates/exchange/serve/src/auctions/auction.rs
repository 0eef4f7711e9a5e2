//! The life of one auction on its shard: parse, choose, ask, collect, clear, answer.
//!
//! `exchange-core` makes all decisions about money.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use exchange_core::guard::BreakerTrial;
use exchange_core::record::CallOutcome;
use exchange_core::{
    Auction, AuctionRefusal, AuctionSchedule, BidderCall, DspSelection, NotAsked, eligible_direct,
    no_bid, outbound,
};
use hyper::StatusCode;
use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, InvalidReason, InvalidRequest, Outbound, parse_request};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::auctions::abandonment::AbandonmentGuard;
use crate::auctions::calls::AuctionCalls;
use crate::auctions::closing::{AuctionClosing, AuctionResult};
use crate::auctions::enrich::enriched;
use crate::auctions::explain::{ExplainRecord, HeldAuction, with_debug};
use crate::auctions::record::{AuctionRecorder, unix_us};
use crate::auctions::reservations::DirectBids;
use crate::auctions::trace::{AuctionTimings, AuctionTrace, TracedCalls};
use crate::fanout::{DspRequest, Outcomes, ask_all};
use crate::guards::OwnedCallPermit;
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
    /// 200 with this body, or 204 without one.
    NoBid { reason: NoBidReason, body: Option<String> },
    /// 400 with a body that names the error.
    Invalid(InvalidRequest),
    /// The caller may not sell here, or sends requests too often.
    CallerRefused {
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
    shard.closes.give_way().await;
    let received = Instant::now();
    shard.metrics.receive.record(received - request.arrival);
    let reply = reply(shard, snapshot, received, request).await;
    match &reply {
        AuctionReply::Bid { .. } => shard.metrics.filled.increment(),
        AuctionReply::CallerRefused { .. } => shard.metrics.turned_away.increment(),
        AuctionReply::NoBid { reason, .. } => shard.metrics.count_no_bid(*reason),
        AuctionReply::Invalid(invalid) => {
            shard.metrics.invalid[invalid.reason as usize].increment();
            shard.metrics.count_no_bid(NoBidReason::InvalidRequest);
        }
    }
    reply
}

async fn reply(
    shard: &ExchangeShard,
    snapshot: &ShardSnapshot,
    received: Instant,
    AuctionRequest { arrival, body, key, traceparent }: AuctionRequest<'_>,
) -> AuctionReply {
    let text = std::str::from_utf8(body).map_err(|error| {
        let problem = format!("not UTF-8 at byte {}", error.valid_up_to());
        InvalidRequest::at(InvalidReason::NotJson, "", problem)
    });
    let (body, request) = match text.and_then(|text| Ok((text, parse_request(text)?))) {
        Ok(parsed) => parsed,
        Err(invalid) => return AuctionReply::Invalid(invalid),
    };
    shard.metrics.mistyped.add(request.mistyped().len() as u64);
    if let Err((status, problem)) = check_caller(snapshot, request.publisher_id(), key) {
        return AuctionReply::CallerRefused { status, problem };
    }
    let parsed = Instant::now();
    shard.metrics.parse.record(parsed - received);
    let id = shard.next_id();
    let explain = ExplainRecord::if_requested(&request, snapshot.config());
    let at_unix_ms = unix_us(arrival) / 1_000;
    let run = AuctionRun {
        shard,
        snapshot,
        id: &id,
        request: &request,
        body,
        at_unix_ms,
        timings: AuctionTimings::of_parsed(arrival, received, parsed),
        explain: explain.as_ref(),
        traceparent,
    };
    let held = match run.prepare().await {
        Ok(prepared) => run.hold(prepared).await,
        Err(refusal) => Err(run.refuse(None, refusal)),
    };
    let reason = match &held {
        Err(AuctionRefusal::NoBid(reason)) => *reason,
        _ => NoBidReason::Unknown,
    };
    let config = snapshot.config();
    let finished = HeldAuction { id: &id, request: &request, at_unix_ms };
    let explanation = explain.and_then(|explain| explain.explain(&finished, config, reason).ok());
    let has_body = explanation.is_some() || config.explain_no_bid;
    let explained = |body| match explanation {
        Some(explanation) => with_debug(body, explanation),
        None => body,
    };
    match held {
        Ok((body, notices)) => AuctionReply::Bid { body: explained(body), notices },
        Err(AuctionRefusal::Invalid(invalid)) => AuctionReply::Invalid(invalid),
        Err(AuctionRefusal::NoBid(reason)) => {
            let id = request.id.as_ref().map_or("\"\"", |id| id.raw());
            let body = has_body.then(|| explained(no_bid(id, reason)));
            AuctionReply::NoBid { reason, body }
        }
    }
}

/// Whether the caller may sell for this publisher now: its status and the problem if not.
fn check_caller(
    snapshot: &ShardSnapshot,
    publisher: Option<&str>,
    key: Option<&[u8]>,
) -> Result<(), (StatusCode, &'static str)> {
    let config = snapshot.config();
    let known = publisher.and_then(|id| Some((id, config.callers.get(id)?)));
    let Some((id, terms)) = known else {
        let refusal = (StatusCode::FORBIDDEN, "the publisher is not one of ours");
        return if config.publishers_only { Err(refusal) } else { Ok(()) };
    };
    if let Some(own) = &terms.key {
        let key = key.ok_or((
            StatusCode::UNAUTHORIZED,
            "the publisher's key is needed: authorization: Bearer, or x-api-key",
        ))?;
        // Constant time: the comparison must not reveal how much of the key is right.
        if !bool::from(own.expose().as_bytes().ct_eq(key)) {
            return Err((StatusCode::FORBIDDEN, "the key is not the publisher's"));
        }
    }
    // Only the rate is limited, not concurrency: the permit is released at once.
    let acquired = snapshot.callers.get(id).map(OwnedCallPermit::acquire).transpose();
    let refusal = (StatusCode::TOO_MANY_REQUESTS, "the publisher sends more than it may");
    acquired.map(drop).map_err(|_| refusal)
}

/// A parsed request of a caller who may sell, on its shard.
#[derive(Clone, Copy)]
struct AuctionRun<'r> {
    shard: &'r ExchangeShard,
    snapshot: &'r ShardSnapshot,
    id: &'r str,
    request: &'r BidRequest<'r>,
    body: &'r str,
    /// When the request came.
    at_unix_ms: u64,
    /// Up to the parsing.
    timings: AuctionTimings,
    /// Set if the auction is to be explained.
    explain: Option<&'r ExplainRecord>,
    traceparent: Option<&'r [u8]>,
}

struct PreparedAuction<'a> {
    schedule: AuctionSchedule,
    auction: Auction<'a>,
    choice: DspChoice,
}

/// DSPs to call: calls, permits and trials one for one.
#[derive(Default)]
struct DspChoice {
    calls: Vec<BidderCall>,
    permits: Vec<OwnedCallPermit>,
    trials: Vec<BreakerTrial>,
    /// Other DSPs, each with the reason.
    not_asked: Vec<(usize, NotAsked)>,
    /// None if direct campaigns may bid for nothing.
    direct: Option<BidderCall>,
}

impl<'r> AuctionRun<'r> {
    async fn prepare(&self) -> Result<PreparedAuction<'r>, AuctionRefusal> {
        let Self { shard, snapshot, request, timings, .. } = *self;
        let config = snapshot.config();
        let tmax = request.tmax.as_ref().map(|tmax| **tmax);
        let schedule = AuctionSchedule::new(shard.tick(timings.arrival), tmax, &config.limits);
        // A slow body may have used up the time.
        let schedule = schedule
            .filter(|schedule| schedule.leaves_time(shard.tick(timings.parsed)))
            .ok_or(AuctionRefusal::NoBid(NoBidReason::InsufficientAuctionTime))?;
        let auction = Auction::new(self.id, request, &config.market)?;
        let auction = auction.offering_sold(self.at_unix_ms);
        let auction = enriched(shard, snapshot, auction, self.body, self.at_unix_ms);
        if let Some(explain) = self.explain {
            explain.enriched(auction.enrichments());
        }
        shard.metrics.unpriced.add((auction.imps_len() - auction.imps_on_sale()) as u64);
        let mut prepared = PreparedAuction { schedule, auction, choice: DspChoice::default() };
        if prepared.auction.lacks_data() {
            return Ok(prepared);
        }
        let guard = AbandonmentGuard {
            recorder: self.recorder(Some(&prepared)),
            timings,
            calls: AuctionCalls { snapshot, calls: &[], requests: &[] },
            outcomes: &OnceCell::new(),
            trials: Vec::new(),
            is_armed: true,
        };
        let choice = self.choose(&prepared.auction).await;
        guard.disarm();
        prepared.choice = choice;
        Ok(prepared)
    }

    /// Records an auction without calls. A `prepared` of None means that its preparation failed.
    fn refuse(
        &self,
        prepared: Option<&PreparedAuction<'_>>,
        refusal: AuctionRefusal,
    ) -> AuctionRefusal {
        let reason = match refusal {
            AuctionRefusal::NoBid(reason) => reason,
            AuctionRefusal::Invalid(_) => NoBidReason::InvalidRequest,
        };
        let timings = AuctionTimings { answered: Instant::now(), ..self.timings };
        self.tracer().record(&timings, reason.label(), []);
        self.recorder(prepared).record(&timings, Some(reason), None, []);
        refusal
    }

    fn tracer(&self) -> AuctionTrace<'r> {
        AuctionTrace {
            tracer: &self.shard.parts.tracer,
            id: self.id,
            traceparent: self.traceparent,
        }
    }

    fn recorder<'m>(&'m self, prepared: Option<&'m PreparedAuction<'m>>) -> AuctionRecorder<'m> {
        let Self { shard, snapshot, id, request, body, .. } = *self;
        AuctionRecorder {
            shard,
            snapshot,
            id,
            request,
            body,
            deadline: prepared.map(|prepared| shard.instant(prepared.schedule.deadline)),
            auction: prepared.map(|prepared| &prepared.auction),
            not_asked: prepared.map_or(&[], |prepared| &prepared.choice.not_asked),
        }
    }

    async fn hold(
        self,
        mut prepared: PreparedAuction<'_>,
    ) -> Result<(String, Vec<NoticeCommand>), AuctionRefusal> {
        let Self { shard, snapshot, body, .. } = self;
        if let Some(explain) = self.explain {
            explain.not_asked(&prepared.choice.not_asked);
        }
        if prepared.choice.calls.is_empty() && prepared.choice.direct.is_none() {
            let reason = match prepared.auction.lacks_data() {
                true => NoBidReason::DataUnknown,
                false => NoBidReason::NoEligibleDsp,
            };
            return Err(self.refuse(Some(&prepared), AuctionRefusal::NoBid(reason)));
        }
        let permits = std::mem::take(&mut prepared.choice.permits);
        let trials = std::mem::take(&mut prepared.choice.trials);
        let PreparedAuction { schedule, auction, choice } = &prepared;
        let outbound = outbound(auction, body);
        shard.metrics.impressions.add(auction.imps_on_sale() as u64);
        let requests = self.requests(&prepared, &outbound, permits);
        shard.metrics.ask.record(self.timings.parsed.elapsed());
        let recorder = self.recorder(Some(&prepared));
        let calls = AuctionCalls { snapshot, calls: &choice.calls, requests: &requests };
        let timings = AuctionTimings { asked: Some(Instant::now()), ..self.timings };
        let collected = OnceCell::new();
        let outcomes = &collected;
        let is_armed = true;
        let mut guard = AbandonmentGuard { recorder, timings, calls, outcomes, trials, is_armed };
        let round = ask_all(&outbound, &requests, shard.body_buffer());
        // Direct campaigns bid while DSPs think.
        let direct = DirectBids::bid(shard, snapshot, auction, body.as_bytes(), choice.direct);
        let close = shard.closes.add(shard.instant(schedule.close));
        let outcomes = round.collect().await;
        drop(close);
        let outcomes = collected.get_or_init(|| outcomes);
        guard.timings.collected = Some(Instant::now());
        let direct = direct.as_ref();
        let closing = AuctionClosing {
            shard,
            snapshot,
            recorder,
            auction,
            schedule,
            calls,
            outcomes,
            direct,
        };
        let result = closing.finish(&mut guard).await;
        guard.disarm();
        self.measure(&result.timings, schedule);
        if let Some(explain) = self.explain {
            explain.answered(calls.recorded(Some(outcomes), timings.arrival), outcomes);
            explain.direct(direct);
        }
        self.trace(&result, calls, outcomes);
        shard.keep_body_buffer(collected.into_inner().map_or_else(Vec::new, Outcomes::into_buffer));
        match result.response {
            Ok(response) => Ok((response, result.notices)),
            Err(why) => {
                // Without a response to write, send loss notices at once.
                shard.send_notices(result.notices);
                Err(AuctionRefusal::NoBid(why))
            }
        }
    }

    fn measure(&self, timings: &AuctionTimings, schedule: &AuctionSchedule) {
        let metrics = &self.shard.metrics;
        let AuctionTimings { arrival, asked, collected, cleared, answered, .. } = *timings;
        let phases = [
            (&metrics.collect, asked, collected),
            (&metrics.clear, collected, cleared),
            (&metrics.answer, cleared, Some(answered)),
            (&metrics.total, Some(arrival), Some(answered)),
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

    fn trace(&self, result: &AuctionResult, calls: AuctionCalls<'_>, outcomes: &Outcomes) {
        let ending = result.response.as_ref().map_or_else(|why| why.label(), |_| "filled");
        let calls = outcomes.calls.iter().enumerate().map(|(call, outcome)| {
            let is_unreadable = result.unreadable.contains(&call);
            let outcome = if is_unreadable { CallOutcome::Malformed } else { *outcome };
            TracedCalls { dsp: &calls.dsp(call).id, outcome, ended: outcomes.answered_at(call) }
        });
        self.tracer().record(&result.timings, ending, calls);
    }

    /// Chooses bidders, and acquires permits to call them.
    async fn choose(&self, auction: &Auction<'_>) -> DspChoice {
        let mut choosing = DspSelection::new(auction, self.snapshot.dsps.len());
        while choosing.proceed() {
            tokio::task::yield_now().await; // Others wait for the shard.
        }
        let found = choosing.finish();
        let eligible = found.iter().filter(|found| found.is_ok()).count();
        let mut choice = DspChoice {
            calls: Vec::with_capacity(eligible),
            permits: Vec::with_capacity(eligible),
            trials: Vec::with_capacity(eligible),
            ..DspChoice::default()
        };
        for (index, (found, dsp)) in found.into_iter().zip(&self.snapshot.dsps).enumerate() {
            let acquired = found.and_then(|call| Ok((call, OwnedCallPermit::acquire(&dsp.guard)?)));
            match acquired {
                Ok((call, (permit, trial))) => {
                    choice.calls.push(call);
                    choice.permits.push(permit);
                    choice.trials.push(trial);
                }
                Err(reason) => {
                    dsp.metrics.not_asked[reason as usize].increment();
                    choice.not_asked.push((index, reason));
                }
            }
        }
        let direct = self.snapshot.direct().filter(|_| self.shard.budget().is_some());
        choice.direct = direct.and_then(|dsp| eligible_direct(auction, dsp).ok());
        choice
    }

    fn requests<'q>(
        &'q self,
        PreparedAuction { schedule, auction, choice }: &'q PreparedAuction<'_>,
        outbound: &Outbound<'_>,
        permits: Vec<OwnedCallPermit>,
    ) -> Vec<DspRequest<'q>> {
        let now = self.shard.tick(Instant::now());
        let ext = auction.request.user.as_ref().and_then(|user| user.ext.as_ref());
        let own = ext.and_then(|ext| ext.buyeruids.as_ref());
        let prebid = ext.and_then(|ext| ext.prebid.as_ref()?.buyeruids.as_ref());
        let request = |(call, permit): (&BidderCall, OwnedCallPermit)| {
            let dsp = &auction.market.dsps[call.dsp];
            let is_limited = auction.is_limited(call.dsp);
            let mut uids = own.into_iter().chain(prebid).filter(|_| !is_limited);
            DspRequest {
                pool: &self.snapshot.dsps[call.dsp].pool,
                imps: call.imps,
                deals: call.deals,
                tmax_ms: schedule.dsp_tmax_ms(now, dsp.timeout, dsp.network_margin),
                buyeruid: uids.find_map(|uids| uids.raw_of(&dsp.id)),
                bidder: outbound.names_bidder(&dsp.id).then_some(&*dsp.id),
                is_limited,
                wait_until: self.shard.instant(schedule.wait_until(now, dsp.timeout)),
                permit: Cell::new(Some(permit)),
            }
        };
        choice.calls.iter().zip(permits).map(request).collect()
    }
}

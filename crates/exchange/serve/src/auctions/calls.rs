//! The calls of one auction: how they are recorded and counted, and what they say about the DSP.

use std::time::Duration;

use exchange_core::BidderCall;
use exchange_core::guard::{BreakerTrial, CallHealth};
use exchange_core::record::{CallOutcome, RecordedCall};
use openrtb::codes::NoBidReason;
use tokio::time::Instant;

use crate::auctions::reservations::DirectBids;
use crate::fanout::{DspRequest, Outcomes};
use crate::shard::{ShardDsp, ShardSnapshot};

#[derive(Clone, Copy)]
pub(crate) struct AuctionCalls<'c> {
    pub snapshot: &'c ShardSnapshot,
    pub calls: &'c [BidderCall],
    /// One per call.
    pub requests: &'c [DspRequest<'c>],
}

impl<'c> AuctionCalls<'c> {
    pub fn dsp(&self, call: usize) -> &'c ShardDsp {
        &self.snapshot.dsps[self.calls[call].dsp]
    }

    /// Without `outcomes`, the caller has left before the round ended.
    pub fn recorded(
        self,
        outcomes: Option<&Outcomes>,
        arrival: Instant,
    ) -> impl Iterator<Item = RecordedCall> {
        let since = move |sent: Instant| sent.saturating_duration_since(arrival);
        self.calls.iter().zip(self.requests).enumerate().map(move |(call, (ask, request))| {
            let progress = outcomes.map(|outcomes| &outcomes.progress[call]);
            RecordedCall {
                ask: *ask,
                tmax_ms: progress.and_then(|it| it.tmax_ms).unwrap_or(request.tmax_ms),
                outcome: outcomes.map_or(CallOutcome::Abandoned, |outcomes| outcomes.calls[call]),
                sent: progress.and_then(|it| it.sent_at).map(since),
                latency: progress.and_then(|it| it.latency),
            }
        })
    }

    /// Counts the call's outcome and reports it to the breaker. `time_given` is how long the DSP had
    /// to answer; None if the call was not sent.
    pub fn report(
        &self,
        call: usize,
        outcome: CallOutcome,
        time_given: Option<Duration>,
        trial: BreakerTrial,
    ) {
        let dsp = self.dsp(call);
        dsp.metrics.outcomes[outcome as usize].increment();
        let least = self.snapshot.config().timeout_counts_after;
        let had_min_time = time_given.is_some_and(|given| least <= given);
        dsp.guard.borrow_mut().report_outcome(trial, call_health(outcome, had_min_time));
    }
}

/// The reason for an answer without a bid: blames us if no DSP could be asked and direct campaigns
/// did not answer; else nobody bid enough.
pub(crate) fn no_bid_reason(calls: &[CallOutcome], direct: Option<&DirectBids<'_>>) -> NoBidReason {
    let never_asked = |outcome: &CallOutcome| {
        use CallOutcome::{Saturated, Unreachable, Unresolved, Unsent};
        matches!(outcome, Unreachable | Unresolved | Saturated | Unsent)
    };
    let is_unasked = !calls.is_empty() && calls.iter().all(never_asked) && direct.is_none();
    if is_unasked { NoBidReason::TechnicalError } else { NoBidReason::Unknown }
}

/// The outcome as evidence of the DSP's health.
fn call_health(outcome: CallOutcome, had_min_time: bool) -> CallHealth {
    match outcome {
        CallOutcome::Answered | CallOutcome::NoBid => CallHealth::Good,
        CallOutcome::Late => CallHealth::TimedOut { had_min_time },
        // Nothing was sent, or the caller left. An unresolved name is not the DSP's fault.
        CallOutcome::Saturated
        | CallOutcome::Unsent
        | CallOutcome::Abandoned
        | CallOutcome::Unresolved => CallHealth::Neutral,
        CallOutcome::Status
        | CallOutcome::Malformed
        | CallOutcome::TooLarge
        | CallOutcome::Encoded
        | CallOutcome::Trickle
        | CallOutcome::Reset
        | CallOutcome::Unreachable => CallHealth::Bad,
    }
}

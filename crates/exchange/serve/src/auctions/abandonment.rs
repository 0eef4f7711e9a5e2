//! Auctions whose caller leaves: they are counted and recorded like all others.

use std::cell::OnceCell;

use exchange_core::guard::BreakerTrial;
use exchange_core::record::CallOutcome;
use tokio::time::Instant;

use crate::auctions::calls::AuctionCalls;
use crate::auctions::record::AuctionRecorder;
use crate::auctions::trace::AuctionTimings;
use crate::fanout::Outcomes;

/// Counts and records the auction as abandoned if dropped before it is disarmed.
pub(crate) struct AbandonmentGuard<'a> {
    pub recorder: AuctionRecorder<'a>,
    pub timings: AuctionTimings,
    pub calls: AuctionCalls<'a>,
    /// Unset while DSPs are answering.
    pub outcomes: &'a OnceCell<Outcomes>,
    /// Trials of the calls, until they are reported.
    pub trials: Vec<BreakerTrial>,
    pub is_armed: bool,
}

impl AbandonmentGuard<'_> {
    pub fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for AbandonmentGuard<'_> {
    fn drop(&mut self) {
        // A panic is our fault and counted as such, not an abandoned auction.
        if !self.is_armed || std::thread::panicking() {
            return;
        }
        let outcomes = self.outcomes.get();
        for (call, trial) in std::mem::take(&mut self.trials).into_iter().enumerate() {
            let outcome = outcomes.map_or(CallOutcome::Abandoned, |outcomes| outcomes.calls[call]);
            let time_given = outcomes.and_then(|outcomes| outcomes.time_given(call));
            self.calls.report(call, outcome, time_given, trial);
        }
        self.recorder.shard.metrics.abandoned.increment();
        let timings = AuctionTimings { answered: Instant::now(), ..self.timings };
        let calls = self.calls.recorded(outcomes, timings.arrival);
        self.recorder.record(&timings, None, None, calls);
    }
}

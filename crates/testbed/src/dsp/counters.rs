//! What each DSP counted. One thread writes a DSP's counters, any thread reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counter with a single writer: a plain load and store, no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; only the thread that owns the DSP may call it.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtracts `n`, under the same rule.
    pub(crate) fn subtract(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The live counters of one DSP; see [`DspStats`] for what they mean.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Counter,
    pub(crate) bid_answers: Counter,
    pub(crate) bids: Counter,
    pub(crate) no_bids: Counter,
    pub(crate) late: Counter,
    pub(crate) malformed: Counter,
    pub(crate) wins: Counter,
    pub(crate) billed: Counter,
    pub(crate) losses: Counter,
    pub(crate) connections_open: Counter,
    pub(crate) connections_refused: Counter,
}

/// What one DSP has seen since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DspStats {
    /// Whole bid requests, the malformed ones included.
    pub requests: u64,
    /// Requests answered with bids.
    pub bid_answers: u64,
    /// Bids in those answers.
    pub bids: u64,
    /// Requests answered 204.
    pub no_bids: u64,
    /// Answers held back for `late_by`; counted above too.
    pub late: u64,
    /// What was not HTTP, not allowed, too large, or no OpenRTB request.
    pub malformed: u64,
    /// Win notices received.
    pub wins: u64,
    /// Billing notices received.
    pub billed: u64,
    /// Loss notices received.
    pub losses: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections closed at once because the fleet had its most.
    pub connections_refused: u64,
}

impl Counters {
    pub(crate) fn read(&self) -> DspStats {
        DspStats {
            requests: self.requests.read(),
            bid_answers: self.bid_answers.read(),
            bids: self.bids.read(),
            no_bids: self.no_bids.read(),
            late: self.late.read(),
            malformed: self.malformed.read(),
            wins: self.wins.read(),
            billed: self.billed.read(),
            losses: self.losses.read(),
            connections_open: self.connections_open.read(),
            connections_refused: self.connections_refused.read(),
        }
    }
}

/// What a fleet has seen since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FleetStats {
    /// One entry per DSP, in the order of the profiles.
    pub dsps: Vec<DspStats>,
    /// CPU time of each thread of the fleet: near the time that passed, the fleet is the
    /// bottleneck. Zero where the kernel does not say (`/proc/self/task/*/schedstat`).
    pub cpu: Vec<Duration>,
}

impl FleetStats {
    /// The sum over all DSPs.
    pub fn total(&self) -> DspStats {
        self.dsps.iter().fold(DspStats::default(), |sum, dsp| DspStats {
            requests: sum.requests + dsp.requests,
            bid_answers: sum.bid_answers + dsp.bid_answers,
            bids: sum.bids + dsp.bids,
            no_bids: sum.no_bids + dsp.no_bids,
            late: sum.late + dsp.late,
            malformed: sum.malformed + dsp.malformed,
            wins: sum.wins + dsp.wins,
            billed: sum.billed + dsp.billed,
            losses: sum.losses + dsp.losses,
            connections_open: sum.connections_open + dsp.connections_open,
            connections_refused: sum.connections_refused + dsp.connections_refused,
        })
    }
}

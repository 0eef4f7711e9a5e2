//! The hot path: whether a shard may call a DSP now, in plain integers. It uses only what it was
//! granted, and without messages keeps what it has. Must not know the reasons for grants.

use super::message::{CallGrant, EpochCounts, GuardMode, GuardReport};

/// Why a call is not made. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardRefusal {
    /// The operator has paused the DSP.
    Paused,
    /// It fails and is throttled.
    Breaker,
    /// The shard has no token.
    Qps,
    /// The shard has no free permit.
    InFlight,
}

/// How a call ended, as far as the breaker is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallHealth {
    /// A valid answer: bids or none.
    Good,
    /// An error: status, malformed, too large, reset, unreachable.
    Bad,
    /// No answer in time.
    TimedOut {
        /// Whether the DSP had its minimum time; otherwise the timeout is our fault.
        had_min_time: bool,
    },
    /// Says nothing about the DSP: our caller left, or we had no free connection.
    Neutral,
}

/// The right to one call, returned by [`ShardGuard::release`].
#[derive(Debug)]
#[must_use = "the call stays in flight until its permit is released"]
pub struct CallPermit(());

/// A call whose result is pending. It may outlast the call: answers are judged when the auction
/// closes. If dropped, it counts as [`CallHealth::Neutral`].
#[derive(Debug)]
pub struct BreakerTrial {
    epoch: u32,
}

/// One shard's rights to call one DSP.
#[derive(Debug)]
pub struct ShardGuard {
    mode: GuardMode,
    tokens: u64,
    in_use: u32,
    in_use_max: u32,
    attempts: u64,
    consumed: u64,
    in_epoch: EpochCounts,
    in_use_peak: u32,
    in_flight_refused: u64,
    returned: u64,
    tokens_keep: u64,
    permits_granted: u64,
    permits_returned: u64,
    permits_keep: u32,
    shard: usize,
    reports: u64,
    grant: u64,
}

impl ShardGuard {
    /// Starts with its first grant from a new [`Governor`](super::Governor).
    pub fn new(first: &CallGrant) -> Self {
        let mut guard = Self {
            mode: GuardMode::Paused,
            tokens: 0,
            in_use: 0,
            in_use_max: 0,
            attempts: 0,
            consumed: 0,
            in_epoch: EpochCounts { epoch: first.epoch, ..EpochCounts::default() },
            in_use_peak: 0,
            in_flight_refused: 0,
            returned: 0,
            tokens_keep: 0,
            permits_granted: 0,
            permits_returned: 0,
            permits_keep: 0,
            shard: first.shard,
            reports: 0,
            grant: 0,
        };
        guard.take(first);
        guard
    }

    /// Takes a token and a permit for one call, or neither.
    pub fn acquire(&mut self) -> Result<(CallPermit, BreakerTrial), GuardRefusal> {
        self.attempts += 1;
        let needs_token = self.mode != GuardMode::Open;
        if needs_token {
            match self.mode {
                GuardMode::Paused => return Err(GuardRefusal::Paused),
                GuardMode::Throttled if self.tokens == 0 => return Err(GuardRefusal::Breaker),
                _ if self.tokens == 0 => return Err(GuardRefusal::Qps),
                _ => (),
            }
        }
        if self.in_use_max <= self.in_use {
            self.in_flight_refused += 1;
            return Err(GuardRefusal::InFlight);
        }
        if needs_token {
            self.tokens -= 1;
            self.consumed += 1;
            self.in_epoch.consumed += 1;
        }
        self.in_use += 1;
        self.in_use_peak = self.in_use_peak.max(self.in_use);
        Ok((CallPermit(()), BreakerTrial { epoch: self.in_epoch.epoch }))
    }

    /// Counts the result of a call, though a late answer may still be read.
    #[expect(clippy::needless_pass_by_value, reason = "a call ends once")]
    pub fn report_outcome(&mut self, trial: BreakerTrial, end: CallHealth) {
        if trial.epoch != self.in_epoch.epoch {
            return;
        }
        match end {
            CallHealth::Good => self.in_epoch.good += 1,
            CallHealth::Bad | CallHealth::TimedOut { had_min_time: true } => {
                self.in_epoch.bad += 1;
            }
            CallHealth::TimedOut { had_min_time: false } | CallHealth::Neutral => (),
        }
    }

    /// Ends the call: its answer is completely read, or its connection closed.
    pub fn release(&mut self, permit: CallPermit) {
        let _spent = permit;
        self.in_use = self.in_use.checked_sub(1).expect("a permit is released once");
    }

    /// Returns surplus rights and reports counts. Call it every [`STEP`](super::STEP).
    pub fn report(&mut self) -> GuardReport {
        let surplus = self.tokens.saturating_sub(self.tokens_keep);
        self.tokens -= surplus;
        self.returned += surplus;
        self.in_epoch.returned += surplus;
        let used = if self.in_use_max == u32::MAX { 0 } else { self.in_use };
        let kept = u64::from(self.permits_keep.max(used));
        self.permits_returned += self.permits_held().saturating_sub(kept);
        self.reports += 1;
        let in_use_peak = std::mem::replace(&mut self.in_use_peak, self.in_use);
        GuardReport {
            shard: self.shard,
            seq: self.reports,
            attempts: self.attempts,
            consumed: self.consumed,
            returned: self.returned,
            permits_returned: self.permits_returned,
            in_use: self.in_use,
            in_use_peak,
            in_flight_refused: self.in_flight_refused,
            epoch: self.in_epoch,
        }
    }

    /// Applies a grant, unless a later one was applied.
    pub fn apply(&mut self, grant: &CallGrant) {
        if grant.seq > self.grant {
            self.take(grant);
        }
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_use
    }

    fn take(&mut self, grant: &CallGrant) {
        self.grant = grant.seq;
        self.mode = grant.mode;
        if grant.epoch != self.in_epoch.epoch {
            self.in_epoch = EpochCounts { epoch: grant.epoch, ..EpochCounts::default() };
        }
        let spent = self.consumed + self.returned;
        // The oldest tokens are used first, so the rest of the void ones are still unused.
        let void = grant.tokens_void.saturating_sub(spent);
        self.returned += void;
        self.tokens = grant
            .tokens
            .checked_sub(spent + void)
            .expect("a shard spends at most what it was granted");
        self.tokens_keep = grant.tokens_keep;
        self.permits_keep = grant.permits_keep;
        self.in_use_max = match grant.permits {
            None => u32::MAX,
            Some(permits) => {
                self.permits_granted = permits;
                let held = u32::try_from(self.permits_held()).unwrap_or(u32::MAX - 1);
                held.min(self.permits_keep)
            }
        };
    }

    fn permits_held(&self) -> u64 {
        self.permits_granted - self.permits_returned
    }
}

#[cfg(test)]
mod tests;

//! The intended time of each call. Pure: time since the start is an argument.
//!
//! In an open loop the intended times are fixed in advance, and latency counts from them. A target
//! that stalls is thus charged for every call that should have left meanwhile ("coordinated
//! omission", G. Tene, 2013).

use std::time::Duration;

use super::options::{LoadLength, LoadMode};

/// One call to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduledCall {
    /// Since the start.
    pub(super) intended: Duration,
    /// False during the warm-up.
    pub(super) is_measured: bool,
}

/// What a connection does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Send(ScheduledCall),
    /// Nothing is due yet.
    Wait,
    /// Nothing more will be due.
    Done,
}

/// The calls of one run.
#[derive(Debug)]
pub(super) struct CallSchedule {
    mode: LoadMode,
    warm_up: Duration,
    length: LoadLength,
    /// How long after its intended time an unsent call is given up.
    patience: Duration,
    /// Open loop: the number of the first measured call, and the number of all calls.
    first_measured: u64,
    total: u64,
    /// Open loop: the number of the next call.
    next: u64,
    /// Measured calls handed out or given up.
    measured: u64,
    /// Measured calls given up.
    unsent: u64,
    stopped: bool,
}

impl CallSchedule {
    pub(super) fn new(
        mode: LoadMode,
        warm_up: Duration,
        length: LoadLength,
        patience: Duration,
    ) -> Self {
        let (first_measured, total) = match mode {
            LoadMode::Closed { .. } => (0, u64::MAX),
            LoadMode::Open { rate_per_s } => {
                let first = calls_before(warm_up, rate_per_s);
                let total = match length {
                    LoadLength::For(length) => calls_before(warm_up + length, rate_per_s),
                    LoadLength::Count(count) => first.saturating_add(count),
                };
                (first, total)
            }
        };
        let (next, measured, unsent, stopped) = (0, 0, 0, false);
        Self {
            mode,
            warm_up,
            length,
            patience,
            first_measured,
            total,
            next,
            measured,
            unsent,
            stopped,
        }
    }

    /// Ends the run: hands out nothing more, and counts calls due at `now` as unsent.
    pub(super) fn stop(&mut self, now: Duration) {
        let end = self.next + self.due(now);
        let given_up = end.saturating_sub(self.next.max(self.first_measured));
        self.next = end;
        self.measured += given_up;
        self.unsent += given_up;
        self.stopped = true;
    }

    /// The latest intended time of a call. None if it depends on the target.
    pub(super) fn end(&self) -> Option<Duration> {
        match (self.mode, self.length) {
            (_, LoadLength::For(length)) => Some(self.warm_up + length),
            (LoadMode::Open { rate_per_s }, LoadLength::Count(_)) => {
                Some(intended_at(self.total, rate_per_s))
            }
            (LoadMode::Closed { .. }, LoadLength::Count(_)) => None,
        }
    }

    /// Measured calls given up because no connection was free.
    pub(super) const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Measured calls handed out so far.
    pub(super) const fn sent(&self) -> u64 {
        self.measured - self.unsent
    }

    /// The next call at `now`, if one is due.
    pub(super) fn take(&mut self, now: Duration) -> Take {
        loop {
            if self.is_done(now) {
                return Take::Done;
            }
            let intended = self.next_intended(now);
            let is_measured = intended >= self.warm_up;
            if intended > now {
                return Take::Wait;
            }
            self.next += 1;
            self.measured += u64::from(is_measured);
            if now - intended <= self.patience {
                return Take::Send(ScheduledCall { intended, is_measured });
            }
            self.unsent += u64::from(is_measured);
        }
    }

    /// Whether [`CallSchedule::take`] would return [`Take::Done`].
    pub(super) fn is_done(&self, now: Duration) -> bool {
        let is_complete = match (self.mode, self.length) {
            (LoadMode::Open { .. }, _) => self.next >= self.total,
            (LoadMode::Closed { .. }, LoadLength::For(length)) => now >= self.warm_up + length,
            (LoadMode::Closed { .. }, LoadLength::Count(count)) => {
                now >= self.warm_up && self.measured >= count
            }
        };
        self.stopped || is_complete
    }

    /// Number of calls due at `now`. Does not take them.
    pub(super) fn due(&self, now: Duration) -> u64 {
        match self.mode {
            LoadMode::Open { rate_per_s } if !self.stopped => {
                let due = now.as_nanos() * u128::from(rate_per_s) / NANOS_PER_S + 1;
                // No call follows the last one, however much time passes.
                let due = u64::try_from(due).unwrap_or(u64::MAX).min(self.total);
                due.saturating_sub(self.next)
            }
            _ => 0,
        }
    }

    fn next_intended(&self, now: Duration) -> Duration {
        match self.mode {
            LoadMode::Closed { .. } => now,
            LoadMode::Open { rate_per_s } => intended_at(self.next, rate_per_s),
        }
    }
}

/// Intended time of call `number` in an open loop.
fn intended_at(number: u64, rate_per_s: u32) -> Duration {
    let nanos = u128::from(number) * NANOS_PER_S / u128::from(rate_per_s);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Number of open-loop calls intended before `time`.
fn calls_before(time: Duration, rate_per_s: u32) -> u64 {
    let calls = (time.as_nanos() * u128::from(rate_per_s)).div_ceil(NANOS_PER_S);
    u64::try_from(calls).unwrap_or(u64::MAX)
}

const NANOS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests;

//! Which calls are made again: at most a tenth of those that went well, so that a provider in trouble is
//! not given more of it.

use std::time::Duration;

use units::SplitMix64;

/// Attempts of a call.
const ATTEMPTS_MAX: u32 = 4;

/// Calls that go well for each that may be made again.
const SUCCESSES_PER_RETRY: u32 = 10;

/// Calls that may be made again before any went well, and the most that are saved up.
const RETRIES_AT_FIRST: u32 = 20;
const RETRIES_MAX: u32 = 100;

/// The longest wait before the first retry; it doubles with each.
const WAIT_AT_FIRST: Duration = Duration::from_millis(100);

/// How many calls may be made again.
#[derive(Clone, Debug)]
pub(super) struct RetryBudget {
    /// In parts of a retry: [`SUCCESSES_PER_RETRY`] are one.
    saved: u32,
    random: SplitMix64,
}

impl RetryBudget {
    pub const fn new(seed: u64) -> Self {
        let saved = RETRIES_AT_FIRST * SUCCESSES_PER_RETRY;
        Self { saved, random: SplitMix64::new(seed) }
    }

    /// A call went well.
    pub fn earn(&mut self) {
        self.saved = (self.saved + 1).min(RETRIES_MAX * SUCCESSES_PER_RETRY);
    }

    /// How long a call waits before it is made again, after so many attempts: any time up to a bound that
    /// doubles, or as long as the provider says. None if it is not made again.
    pub fn spend(&mut self, attempts: u32, after: Option<Duration>) -> Option<Duration> {
        if ATTEMPTS_MAX <= attempts {
            return None;
        }
        self.saved = self.saved.checked_sub(SUCCESSES_PER_RETRY)?;
        let bound = WAIT_AT_FIRST * 2_u32.pow(attempts.saturating_sub(1));
        let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX).max(1);
        let wait = Duration::from_micros(self.random.bits() % micros);
        Some(after.unwrap_or_default().saturating_add(wait))
    }
}

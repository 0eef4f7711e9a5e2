//! When and how much a DSP is throttled for errors. Counts results; must not know shards or tokens.

use std::num::NonZeroU32;

use units::{Ppm, Tick};

use super::limits::BreakerLimits;
use super::window::{CallWindow, OutcomeCounts};

/// Results needed to judge an interval of probes, if it yields that many.
const PROBES_MIN: u64 = 3;

#[derive(Clone, Debug)]
pub(super) struct CircuitBreaker {
    limits: BreakerLimits,
    window: CallWindow,
    throttled: Option<ProbeInterval>,
}

#[derive(Clone, Copy, Debug)]
struct ProbeInterval {
    allowance: NonZeroU32,
    since: Tick,
    results: OutcomeCounts,
    attempts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerChange {
    None,
    /// Throttled to these calls per second; results of earlier calls no longer count.
    Throttled(NonZeroU32),
    Raised(NonZeroU32),
    Closed,
}

impl CircuitBreaker {
    pub(super) fn new(limits: BreakerLimits, now: Tick) -> Self {
        Self { limits, window: CallWindow::new(limits.window, now), throttled: None }
    }

    pub(super) fn allowance(&self) -> Option<NonZeroU32> {
        self.throttled.map(|throttled| throttled.allowance)
    }

    pub(super) fn counts(&self) -> OutcomeCounts {
        self.window.sum()
    }

    /// Adds results and attempts, and judges. `qps_max` is the DSP's limit.
    pub(super) fn step(
        &mut self,
        now: Tick,
        results: OutcomeCounts,
        attempts: u64,
        qps_max: Option<NonZeroU32>,
    ) -> BreakerChange {
        self.window.advance(now);
        self.window.count(results);
        let Some(throttled) = &mut self.throttled else {
            let counts = self.window.sum();
            let is_enough = counts.total() >= u64::from(self.limits.calls_min).max(1);
            return if is_enough && is_over(counts, self.limits.error_share_max) {
                self.throttle(now)
            } else {
                BreakerChange::None
            };
        };
        throttled.results.add(results);
        throttled.attempts += attempts;
        self.judge(now, qps_max)
    }

    fn throttle(&mut self, now: Tick) -> BreakerChange {
        let allowance = self.limits.probe_qps;
        self.throttled = Some(ProbeInterval {
            allowance,
            since: now,
            results: OutcomeCounts::default(),
            attempts: 0,
        });
        BreakerChange::Throttled(allowance)
    }

    fn judge(&mut self, now: Tick, qps_max: Option<NonZeroU32>) -> BreakerChange {
        let limits = self.limits;
        let Some(throttled) = &mut self.throttled else { return BreakerChange::None };
        let elapsed = now.since(throttled.since);
        let is_over_now = is_over(throttled.results, limits.error_share_max);
        let results = throttled.results.total();
        if is_over_now && results >= u64::from(limits.calls_min).max(PROBES_MIN) {
            return self.throttle(now);
        }
        let yielded = u128::from(limits.probe_qps.get()) * limits.probe_interval.as_nanos();
        let yielded = u64::try_from(yielded / 1_000_000_000).unwrap_or(u64::MAX);
        if elapsed < limits.probe_interval || results < PROBES_MIN.min(yielded).max(1) {
            return BreakerChange::None;
        }
        if is_over_now {
            return self.throttle(now);
        }
        let wanted = u128::from(throttled.attempts) * 1_000_000_000 / elapsed.as_nanos().max(1);
        let wanted = qps_max.map_or(wanted, |qps_max| wanted.min(u128::from(qps_max.get())));
        if u128::from(throttled.allowance.get()) >= wanted {
            self.throttled = None;
            self.window.clear();
            return BreakerChange::Closed;
        }
        throttled.allowance = throttled.allowance.saturating_add(throttled.allowance.get());
        throttled.since = now;
        throttled.results = OutcomeCounts::default();
        throttled.attempts = 0;
        BreakerChange::Raised(throttled.allowance)
    }
}

fn is_over(counts: OutcomeCounts, share_max: Ppm) -> bool {
    let bad = u128::from(counts.bad) * u128::from(Ppm::ONE.get());
    bad > u128::from(counts.total()) * u128::from(share_max.get())
}

#[cfg(test)]
mod tests;

//! Whether an origin is asked: after some failures in a row it is left alone, but for one request per
//! pause that tries it, so that clients get a stale answer or an error at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// When an origin is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRules {
    /// After so many failures in a row. Zero: never.
    pub failures_max: u32,
    /// For so long; then one request tries it.
    pub pause: Duration,
}

/// The health of one origin, as its answers show it.
#[derive(Debug)]
pub struct OriginHealth {
    rules: HealthRules,
    state: Mutex<HealthState>,
}

#[derive(Debug, Default)]
struct HealthState {
    /// In a row.
    failures: u32,
    next_try: Duration,
}

/// That an origin began or ceased to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// It failed too often.
    Down,
    /// It has answered again.
    Up,
}

impl OriginHealth {
    /// Well at first.
    pub fn new(rules: HealthRules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// Whether a request may be sent. `now` is the time since any moment that stays the same.
    pub fn admits(&self, now: Duration) -> bool {
        let mut state = self.state();
        let is_admitted = self.is_well(state.failures) || state.next_try <= now;
        if is_admitted {
            state.next_try = now + self.rules.pause;
        }
        is_admitted
    }

    /// Counts how a request ended: with an answer, whatever its status, or without.
    pub fn record(&self, is_answered: bool, now: Duration) -> Option<HealthChange> {
        let mut state = self.state();
        let was_well = self.is_well(state.failures);
        state.failures = if is_answered { 0 } else { state.failures.saturating_add(1) };
        let is_well = self.is_well(state.failures);
        // Requests that were sent before do not postpone the one that tries it.
        if was_well && !is_well {
            state.next_try = now + self.rules.pause;
        }
        match (was_well, is_well) {
            (true, false) => Some(HealthChange::Down),
            (false, true) => Some(HealthChange::Up),
            _ => None,
        }
    }

    /// Whether every request may be sent.
    pub fn is_up(&self) -> bool {
        self.is_well(self.state().failures)
    }

    const fn is_well(&self, failures: u32) -> bool {
        self.rules.failures_max == 0 || failures < self.rules.failures_max
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

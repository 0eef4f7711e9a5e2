//! When a provider is left alone: after failures in a row, for a pause that doubles, after each of which
//! one call tries it.

use std::time::Duration;

use units::Tick;

/// Failures in a row that open it. While a call runs that began before them, it may still show that they
/// came of too many calls at a time.
const FAILURES_MIN: u32 = 5;

const PAUSE_AT_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Whether calls may begin.
#[derive(Clone, Debug)]
pub(super) struct ProviderBreaker {
    failures: u32,
    /// How many calls had begun before the first of these failures.
    begun_before: u64,
    pause: Duration,
    /// None if it is closed, and calls may begin.
    opened: Option<OpenBreaker>,
}

#[derive(Clone, Copy, Debug)]
struct OpenBreaker {
    until: Tick,
    /// The number of the call that tries the provider.
    trial: Option<u64>,
}

/// The calls that run, in the order of their beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningCalls {
    /// The number of the oldest.
    pub oldest: Option<u64>,
    /// How many have begun so far.
    pub begun: u64,
}

impl ProviderBreaker {
    pub const fn new() -> Self {
        Self { failures: 0, begun_before: 0, pause: PAUSE_AT_FIRST, opened: None }
    }

    /// Until when the provider is left alone. None if it is not.
    pub fn closed_until(&self) -> Option<Tick> {
        self.opened.map(|opened| opened.until)
    }

    /// How long it is left alone at a time.
    pub const fn pause(&self) -> Duration {
        self.pause
    }

    /// Until when the provider is left alone, if three calls in a row have tried it in vain: one may fail
    /// by chance.
    pub fn given_up_until(&self, now: Tick) -> Option<Tick> {
        let OpenBreaker { until, trial } = self.opened?;
        (self.pause > 4 * PAUSE_AT_FIRST && trial.is_none() && now < until).then_some(until)
    }

    /// Whether a call tries the provider.
    pub fn is_trying(&self) -> bool {
        self.opened.is_some_and(|opened| opened.trial.is_some())
    }

    /// The call with this number begins.
    pub const fn begin(&mut self, number: u64) {
        if let Some(opened) = &mut self.opened {
            opened.trial = Some(number);
        }
    }

    /// The provider answered.
    pub const fn answered(&mut self) {
        *self = Self::new();
    }

    /// A call failed. While the provider is left alone, that of the call that tries it counts.
    pub fn failed(&mut self, number: u64, calls: RunningCalls, now: Tick) {
        if let Some(opened) = self.opened {
            if opened.trial == Some(number) {
                self.pause = (self.pause * 2).min(PAUSE_MAX);
                self.opened = Some(OpenBreaker { until: now.after(self.pause), trial: None });
            }
            return;
        }
        if self.failures == 0 {
            self.begun_before = calls.begun;
        }
        self.failures = self.failures.saturating_add(1);
        let may_succeed = calls.oldest.is_some_and(|oldest| oldest < self.begun_before);
        if self.failures < FAILURES_MIN || may_succeed {
            return;
        }
        self.opened = Some(OpenBreaker { until: now.after(self.pause), trial: None });
    }

    /// A call was cancelled, which says nothing about the provider.
    pub fn cancelled(&mut self, number: u64) {
        if let Some(opened) = &mut self.opened
            && opened.trial == Some(number)
        {
            opened.trial = None;
        }
    }
}

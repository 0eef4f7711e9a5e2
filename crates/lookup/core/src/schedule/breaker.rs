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
    /// Whether a call tries the provider.
    is_trying: bool,
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

    /// When a call may begin. None if it waits for the end of the one that tries.
    pub fn opens(&self) -> Option<Tick> {
        match self.opened {
            None => Some(Tick::ZERO),
            Some(opened) => (!opened.is_trying).then_some(opened.until),
        }
    }

    /// Whether the provider is left alone: what waits for it waits in vain.
    pub const fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// A call begins.
    pub const fn begin(&mut self) {
        if let Some(opened) = &mut self.opened {
            opened.is_trying = true;
        }
    }

    /// The provider answered.
    pub const fn answered(&mut self) {
        *self = Self::new();
    }

    /// A call failed.
    pub fn failed(&mut self, calls: RunningCalls, now: Tick) {
        if self.failures == 0 {
            self.begun_before = calls.begun;
        }
        self.failures = self.failures.saturating_add(1);
        let may_succeed = calls.oldest.is_some_and(|oldest| oldest < self.begun_before);
        if self.failures < FAILURES_MIN || may_succeed {
            return;
        }
        if self.opened.is_some_and(|opened| opened.is_trying) {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        self.opened = Some(OpenBreaker { until: now.after(self.pause), is_trying: false });
    }

    /// A call was cancelled, which says nothing about the provider.
    pub const fn cancelled(&mut self) {
        if let Some(opened) = &mut self.opened {
            opened.is_trying = false;
        }
    }
}

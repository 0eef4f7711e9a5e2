//! The clock of the look-up thread.

use std::time::Duration;

use tokio::time::Instant;
use units::Tick;

/// Counts from when it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupClock(Instant);

impl LookupClock {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    pub fn now(self) -> Tick {
        Tick::ZERO.after(self.0.elapsed())
    }

    pub fn instant(self, tick: Tick) -> Instant {
        self.0 + Duration::from_nanos(tick.nanos())
    }
}

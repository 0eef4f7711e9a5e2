//! How many calls begin per second: the generic cell rate algorithm (ITU-T I.371), with a burst of a
//! tenth of a second.

use std::time::Duration;

use units::Tick;

/// Divides a second into the burst.
const BURSTS_PER_SECOND: u32 = 10;

/// Lets calls begin at a rate.
#[derive(Clone, Debug)]
pub(super) struct RateGate {
    interval: Duration,
    burst: Duration,
    /// When the next call would begin if all came evenly.
    due: Tick,
}

impl RateGate {
    /// So many calls per second, at least one.
    pub fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        let burst = Duration::from_secs(1) / BURSTS_PER_SECOND;
        Self { interval, burst: burst.max(interval) - interval, due: Tick::ZERO }
    }

    /// The earliest time at which a call may begin.
    pub fn opens(&self) -> Tick {
        self.due.before(self.burst)
    }

    /// A call begins.
    pub fn begin(&mut self, now: Tick) {
        self.due = self.due.max(now).after(self.interval);
    }
}

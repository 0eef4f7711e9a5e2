//! The wall clock, and the clocks by which notices are delivered.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange_core::delivery::DeliveryTime;
use tokio::time::Instant;
use units::Tick;

#[derive(Clone, Copy, Debug)]
pub struct DeliveryClock(Instant);

impl DeliveryClock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(&self) -> DeliveryTime {
        DeliveryTime { tick: Tick::ZERO.after(self.0.elapsed()), unix_ms: unix_ms() }
    }

    pub(super) fn instant(&self, tick: Tick) -> Instant {
        self.0 + tick.since(Tick::ZERO)
    }
}

pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

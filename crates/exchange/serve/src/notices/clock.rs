//! The clocks by which notices are delivered.

use exchange_core::delivery::DeliveryTime;
use runtime::process::unix_ms;
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

//! A timer with microsecond resolution. Tokio's rounds up to the millisecond, which would show in
//! every latency of an open loop.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Shortest period: the cost of more wake-ups would outweigh the precision.
const PERIOD_MIN: Duration = Duration::from_micros(50);

/// Longest period.
const PERIOD_MAX: Duration = Duration::from_millis(200);

/// Ticks at a fixed period. Missed ticks are not repeated.
#[derive(Debug)]
pub(super) struct Ticker(AsyncFd<OwnedFd>);

impl Ticker {
    /// Ticks once per `period`, within 50 µs to 200 ms, from now on.
    pub(super) fn new(period: Duration) -> io::Result<Self> {
        let period = period.clamp(PERIOD_MIN, PERIOD_MAX);
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let period = Timespec { tv_sec: 0, tv_nsec: i64::from(period.subsec_nanos()) };
        let times = Itimerspec { it_interval: period, it_value: period };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for the sake of handles that do not own their \
                      descriptor for life; `OwnedFd` does"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self(timer))
    }

    /// Waits for the next tick. Returns at once if one has passed since the last call.
    pub(super) async fn tick(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0_u8; 8])?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

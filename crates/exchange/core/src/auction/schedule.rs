//! When an auction closes, and how long a DSP has.

use std::time::Duration;

use units::Tick;

/// The exchange's own limits on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Longest auction; a longer or absent `tmax` becomes this.
    pub tmax_max: Duration,
    /// Kept back for clearing and writing the answer.
    pub answer_reserve: Duration,
    /// Taken off what a DSP is told, for the way there and back.
    pub network_margin: Duration,
    /// Least that a DSP must be left with, or nobody is asked.
    pub dsp_time_min: Duration,
}

/// The moments of one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionSchedule {
    /// When the answer must have left: arrival + `tmax`.
    pub deadline: Tick,
    /// When the auction closes with what it has: deadline − answer reserve.
    pub close: Tick,
    network_margin: Duration,
    dsp_time_min: Duration,
}

impl AuctionSchedule {
    /// `None` when `tmax` leaves DSPs less than the least time.
    pub fn new(arrival: Tick, tmax_ms: Option<u32>, limits: &TimeLimits) -> Option<Self> {
        let asked = tmax_ms.map(|ms| Duration::from_millis(ms.into()));
        let tmax = asked.unwrap_or(limits.tmax_max).min(limits.tmax_max);
        let needed = limits.answer_reserve + limits.network_margin + limits.dsp_time_min;
        if tmax < needed {
            return None;
        }
        let deadline = arrival.after(tmax);
        let close = deadline.before(limits.answer_reserve);
        Some(Self {
            deadline,
            close,
            network_margin: limits.network_margin,
            dsp_time_min: limits.dsp_time_min,
        })
    }

    /// Whether DSPs asked at `now` would have the least time.
    pub fn suffices(&self, now: Tick) -> bool {
        self.left(now, None) >= self.dsp_time_min
    }

    /// What is left until the close, less the network margin.
    fn left(&self, now: Tick, margin: Option<Duration>) -> Duration {
        self.close.since(now).saturating_sub(margin.unwrap_or(self.network_margin))
    }

    /// The `tmax` to tell a DSP, in whole milliseconds: what is left until the close, less the
    /// network margin, at most its own timeout. 0 if nothing is left.
    pub fn dsp_tmax_ms(&self, now: Tick, timeout: Duration, margin: Option<Duration>) -> u32 {
        let left = self.left(now, margin).min(timeout);
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
    }

    /// When a DSP asked at `now` is no longer waited for.
    pub fn wait_until(&self, now: Tick, timeout: Duration) -> Tick {
        self.close.min(now.after(timeout))
    }
}

#[cfg(test)]
mod tests;

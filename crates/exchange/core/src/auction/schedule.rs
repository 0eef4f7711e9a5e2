//! When an auction closes, and how much time a DSP has.

use std::time::Duration;

use units::Tick;

/// The exchange's time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// Longest auction, also if `tmax` is longer or absent.
    pub tmax_max: Duration,
    /// Reserved for clearing and writing the response.
    pub answer_reserve: Duration,
    /// Deducted from a DSP's `tmax` for the network.
    pub network_margin: Duration,
    /// Least time for DSPs; with less, none is asked.
    pub dsp_time_min: Duration,
}

/// The moments of one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionSchedule {
    /// When the response must have left: arrival + `tmax`.
    pub deadline: Tick,
    /// When the auction closes with the answers it has: deadline − answer reserve.
    pub close: Tick,
    network_margin: Duration,
    dsp_time_min: Duration,
}

impl AuctionSchedule {
    /// None if `tmax` leaves DSPs less than the least time.
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
    pub fn leaves_time(&self, now: Tick) -> bool {
        self.time_left(now, None) >= self.dsp_time_min
    }

    fn time_left(&self, now: Tick, margin: Option<Duration>) -> Duration {
        self.close.since(now).saturating_sub(margin.unwrap_or(self.network_margin))
    }

    /// The `tmax` sent to a DSP, in whole milliseconds: the time until the close less the network
    /// margin, at most the DSP's timeout. 0 if no time is left.
    pub fn dsp_tmax_ms(&self, now: Tick, timeout: Duration, margin: Option<Duration>) -> u32 {
        let left = self.time_left(now, margin).min(timeout);
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
    }

    /// When to stop waiting for a DSP asked at `now`.
    pub fn wait_until(&self, now: Tick, timeout: Duration) -> Tick {
        self.close.min(now.after(timeout))
    }
}

#[cfg(test)]
mod tests;

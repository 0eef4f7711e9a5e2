//! When an auction closes, and how long a DSP has.

use std::time::Duration;

use units::Tick;

/// The exchange's own limits on time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
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
pub struct Schedule {
    /// When the answer must have left: arrival + `tmax`.
    pub deadline: Tick,
    /// When the auction closes with what it has: deadline − answer reserve.
    pub close: Tick,
    network_margin: Duration,
    dsp_time_min: Duration,
}

impl Schedule {
    /// `None` when `tmax` leaves DSPs less than the least time.
    pub fn new(arrival: Tick, tmax_ms: Option<u32>, limits: &Limits) -> Option<Self> {
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
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    const LIMITS: Limits = Limits {
        tmax_max: Duration::from_millis(200),
        answer_reserve: Duration::from_millis(5),
        network_margin: Duration::from_millis(10),
        dsp_time_min: Duration::from_millis(5),
    };

    #[track_caller]
    fn check(tmax: Option<u32>, want: Option<(u128, u128, u32)>) {
        let arrival = Tick::from_nanos(1_000);
        let got = Schedule::new(arrival, tmax, &LIMITS).map(|schedule| {
            let ms = |tick: Tick| tick.since(arrival).as_millis();
            (
                ms(schedule.deadline),
                ms(schedule.close),
                schedule.dsp_tmax_ms(arrival, MS(1000), None),
            )
        });
        assert_eq!(got, want, "{tmax:?}");
    }

    #[test]
    fn tmax_is_capped_and_must_suffice() {
        //    tmax       deadline, close, told to a DSP
        check(None, Some((200, 195, 185)));
        check(Some(100), Some((100, 95, 85)));
        check(Some(5000), Some((200, 195, 185)));
        check(Some(20), Some((20, 15, 5)));
        check(Some(19), None);
        check(Some(0), None);
    }

    #[test]
    fn a_request_that_was_slow_to_come_must_leave_the_least_time() {
        let schedule = Schedule::new(Tick::ZERO, Some(100), &LIMITS).unwrap();
        let at = |ms| Tick::ZERO.after(MS(ms));
        // Closes at 95, less a margin of 10 and the least time of 5.
        for (ms, want) in [(0, true), (80, true), (81, false), (200, false)] {
            assert_eq!(schedule.suffices(at(ms)), want, "{ms}");
        }
    }

    #[test]
    fn a_dsp_has_what_is_left_or_its_own_timeout() {
        let schedule = Schedule::new(Tick::ZERO, None, &LIMITS).unwrap();
        let at = |ms| Tick::ZERO.after(MS(ms));
        assert_eq!(schedule.dsp_tmax_ms(at(35), MS(1000), None), 150);
        assert_eq!(schedule.dsp_tmax_ms(at(35), MS(80), None), 80);
        assert_eq!(schedule.dsp_tmax_ms(at(300), MS(80), None), 0);
        assert_eq!(schedule.dsp_tmax_ms(at(35), MS(1000), Some(MS(0))), 160);
        assert_eq!(schedule.dsp_tmax_ms(at(35), MS(1000), Some(MS(60))), 100);
        assert_eq!(schedule.dsp_tmax_ms(at(35), MS(1000), Some(MS(160))), 0);
        assert_eq!(schedule.wait_until(at(35), MS(80)), at(115));
        assert_eq!(schedule.wait_until(at(150), MS(80)), at(195));
    }
}

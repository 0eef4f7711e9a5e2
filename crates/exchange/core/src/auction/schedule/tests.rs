//! Deadlines from `tmax` and the limits.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

const LIMITS: TimeLimits = TimeLimits {
    tmax_max: Duration::from_millis(200),
    answer_reserve: Duration::from_millis(5),
    network_margin: Duration::from_millis(10),
    dsp_time_min: Duration::from_millis(5),
};

#[track_caller]
fn check(tmax: Option<u32>, want: Option<(u128, u128, u32)>) {
    let arrival = Tick::from_nanos(1_000);
    let got = AuctionSchedule::new(arrival, tmax, &LIMITS).map(|schedule| {
        let ms = |tick: Tick| tick.since(arrival).as_millis();
        (ms(schedule.deadline), ms(schedule.close), schedule.dsp_tmax_ms(arrival, MS(1000), None))
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
    let schedule = AuctionSchedule::new(Tick::ZERO, Some(100), &LIMITS).unwrap();
    let at = |ms| Tick::ZERO.after(MS(ms));
    // Closes at 95, less a margin of 10 and the least time of 5.
    for (ms, want) in [(0, true), (80, true), (81, false), (200, false)] {
        assert_eq!(schedule.leaves_time(at(ms)), want, "{ms}");
    }
}

#[test]
fn a_dsp_has_what_is_left_or_its_own_timeout() {
    let schedule = AuctionSchedule::new(Tick::ZERO, None, &LIMITS).unwrap();
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

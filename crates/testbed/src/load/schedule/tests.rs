//! The calls that are due, in both loops.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn send(intended_ms: u64, is_measured: bool) -> Take {
    Take::Send(ScheduledCall { intended: ms(intended_ms), is_measured })
}

#[test]
fn an_open_loop_keeps_its_times_however_late_it_is_asked() {
    let mode = LoadMode::Open { rate_per_s: 100 };
    let mut schedule = CallSchedule::new(mode, ms(20), LoadLength::For(ms(50)), ms(30));
    assert_eq!(schedule.due(ms(0)), 1);
    assert_eq!(schedule.take(ms(0)), send(0, false));
    assert_eq!(schedule.take(ms(9)), Take::Wait);
    assert_eq!(schedule.due(ms(25)), 2);
    assert_eq!(schedule.take(ms(25)), send(10, false));
    assert_eq!(schedule.take(ms(25)), send(20, true));
    assert_eq!(schedule.take(ms(25)), Take::Wait);
    assert_eq!(schedule.due(ms(60)), 4);
    assert_eq!(schedule.take(ms(60)), send(30, true)); // Exactly as late as allowed.
    assert_eq!(schedule.take(ms(71)), send(50, true)); // 40 is 31 ms ago: given up.
    assert_eq!((schedule.sent(), schedule.unsent()), (3, 1));
    assert_eq!(schedule.take(ms(71)), send(60, true));
    assert_eq!(schedule.take(ms(71)), Take::Done); // 70 would be past the end.
}

#[test]
fn a_closed_loop_sends_whenever_asked() {
    let mode = LoadMode::Closed { in_flight: 1 };
    let mut schedule = CallSchedule::new(mode, ms(10), LoadLength::For(ms(10)), ms(1));
    assert_eq!(schedule.take(ms(9)), send(9, false));
    assert_eq!(schedule.take(ms(10)), send(10, true));
    assert_eq!(schedule.take(ms(19)), send(19, true));
    assert_eq!(schedule.take(ms(20)), Take::Done);
    assert_eq!((schedule.sent(), schedule.due(ms(20))), (2, 0));
}

#[test]
fn a_count_leaves_the_warm_up_out() {
    for mode in [LoadMode::Closed { in_flight: 1 }, LoadMode::Open { rate_per_s: 1_000 }] {
        let mut schedule = CallSchedule::new(mode, ms(2), LoadLength::Count(2), ms(100));
        let taken: Vec<_> = (0..5).map(|at| schedule.take(ms(at))).collect();
        let want = [send(0, false), send(1, false), send(2, true), send(3, true), Take::Done];
        assert_eq!(taken, want);
    }
}

#[test]
fn a_stopped_schedule_is_done() {
    let mode = LoadMode::Closed { in_flight: 1 };
    let mut schedule = CallSchedule::new(mode, ms(0), LoadLength::Count(9), ms(1));
    assert_eq!(schedule.take(ms(0)), send(0, true));
    schedule.stop(ms(0));
    assert_eq!(schedule.take(ms(0)), Take::Done);
    assert_eq!((schedule.sent(), schedule.unsent()), (1, 0));
}

#[test]
fn what_is_due_when_a_schedule_stops_counts_as_unsent() {
    let mode = LoadMode::Open { rate_per_s: 1_000 };
    let mut schedule = CallSchedule::new(mode, ms(3), LoadLength::Count(100), ms(100));
    assert_eq!(schedule.take(ms(0)), send(0, false));
    schedule.stop(ms(10)); // Due are 1 and 2 of the warm-up, and 3 to 10.
    assert_eq!((schedule.sent(), schedule.unsent(), schedule.due(ms(20))), (0, 8, 0));
    assert_eq!(schedule.take(ms(20)), Take::Done);
}

#[test]
fn nothing_is_due_after_the_last_call() {
    for (length, total) in [(LoadLength::For(ms(50)), 50), (LoadLength::Count(50), 50)] {
        let mode = LoadMode::Open { rate_per_s: 1_000 };
        let mut schedule = CallSchedule::new(mode, ms(20), length, ms(30));
        assert_eq!(schedule.end(), Some(ms(70)));
        // Overdue: the first query comes long after the end.
        assert_eq!(schedule.due(ms(95)), 20 + total);
        assert_eq!(schedule.take(ms(95)), send(65, true));
        assert_eq!(schedule.due(ms(95)), 4);
        assert_eq!(schedule.take(ms(200)), Take::Done);
        assert_eq!((schedule.due(ms(200)), schedule.is_done(ms(200))), (0, true));
        assert_eq!((schedule.sent(), schedule.unsent()), (1, total - 1));
    }
}

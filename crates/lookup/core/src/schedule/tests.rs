//! Lanes in turn, and in a simulation: limits hold, nothing starves, permits are conserved, and few calls
//! are made again.

mod simulation;

use std::time::Duration;

use units::Tick;

use super::*;

pub(super) const OPTIONS: ProviderLaneOptions =
    ProviderLaneOptions { concurrency_max: Some(2), rate_max: None, waiting_max: 3, seed: 1 };

pub(super) fn at_ms(ms: u64) -> Tick {
    Tick::from_nanos(ms * 1_000_000)
}

pub(super) fn call(number: u64, class: CallClass, user: u64) -> QueuedCall {
    let (number, user) = (CallNumber(number), LookupUser(user));
    QueuedCall { number, class, user, deadline: at_ms(60_000), is_idempotent: true }
}

#[track_caller]
fn started(lane: &mut ProviderLane, now: Tick) -> AttemptPermit {
    match lane.next(now) {
        Some(StartedCall::Start(permit)) => permit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn at_most_the_ceiling_runs_and_the_rest_waits() {
    let mut lane = ProviderLane::new(OPTIONS);
    for number in 0..3 {
        assert_eq!(lane.submit(call(number, CallClass::Operator, 1), Tick::ZERO), Ok(()));
    }
    // Three wait; a fourth is refused, with an estimate: two at a time, 100 ms each.
    let refused = lane.submit(call(3, CallClass::Operator, 1), Tick::ZERO);
    assert_eq!(refused, Err(CallRefusal::Full(Duration::from_millis(200))));
    assert_eq!(lane.submit(call(4, CallClass::Bid, 1), Tick::ZERO), Ok(()));
    let first = started(&mut lane, Tick::ZERO);
    assert_eq!(first.call().number, CallNumber(4));
    let second = started(&mut lane, Tick::ZERO);
    assert_eq!(
        (second.call().number, lane.next(Tick::ZERO), lane.wakes(Tick::ZERO)),
        (CallNumber(0), None, None)
    );
    assert_eq!(lane.end(first, AttemptOutcome::Answered, at_ms(10)), AttemptEnd::Over);
    assert_eq!(lane.wakes(at_ms(10)), Some(at_ms(10)));
    let third = started(&mut lane, at_ms(10));
    assert_eq!(lane.status().in_flight, 2);
    for permit in [second, third] {
        assert_eq!(lane.end(permit, AttemptOutcome::Cancelled, at_ms(20)), AttemptEnd::Over);
    }
    assert!(lane.cancel(CallNumber(2)) && !lane.cancel(CallNumber(2)));
    let status = lane.status();
    assert_eq!((status.in_flight, status.waiting, status.attempts), (0, 0, 3));
    assert_eq!(lane.next(at_ms(20)), None);
}

#[test]
fn users_of_a_class_take_turns() {
    let mut lane = ProviderLane::new(ProviderLaneOptions { waiting_max: 100, ..OPTIONS });
    for (number, user) in [1, 1, 1, 2, 3, 3].into_iter().enumerate() {
        lane.submit(call(number as u64, CallClass::Operator, user), Tick::ZERO).expect("room");
    }
    let mut order = Vec::new();
    while order.len() < 6 {
        let permit = started(&mut lane, Tick::ZERO);
        order.push(permit.call().user.0);
        lane.end(permit, AttemptOutcome::Answered, Tick::ZERO);
    }
    assert_eq!(order, [1, 2, 3, 1, 3, 1]);
}

#[test]
fn a_call_that_is_too_late_is_refused() {
    let mut lane = ProviderLane::new(OPTIONS);
    let late = QueuedCall { deadline: at_ms(5), ..call(1, CallClass::Operator, 1) };
    assert_eq!(lane.submit(late, at_ms(5)), Err(CallRefusal::TooLate));
    lane.submit(late, at_ms(4)).expect("in time");
    assert_eq!(lane.next(at_ms(5)), Some(StartedCall::Refuse(late, CallRefusal::TooLate)));
}

#[test]
fn calls_begin_at_the_rate() {
    let options = ProviderLaneOptions {
        rate_max: Some(10),
        concurrency_max: Some(100),
        waiting_max: 100,
        ..OPTIONS
    };
    let mut lane = ProviderLane::new(options);
    for number in 0..20 {
        lane.submit(call(number, CallClass::Operator, 1), Tick::ZERO).expect("room");
    }
    let mut begun = Vec::new();
    let mut now = Tick::ZERO;
    while begun.len() < 20 {
        match lane.next(now) {
            Some(StartedCall::Start(permit)) => {
                begun.push(now.nanos() / 1_000_000);
                lane.end(permit, AttemptOutcome::Answered, now);
            }
            Some(other) => panic!("{other:?}"),
            None => now = lane.wakes(now).expect("calls wait"),
        }
    }
    let even: Vec<u64> = (0..20).map(|at| at * 100).collect();
    assert_eq!(begun, even);
}

#[test]
fn a_call_is_made_again_when_the_provider_says() {
    let mut lane = ProviderLane::new(OPTIONS);
    lane.submit(call(1, CallClass::Operator, 1), Tick::ZERO).expect("room");
    let permit = started(&mut lane, Tick::ZERO);
    let failed = AttemptOutcome::Busy(Some(Duration::from_secs(2)));
    assert_eq!(lane.end(permit, failed, at_ms(1)), AttemptEnd::Again);
    let due = lane.wakes(at_ms(1)).expect("it waits");
    assert!((at_ms(2_001)..at_ms(2_101)).contains(&due), "{due:?}");
    assert_eq!(lane.next(at_ms(2_000)), None);
    let permit = started(&mut lane, due);
    assert_eq!((permit.attempt(), lane.status().retries), (2, 1));
    assert_eq!(lane.end(permit, AttemptOutcome::Answered, due), AttemptEnd::Over);
    // Not at all if it must not be made twice, nor after it was cancelled.
    let once = QueuedCall { is_idempotent: false, ..call(2, CallClass::Operator, 1) };
    lane.submit(once, due).expect("room");
    let permit = started(&mut lane, due);
    assert_eq!(lane.end(permit, AttemptOutcome::Failed, due), AttemptEnd::Over);
    lane.submit(call(3, CallClass::Operator, 1), due).expect("room");
    let permit = started(&mut lane, due);
    assert_eq!(lane.end(permit, AttemptOutcome::Failed, due), AttemptEnd::Again);
    assert!(lane.cancel(CallNumber(3)));
    assert_eq!(lane.next(at_ms(30_000)), None);
    // Not beyond its deadline. Meanwhile no other call begins, but for a minute at most.
    lane.submit(call(4, CallClass::Operator, 1), at_ms(30_000)).expect("room");
    let permit = started(&mut lane, at_ms(30_000));
    let later = AttemptOutcome::Busy(Some(Duration::from_secs(u64::MAX)));
    assert_eq!(lane.end(permit, later, at_ms(30_000)), AttemptEnd::Over);
    let late = QueuedCall { deadline: at_ms(200_000), ..call(5, CallClass::Operator, 1) };
    lane.submit(late, at_ms(30_000)).expect("room");
    assert_eq!((lane.next(at_ms(89_999)), lane.wakes(at_ms(30_000))), (None, Some(at_ms(90_000))));
    let permit = started(&mut lane, at_ms(90_000));
    lane.end(permit, AttemptOutcome::Answered, at_ms(90_000));
}

#[test]
fn a_provider_that_fails_again_and_again_is_left_alone() {
    let mut lane = ProviderLane::new(ProviderLaneOptions { waiting_max: 100, ..OPTIONS });
    let once = |number| QueuedCall { is_idempotent: false, ..call(number, CallClass::Operator, 1) };
    let fail = |lane: &mut ProviderLane, number, now| {
        lane.submit(once(number), now).expect("room");
        let permit = started(lane, now);
        lane.end(permit, AttemptOutcome::Failed, now);
    };
    (0..4).for_each(|number| fail(&mut lane, number, Tick::ZERO));
    fail(&mut lane, 4, Tick::ZERO);
    let pause = Duration::from_millis(500);
    assert_eq!(lane.submit(once(5), Tick::ZERO), Err(CallRefusal::LeftAlone(pause)));
    assert_eq!(lane.next(Tick::ZERO), None);
    // One call tries it; meanwhile others do not begin. The next pause is longer.
    lane.submit(once(6), at_ms(500)).expect("it is tried");
    lane.submit(once(7), at_ms(500)).expect("it is tried");
    let permit = started(&mut lane, at_ms(500));
    assert_eq!(lane.submit(once(8), at_ms(500)), Err(CallRefusal::LeftAlone(pause)));
    assert_eq!((lane.next(at_ms(500)), lane.wakes(at_ms(500))), (None, None));
    lane.end(permit, AttemptOutcome::Failed, at_ms(500));
    assert_eq!(
        lane.submit(once(8), at_ms(600)),
        Err(CallRefusal::LeftAlone(Duration::from_millis(900)))
    );
    // What waits goes on waiting. A call that is cancelled says nothing: another tries.
    assert_eq!((lane.next(at_ms(600)), lane.wakes(at_ms(600))), (None, Some(at_ms(1_500))));
    let permit = started(&mut lane, at_ms(1_500));
    assert_eq!(permit.call().number, CallNumber(7));
    lane.end(permit, AttemptOutcome::Cancelled, at_ms(1_500));
    lane.submit(once(9), at_ms(1_500)).expect("it is tried");
    let permit = started(&mut lane, at_ms(1_500));
    lane.end(permit, AttemptOutcome::Answered, at_ms(1_500));
    assert!(!lane.status().is_left_alone);
    lane.submit(once(10), at_ms(1_500)).expect("it answers");
}

#[test]
fn nobody_waits_for_a_provider_that_was_tried_in_vain() {
    let mut lane = ProviderLane::new(ProviderLaneOptions { waiting_max: 100, ..OPTIONS });
    let patient =
        |number| QueuedCall { deadline: at_ms(60_000), ..call(number, CallClass::Operator, 1) };
    for number in 0..20 {
        lane.submit(patient(number), Tick::ZERO).expect("room");
    }
    // Each is made again up to three times; from the fifth failure on, one tries at a time.
    let (mut now, mut failures) = (Tick::ZERO, 0);
    loop {
        match lane.next(now) {
            Some(StartedCall::Start(permit)) => {
                failures += 1;
                lane.end(permit, AttemptOutcome::Failed, now);
            }
            Some(StartedCall::Refuse(_, refusal)) => {
                assert_eq!(refusal, CallRefusal::LeftAlone(Duration::from_secs(4)));
                break;
            }
            None => now = lane.wakes(now).expect("calls wait"),
        }
    }
    assert_eq!(failures, 5 + 3);
    // After pauses of 0.5, 1 and 2 s, and what the calls wait for at first.
    assert!((at_ms(3_500)..at_ms(4_500)).contains(&now), "{now:?}");
    let refused = (0..).take_while(|_| lane.next(now).is_some()).count();
    assert_eq!((refused, lane.status().waiting), (19, 0));
    // Who comes after the pause tries it.
    let later = now.after(Duration::from_secs(4));
    lane.submit(patient(20), later).expect("it is tried");
    let permit = started(&mut lane, later);
    lane.end(permit, AttemptOutcome::Answered, later);
    assert!(!lane.status().is_left_alone);
}

#[test]
fn calls_from_before_do_not_end_a_trial() {
    let options = ProviderLaneOptions { concurrency_max: Some(10), waiting_max: 100, ..OPTIONS };
    let mut lane = ProviderLane::new(options);
    let once = |number| QueuedCall { is_idempotent: false, ..call(number, CallClass::Operator, 1) };
    for number in 0..7 {
        lane.submit(once(number), Tick::ZERO).expect("room");
    }
    let mut permits: Vec<_> = (0..7).map(|_| started(&mut lane, Tick::ZERO)).collect();
    let mut stragglers = permits.split_off(6);
    // The first six fail; the breaker waits for the seventh.
    for permit in permits {
        lane.end(permit, AttemptOutcome::Failed, Tick::ZERO);
    }
    assert!(!lane.status().is_left_alone);
    lane.submit(once(7), Tick::ZERO).expect("room");
    stragglers.push(started(&mut lane, Tick::ZERO));
    let straggler = stragglers.pop().expect("the eighth");
    lane.end(stragglers.remove(0), AttemptOutcome::Failed, Tick::ZERO);
    assert!(lane.status().is_left_alone);
    lane.submit(once(8), at_ms(500)).expect("it is tried");
    let trial = started(&mut lane, at_ms(500));
    lane.submit(once(9), at_ms(501)).expect_err("a call tries it");
    lane.end(straggler, AttemptOutcome::Failed, at_ms(501));
    let pause = Duration::from_millis(500);
    assert_eq!(lane.submit(once(9), at_ms(501)), Err(CallRefusal::LeftAlone(pause)));
    lane.end(trial, AttemptOutcome::Answered, at_ms(502));
    lane.submit(once(9), at_ms(502)).expect("it answers");
}

#[test]
#[should_panic(expected = "each call has its own number")]
fn two_calls_with_one_number_are_a_defect() {
    let mut lane = ProviderLane::new(OPTIONS);
    lane.submit(call(1, CallClass::Operator, 1), Tick::ZERO).expect("room");
    let _never = lane.submit(call(1, CallClass::Bid, 2), Tick::ZERO);
}

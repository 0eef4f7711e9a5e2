//! What a shard admits, refuses, counts and returns.

use super::*;

fn grant(mode: GuardMode) -> CallGrant {
    CallGrant {
        shard: 3,
        seq: 1,
        mode,
        epoch: 0,
        tokens: 10,
        tokens_void: 0,
        tokens_keep: 10,
        permits: Some(5),
        permits_keep: 5,
    }
}

fn admitted(guard: &mut ShardGuard, calls: usize) -> Vec<CallPermit> {
    (0..calls).map(|_| guard.acquire().expect("there are rights enough").0).collect()
}

#[test]
fn refusals_are_told_in_order() {
    use GuardMode::{Limited, Open, Paused, Throttled};
    let nothing = |mode| CallGrant { tokens: 0, permits: Some(0), ..grant(mode) };
    let no_permit = |mode| CallGrant { permits: Some(0), ..grant(mode) };
    for (grant, want) in [
        (nothing(Paused), Some(GuardRefusal::Paused)),
        (grant(Paused), Some(GuardRefusal::Paused)),
        (nothing(Throttled), Some(GuardRefusal::Breaker)),
        (nothing(Limited), Some(GuardRefusal::Qps)),
        (nothing(Open), Some(GuardRefusal::InFlight)),
        (no_permit(Throttled), Some(GuardRefusal::InFlight)),
        (no_permit(Limited), Some(GuardRefusal::InFlight)),
        (CallGrant { permits_keep: 0, ..grant(Open) }, Some(GuardRefusal::InFlight)),
        (CallGrant { permits: None, permits_keep: 0, ..grant(Limited) }, None),
        (CallGrant { permits: None, permits_keep: 0, ..nothing(Open) }, None),
        (grant(Throttled), None),
    ] {
        let mut guard = ShardGuard::new(&grant);
        assert_eq!(guard.acquire().err(), want, "{grant:?}");
        let report = guard.report();
        let used = u64::from(want.is_none() && grant.mode != Open);
        assert_eq!((report.attempts, report.consumed), (1, used), "{grant:?}");
        assert_eq!(report.in_use, u32::from(want.is_none()));
    }
    assert!(
        GuardRefusal::Paused < GuardRefusal::Breaker && GuardRefusal::Breaker < GuardRefusal::Qps
    );
    assert!(GuardRefusal::Qps < GuardRefusal::InFlight);
}

#[test]
fn ends_are_counted_once_and_in_their_epoch() {
    for (end, want) in [
        (CallHealth::Good, (1, 0)),
        (CallHealth::Bad, (0, 1)),
        (CallHealth::TimedOut { had_min_time: true }, (0, 1)),
        (CallHealth::TimedOut { had_min_time: false }, (0, 0)),
        (CallHealth::Neutral, (0, 0)),
    ] {
        let mut guard = ShardGuard::new(&grant(GuardMode::Limited));
        let (permit, trial) = guard.acquire().unwrap();
        guard.report_outcome(trial, end);
        assert_eq!(guard.in_flight(), 1);
        guard.release(permit);
        assert_eq!(guard.in_flight(), 0);
        let counts = guard.report().epoch;
        assert_eq!((counts.good, counts.bad), want, "{end:?}");
    }
    let mut guard = ShardGuard::new(&grant(GuardMode::Limited));
    let (permit, trial) = guard.acquire().unwrap();
    guard.apply(&CallGrant {
        seq: 2,
        epoch: 1,
        mode: GuardMode::Throttled,
        ..grant(GuardMode::Limited)
    });
    guard.report_outcome(trial, CallHealth::Good);
    guard.release(permit);
    let report = guard.report();
    assert_eq!(report.consumed, 1);
    assert_eq!(report.epoch, EpochCounts { epoch: 1, ..EpochCounts::default() });
}

#[test]
fn only_what_is_free_goes_back() {
    let mut guard = ShardGuard::new(&grant(GuardMode::Limited));
    let mut calls = admitted(&mut guard, 4);
    let keep = |seq, tokens_keep, permits_keep| CallGrant {
        seq,
        tokens_keep,
        permits_keep,
        ..grant(GuardMode::Limited)
    };
    guard.apply(&keep(2, 4, 2));
    let report = guard.report();
    // Of 10 tokens 4 are used and 4 kept; of 5 permits 4 are in use.
    assert_eq!((report.consumed, report.returned, report.permits_returned), (4, 2, 1));
    assert_eq!((report.in_use, report.in_use_peak), (4, 4));
    guard.release(calls.pop().unwrap());
    assert_eq!(guard.acquire().err(), Some(GuardRefusal::InFlight));
    assert_eq!(guard.report().permits_returned, 2);
    guard.release(calls.pop().unwrap());
    guard.release(calls.pop().unwrap());
    calls.extend(admitted(&mut guard, 1));
    assert_eq!(guard.acquire().err(), Some(GuardRefusal::InFlight));
    let report = guard.report();
    assert_eq!((report.permits_returned, report.in_use_peak), (3, 3));
    assert_eq!((report.in_flight_refused, report.seq), (2, 3));
    guard.release(calls.pop().unwrap());
    guard.apply(&keep(3, 4, 0));
    assert_eq!(guard.report().permits_returned, 4);
    for call in calls {
        guard.release(call);
    }
    assert_eq!(guard.report().permits_returned, 5);
}

#[test]
fn void_tokens_are_given_back_at_once() {
    // granted, void, used before; left, returned
    for (tokens, tokens_void, used, left, returned) in [
        (10, 10, 0, 0, 10),
        (12, 10, 0, 2, 10),
        (12, 10, 4, 2, 6),
        (12, 3, 4, 8, 0),
        (12, 4, 4, 8, 0),
    ] {
        let mut guard = ShardGuard::new(&CallGrant { permits: None, ..grant(GuardMode::Limited) });
        for permit in admitted(&mut guard, used) {
            guard.release(permit);
        }
        let throttled =
            CallGrant { tokens, tokens_void, tokens_keep: 99, ..grant(GuardMode::Throttled) };
        guard.apply(&CallGrant { seq: 2, epoch: 1, permits: None, ..throttled });
        let before = guard.report();
        assert_eq!((before.returned, before.epoch.returned), (returned, 0));
        let calls = (0..20).take_while(|_| guard.acquire().is_ok()).count();
        assert_eq!(calls as u64, left);
        let report = guard.report();
        assert_eq!((report.epoch.consumed, report.returned), (left, returned));
    }
}

#[test]
fn the_latest_grant_holds_whatever_comes_after() {
    let mut guard = ShardGuard::new(&grant(GuardMode::Limited));
    guard.apply(&CallGrant { seq: 3, tokens: 12, ..grant(GuardMode::Paused) });
    for old in [1, 2, 3] {
        guard.apply(&CallGrant { seq: old, tokens: 11, ..grant(GuardMode::Limited) });
        assert_eq!(guard.acquire().err(), Some(GuardRefusal::Paused));
    }
    // Lost messages are included in the next.
    guard.apply(&CallGrant {
        seq: 9,
        tokens: 30,
        permits: Some(40),
        permits_keep: 40,
        ..grant(GuardMode::Limited)
    });
    assert_eq!((0..50).filter_map(|_| guard.acquire().ok()).count(), 30);
}

#[test]
#[should_panic(expected = "spends at most what it was granted")]
fn grants_that_take_back_stop_the_process() {
    let mut guard = ShardGuard::new(&grant(GuardMode::Limited));
    let _calls = admitted(&mut guard, 5);
    guard.apply(&CallGrant { seq: 2, tokens: 4, ..grant(GuardMode::Limited) });
}

//! Limits, turns, and failing DSPs: their cost to others.

use std::time::Duration;

use super::fixtures::*;
use crate::delivery::*;

fn submit(kind: BestEffort, dsp: &str, path: &str) -> Event {
    Event::Submit { kind, notice: notice(dsp, path) }
}

#[test]
fn every_limit_refuses_billing() {
    #[track_caller]
    fn check(what: &str, tight: DeliveryPolicy, fits: usize) {
        let mut bench = Bench::new(tight);
        for number in 0..9 {
            let dsp = ["a", "b", "c"][usize::from(number) % 3];
            let saw = bench.beacon(number, notice(dsp, "x"));
            let call = u64::from(number) + 1;
            let want = match usize::from(number) < fits {
                true => Saw::Acknowledged(call),
                false => Saw::Refused(call, BeaconRefusal::Busy),
            };
            assert_eq!(saw[0], want, "{what}: beacon {number}");
        }
        let counters = bench.delivery.counters();
        assert_eq!(
            (counters.billing_owed, counters.beacons_busy),
            (fits, 9 - fits as u64),
            "{what}"
        );
    }
    let wide = DeliveryPolicy {
        billing_max: 100,
        billing_max_per_dsp: 100,
        remembered_max: 100,
        bytes_max: 10_000,
        ..policy()
    };
    check("per DSP", DeliveryPolicy { billing_max_per_dsp: 2, ..wide }, 6);
    check("in all", DeliveryPolicy { billing_max: 5, ..wide }, 5);
    check("remembered", DeliveryPolicy { remembered_max: 4, ..wide }, 4);
    check("bytes", DeliveryPolicy { bytes_max: 7 * 20 + 19, ..wide }, 7);
    check("DSPs", DeliveryPolicy { dsps_max: 2, billing_max: 2, ..wide }, 2);
    check("none", wide, 9);
}

#[test]
fn what_is_delivered_makes_room_but_is_remembered() {
    let mut bench = Bench::new(DeliveryPolicy { billing_max: 1, remembered_max: 2, ..policy() });
    assert_eq!(bench.beacon(1, notice("a", "x"))[0], Saw::Acknowledged(1));
    assert_eq!(bench.beacon(2, notice("b", "x")), [Saw::Refused(2, BeaconRefusal::Busy)]);
    bench.answer(SendOutcome::Status(200));
    assert_eq!(bench.beacon(2, notice("b", "x"))[0], Saw::Acknowledged(3));
    bench.answer(SendOutcome::Status(200));
    assert_eq!(bench.beacon(3, notice("c", "x")), [Saw::Refused(4, BeaconRefusal::Busy)]);
}

#[test]
fn a_lane_that_holds_nothing_gives_way() {
    let mut bench = Bench::new(DeliveryPolicy { dsps_max: 1, ..policy() });
    bench.beacon(1, notice("a", "x"));
    assert_eq!(bench.beacon(2, notice("b", "x")), [Saw::Refused(2, BeaconRefusal::Busy)]);
    bench.answer(SendOutcome::Status(200));
    assert_eq!(bench.beacon(2, notice("b", "x")), [Saw::Acknowledged(3), sent("b", "x")]);
    assert!(bench.delivery.lanes().map(|lane| lane.dsp).eq(["b".into()]));
}

#[test]
fn win_and_loss_notices_are_shed_and_hinder_no_billing() {
    let mut bench = Bench::new(policy());
    let events = (0..9).map(|at| submit(BestEffort::Loss, ["a", "b"][at % 2], "l")).collect();
    bench.step(events);
    let counters = bench.delivery.counters();
    assert_eq!((counters.best_effort_waiting, counters.best_effort_shed), (5, 4));
    assert_eq!(bench.beacon(1, notice("a", "x"))[0], Saw::Acknowledged(1));
    assert_eq!(bench.answer(SendOutcome::Status(200)), [sent("a", "x")]);
}

#[test]
fn win_and_loss_notices_are_tried_a_few_times() {
    let mut bench = Bench::new(DeliveryPolicy { failures_to_probe: 9, ..policy() });
    assert_eq!(bench.step(vec![submit(BestEffort::Win, "a", "w")]), [sent("a", "w")]);
    for _ in 0..2 {
        assert_eq!(bench.answer(SendOutcome::Status(500)), []);
        assert_eq!(bench.wake(), [sent("a", "w")]);
    }
    assert_eq!(bench.answer(SendOutcome::Status(500)), []);
    let counters = bench.delivery.counters();
    assert_eq!((counters.best_effort_failed, counters.best_effort_waiting), (1, 0));
    assert_eq!(bench.journal.len(), 0);
    // A notice that waits too long for a failing DSP is dropped.
    bench.step(vec![submit(BestEffort::Win, "b", "1"), submit(BestEffort::Win, "b", "2")]);
    bench.step(vec![submit(BestEffort::Win, "b", "3")]);
    bench.flying.clear();
    bench.elapsed += Duration::from_secs(60);
    bench.step(Vec::new());
    assert_eq!(bench.delivery.counters().best_effort_failed, 4);
}

#[test]
fn lanes_take_turns_within_their_limits() {
    let mut bench = Bench::new(DeliveryPolicy { billing_max: 10, in_flight_max: 5, ..policy() });
    let mut events = Vec::new();
    for (number, dsp) in ["a", "a", "a", "b", "b", "b", "c", "c"].into_iter().enumerate() {
        let number = u8::try_from(number).unwrap();
        events.push(bench.beacon_event(number, notice(dsp, &number.to_string())));
    }
    let saw = bench.step(events);
    let order: Vec<_> = saw.iter().filter(|saw| matches!(saw, Saw::Sent(_))).cloned().collect();
    assert_eq!(
        order,
        [sent("a", "0"), sent("b", "3"), sent("c", "6"), sent("a", "1"), sent("b", "4")]
    );
    // "a" and "b" have two calls each; whichever ends first, "c" is next.
    assert_eq!(bench.answer(SendOutcome::Status(200)), [sent("c", "7")]);
    assert_eq!(bench.answer(SendOutcome::Status(200)), [sent("a", "2")]);
}

#[test]
fn a_dsp_that_fails_is_only_probed_until_it_recovers() {
    let mut bench = Bench::new(DeliveryPolicy { billing_max_per_dsp: 5, ..policy() });
    for number in 0..5 {
        bench.beacon(number, notice("a", &number.to_string()));
    }
    assert_eq!(bench.flying.len(), 2);
    assert_eq!(bench.answer(SendOutcome::Failed), [sent("a", "2")]);
    // The third failure in a row: calls in flight may end, then one probe at a time.
    assert_eq!(bench.answer(SendOutcome::Failed), [sent("a", "3")]);
    assert_eq!(bench.answer(SendOutcome::Failed), []);
    assert_eq!(bench.answer(SendOutcome::Failed), []);
    let lane = bench.delivery.lanes().next().unwrap();
    assert!(lane.probed && lane.in_flight == 0 && lane.billing_owed == 5);
    for _ in 0..4 {
        let before = bench.elapsed;
        let saw = bench.wake();
        assert_eq!(saw.len(), 1, "one probe: {saw:?}");
        assert_eq!(bench.elapsed - before, Duration::from_secs(10));
        assert_eq!(bench.answer(SendOutcome::Status(503)), []);
    }
    assert_eq!(bench.wake().len(), 1);
    let saw = bench.answer(SendOutcome::Status(200));
    assert_eq!(saw.len(), 2, "all it may have at a time: {saw:?}");
}

#[test]
fn dsps_that_hang_leave_half_of_the_calls_to_the_others() {
    let mut bench = Bench::new(DeliveryPolicy {
        billing_max: 100,
        billing_max_per_dsp: 100,
        remembered_max: 100,
        bytes_max: 10_000,
        in_flight_max: 4,
        failures_to_probe: 100,
        ..policy()
    });
    for number in 0..10 {
        bench.beacon(number, notice(["sick", "ill"][usize::from(number) % 2], "x"));
    }
    assert_eq!(bench.flying.len(), 4, "nobody knows yet");
    bench.flying.clear();
    bench.elapsed += policy().answer_timeout;
    assert_eq!(bench.step(Vec::new()).len(), 2, "half of four");
    assert_eq!(bench.beacon(20, notice("well", "x")), [Saw::Acknowledged(11), sent("well", "x")]);
}

#[test]
fn old_records_are_written_anew_so_that_segments_can_go() {
    let mut bench =
        Bench::new(DeliveryPolicy { journal_span: 20, remembered_max: 100, ..policy() });
    bench.beacon(0, notice("sick", "x"));
    bench.flying.clear();
    for number in 1..100_u8 {
        bench.beacon(number, notice("well", "x"));
        if let Some(at) = bench.flying.iter().position(|(url, _)| url.contains("well")) {
            let (_, attempt) = bench.flying.swap_remove(at);
            bench.step(vec![Event::Sent { attempt, outcome: SendOutcome::Status(200) }]);
        }
        let span = bench.journal.len() as u64 + 1 - bench.delivery.safe_before();
        let remembered = bench.delivery.counters().remembered as u64;
        assert!(span <= 20.max(remembered * 4) + 5, "{span} records hold {remembered} tokens");
    }
    // A start needs only records from `safe_before` on.
    let needed = usize::try_from(bench.delivery.safe_before()).unwrap() - 1;
    bench.journal[..needed].fill(
        JournalRecord::Settled { id: id(250), expires_ms: 0, outcome: NoticeEnd::Delivered }
            .encode(),
    );
    bench.restart();
    assert_eq!(bench.step(Vec::new()), [sent("sick", "x")]);
    for number in 0..100_u8 {
        assert!(matches!(bench.beacon(number, notice("well", "x"))[..], [Saw::Duplicate(_)]));
    }
}

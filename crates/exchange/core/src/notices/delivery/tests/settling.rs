//! A beacon's record settles its reservation: once, in log order, whether or not a call waits.

use std::slice::from_ref;
use std::time::Duration;

use super::fixtures::*;
use crate::delivery::*;

fn step(bench: &mut Bench, events: Vec<Event>) -> Vec<Effect> {
    let (mut inbox, mut outbox) = (events, Vec::new());
    bench.delivery.step(bench.now(), &mut inbox, &mut outbox);
    outbox
}

fn paid(bench: &mut Bench, number: u8) -> Vec<Event> {
    vec![bench.paid_event(number, None, Some(reservation(number)))]
}

fn ticket(effects: &[Effect]) -> JournalTicket {
    let [Effect::Journal { ticket, .. }] = effects else { panic!("{effects:?}") };
    *ticket
}

fn settled(sequence: u64, number: u8) -> Effect {
    Effect::Settled { sequence, reservation: reservation(number) }
}

#[test]
fn the_first_record_of_a_token_settles_and_no_other() {
    let mut bench = Bench::new(policy());
    let first = [Saw::Settled(1, 7), Saw::Acknowledged(1), sent("a", "x")];
    assert_eq!(bench.paid(7, Some(notice("a", "x"))), first);
    assert_eq!(bench.paid(7, Some(notice("a", "x"))), [Saw::Duplicate(2)]);
    assert_eq!(bench.answer(SendOutcome::Status(200)), []);
    assert_eq!(bench.paid(7, None), [Saw::Duplicate(3)]);
    assert_eq!(bench.beacon(8, notice("a", "y")), [Saw::Acknowledged(4), sent("a", "y")]);
    bench.restart();
    assert_eq!(bench.replayed, [(1, reservation(7))]);
    assert_eq!(bench.paid(7, None), [Saw::Duplicate(5), sent("a", "y")]);
}

#[test]
fn with_nobody_to_tell_it_is_remembered_until_it_expires() {
    let mut bench = Bench::new(policy());
    assert_eq!(bench.paid(7, None), [Saw::Settled(1, 7), Saw::Acknowledged(1)]);
    let counters = bench.delivery.counters();
    assert_eq!((counters.billing_owed, counters.remembered), (0, 1));
    assert_eq!((counters.beacons_accepted, counters.billing_delivered), (1, 0));
    assert_eq!(bench.delivery.safe_before(), 1, "a start has to know of it");
    for _ in 0..2 {
        assert_eq!(bench.journal.len(), 1, "nothing more is written of it");
        bench.restart();
        assert_eq!(bench.step(Vec::new()), []);
        let saw = bench.paid(7, None);
        assert!(matches!(saw[..], [Saw::Duplicate(_)]), "{saw:?}");
    }
    bench.wake();
    assert_eq!(bench.elapsed, Duration::from_secs(3600));
    assert_eq!(bench.delivery.counters().remembered, 0);
    assert_eq!(bench.delivery.safe_before(), 2);
    let saw = bench.paid(7, None);
    assert!(matches!(saw[..], [Saw::Refused(_, BeaconRefusal::Expired)]), "{saw:?}");
    // A later start finds only its settlement.
    bench.restart();
    assert_eq!(bench.delivery.counters().remembered, 0);
    assert_eq!(bench.replayed, [(1, reservation(7))]);
}

/// Beacons without notices do not use the limit of notices, but that of tokens.
#[test]
fn tokens_are_bounded_without_notices() {
    let mut bench = Bench::new(policy());
    for number in 0..10 {
        let at = u64::from(number) + 1;
        let want = [Saw::Settled(at, number), Saw::Acknowledged(at)];
        assert_eq!(bench.paid(number, None), want);
    }
    assert_eq!(bench.paid(10, None), [Saw::Refused(11, BeaconRefusal::Busy)]);
    assert_eq!(bench.journal.len(), 10);
}

#[test]
fn groups_settle_in_the_logs_order_and_before_they_are_acknowledged() {
    let mut bench = Bench::new(policy());
    let mut events = paid(&mut bench, 3);
    events.extend(paid(&mut bench, 1));
    let effects = step(&mut bench, events);
    let tickets: Vec<_> = effects.chunks(1).map(ticket).collect();
    assert_eq!(bench.delivery.settled_through(), 0);
    // Our records are at 5 and 6, but the log's progress to 9 is reported first.
    step(&mut bench, vec![Event::JournalReached(9)]);
    assert_eq!(bench.delivery.settled_through(), 0);
    let committed = Event::JournalCommitted(vec![(tickets[0], 5), (tickets[1], 6)]);
    let effects = step(&mut bench, vec![committed]);
    let acknowledged = |call| Effect::Acknowledge { call, duplicate: false };
    assert_eq!(effects, [settled(5, 3), acknowledged(1), settled(6, 1), acknowledged(2)]);
    assert_eq!(bench.delivery.settled_through(), 9);
    // The next records are after 9, in order.
    let events = paid(&mut bench, 4);
    let refused = ticket(&step(&mut bench, events));
    step(&mut bench, vec![Event::JournalReached(20)]);
    assert_eq!(bench.delivery.settled_through(), 9);
    let events = paid(&mut bench, 5);
    let second = ticket(&step(&mut bench, events));
    let events = paid(&mut bench, 6);
    let third = ticket(&step(&mut bench, events));
    let effects = step(&mut bench, vec![Event::JournalRefused(vec![refused])]);
    assert_eq!(effects, [Effect::Refuse { call: 3, refusal: BeaconRefusal::Journal }]);
    assert_eq!(bench.delivery.settled_through(), 20);
    step(&mut bench, vec![Event::JournalCommitted(vec![(second, 25)])]);
    assert_eq!(bench.delivery.settled_through(), 25);
    step(&mut bench, vec![Event::JournalCommitted(vec![(third, 27)]), Event::JournalReached(40)]);
    assert_eq!(bench.delivery.settled_through(), 40);
}

/// The call was refused, but the record became durable: it settles, and the next call is the first.
#[test]
fn what_turns_out_to_be_durable_is_settled_though_nobody_waits() {
    let mut bench = Bench::new(policy());
    let events = paid(&mut bench, 7);
    let ticket = ticket(&step(&mut bench, events));
    let refused = Effect::Refuse { call: 1, refusal: BeaconRefusal::Journal };
    assert_eq!(step(&mut bench, vec![Event::JournalFailing]), [refused]);
    let events = vec![Event::JournalCommitted(vec![(ticket, 1)]), Event::JournalWriting];
    assert_eq!(step(&mut bench, events), [settled(1, 7)]);
    for (call, duplicate) in [(2, false), (3, true)] {
        let events = paid(&mut bench, 7);
        assert_eq!(step(&mut bench, events), [Effect::Acknowledge { call, duplicate }]);
    }
}

#[test]
fn what_the_log_refused_is_settled_by_the_record_that_it_takes() {
    let mut bench = Bench::new(policy());
    bench.journal_works = false;
    assert_eq!(bench.paid(7, None), [Saw::Refused(1, BeaconRefusal::Journal)]);
    assert_eq!(bench.delivery.counters().remembered, 0);
    bench.journal_works = true;
    assert_eq!(bench.paid(7, None), [Saw::Settled(1, 7), Saw::Acknowledged(2)]);
}

/// Both records are on disk: the first settles, the rewritten one does not.
#[test]
fn what_is_written_anew_does_not_settle_again() {
    let policy = DeliveryPolicy { journal_span: 10, ..policy() };
    let mut bench = Bench::new(policy);
    bench.paid(1, Some(notice("a", "x")));
    bench.paid(2, None);
    let mut records: Vec<_> = (1..).zip(bench.journal.clone()).collect();
    let moved = step(&mut bench, vec![Event::JournalReached(100)]);
    let committed = (101..).zip(&moved).map(|(at, effect)| (ticket(from_ref(effect)), at));
    let committed = Event::JournalCommitted(committed.collect());
    assert_eq!(step(&mut bench, vec![committed]), [], "neither is settled");
    assert_eq!(bench.delivery.safe_before(), 101);
    records.extend((101..).zip(moved.into_iter().map(|effect| match effect {
        Effect::Journal { record, .. } => record,
        other => panic!("{other:?}"),
    })));
    let start = |records: &[(u64, Vec<u8>)]| {
        let (mut replay, mut settled) = (JournalReplay::new(policy, START_MS), Vec::new());
        for (sequence, record) in records {
            let found = replay.record(*sequence, record).expect("a record of ours");
            settled.extend(found.map(|reservation| (*sequence, reservation)));
        }
        (replay.finish(bench.now()).counters(), settled)
    };
    let (counters, settled) = start(&records);
    assert_eq!(settled, [(1, reservation(1)), (2, reservation(2))]);
    // Without the first records, only their settlements are missing.
    assert_eq!(start(&records[2..]), (counters, Vec::new()));
    assert_eq!((counters.billing_owed, counters.remembered), (1, 2));
}

#[test]
fn the_log_is_kept_and_read_as_far_as_settlements_are_not_booked() {
    let mut bench = Bench::new(policy());
    bench.paid(1, None);
    assert_eq!(bench.delivery.safe_before(), 1);
    bench.wake();
    assert_eq!(bench.delivery.safe_before(), 2);
    for (applied, keep_from) in [(0, 1), (1, 2), (5, 2), (u64::MAX, 2)] {
        assert_eq!(bench.delivery.keep_from(applied), keep_from, "{applied}");
    }
    for (needed_from, applied, want) in
        [(7, 3, 4), (7, 6, 7), (7, 9, 7), (7, u64::MAX, 7), (0, 4, 0)]
    {
        assert_eq!(JournalReplay::begins_at(needed_from, applied), want);
    }
}

//! A shared log that fails and recovers, and of which a start reads as little as possible.

use super::fixtures::*;
use crate::delivery::*;
use openrtb::NoticeKind;

fn step(bench: &mut Bench, events: Vec<Event>) -> Vec<Effect> {
    let (mut inbox, mut outbox) = (events, Vec::new());
    bench.delivery.step(bench.now(), &mut inbox, &mut outbox);
    outbox
}

fn calls(bench: &mut Bench, number: u8) -> Vec<Event> {
    vec![bench.beacon_event(number, notice("a", "x"))]
}

#[track_caller]
fn journalled(effects: &[Effect]) -> (JournalTicket, JournalRecord) {
    let [Effect::Journal { ticket, record }] = effects else { panic!("{effects:?}") };
    (*ticket, JournalRecord::decode(record).expect("a record of ours"))
}

#[test]
fn what_the_log_took_before_it_failed_is_accepted_when_it_is_durable() {
    let mut bench = Bench::new(policy());
    let refused = |call| Effect::Refuse { call, refusal: BeaconRefusal::Journal };
    let events = calls(&mut bench, 1);
    let (ticket, _) = journalled(&step(&mut bench, events));
    assert_eq!(step(&mut bench, vec![Event::JournalFailing]), [refused(1)]);
    // A further call is neither recorded again nor kept waiting.
    let events = calls(&mut bench, 1);
    assert_eq!(step(&mut bench, events), [refused(2)]);
    let counters = bench.delivery.counters();
    assert_eq!((counters.billing_owed, counters.beacons_unjournalled), (1, 2));
    assert_eq!(counters.beacons_accepted, 0);
    // The record becomes durable: no call waits, and the notice is delivered.
    let committed = Event::JournalCommitted(vec![(ticket, 1)]);
    let effects = step(&mut bench, vec![committed, Event::JournalWriting]);
    let [Effect::Send { kind: NoticeKind::Billing, .. }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(bench.delivery.counters().beacons_accepted, 1);
    // The next call is the first that is acknowledged.
    for (call, duplicate) in [(3, false), (4, true)] {
        let events = calls(&mut bench, 1);
        assert_eq!(step(&mut bench, events), [Effect::Acknowledge { call, duplicate }]);
    }
    assert_eq!(bench.delivery.counters().beacons_duplicate, 1);
}

/// Records appended after recovery have waiting calls again.
#[test]
fn calls_wait_again_when_the_log_is_written_again() {
    let mut bench = Bench::new(policy());
    let events = calls(&mut bench, 1);
    let (ticket, _) = journalled(&step(&mut bench, events));
    let effects = step(&mut bench, vec![Event::JournalFailing, Event::JournalWriting]);
    assert_eq!(effects.len(), 1, "{effects:?}");
    let events = calls(&mut bench, 1);
    assert_eq!(step(&mut bench, events), []);
    let effects = step(&mut bench, vec![Event::JournalCommitted(vec![(ticket, 1)])]);
    assert_eq!(effects[0], Effect::Acknowledge { call: 2, duplicate: false });
}

/// Its horizon has passed without a single try.
#[test]
fn what_was_pending_for_long_is_tried_all_the_same() {
    let mut bench = Bench::new(policy());
    let events = calls(&mut bench, 1);
    let (ticket, _) = journalled(&step(&mut bench, events));
    step(&mut bench, vec![Event::JournalFailing]);
    bench.elapsed = policy().billing_horizon * 2;
    assert_eq!(step(&mut bench, Vec::new()), []);
    let effects = step(&mut bench, vec![Event::JournalCommitted(vec![(ticket, 1)])]);
    assert!(matches!(effects[..], [Effect::Send { .. }]), "{effects:?}");
}

/// Others' records count: a start would have to read them.
#[test]
fn checkpoints_come_with_the_log_and_say_what_is_needed() {
    let mut bench = Bench::new(DeliveryPolicy { checkpoint_span: 100, ..policy() });
    let reached = |sequence| vec![Event::JournalReached(sequence)];
    assert_eq!(step(&mut bench, reached(99)), []);
    let needed_from = |effects: &[Effect]| match journalled(effects) {
        (ticket, JournalRecord::Checkpoint { needed_from }) => (ticket, needed_from),
        (_, other) => panic!("{other:?}"),
    };
    let (ticket, needed) = needed_from(&step(&mut bench, reached(100)));
    assert_eq!(needed, 101, "nothing of what there is");
    // A refused checkpoint is dropped: the next one replaces it.
    assert_eq!(step(&mut bench, vec![Event::JournalRefused(vec![ticket])]), []);
    assert_eq!(step(&mut bench, reached(199)), []);
    let events = calls(&mut bench, 1);
    let (accepted, _) = journalled(&step(&mut bench, events));
    // Appended after 199, it may have any later sequence, however far the log has come.
    let (_, needed) = needed_from(&step(&mut bench, reached(350)));
    assert_eq!((needed, bench.delivery.safe_before()), (200, 200));
    step(&mut bench, vec![Event::JournalCommitted(vec![(accepted, 240)])]);
    let (_, needed) = needed_from(&step(&mut bench, reached(450)));
    assert_eq!(needed, 240, "it is owed");
}

/// Refusals are immediate, so an immediate retry would be a busy loop.
#[test]
fn what_the_log_refused_is_not_tried_again_at_once() {
    let mut bench = Bench::new(DeliveryPolicy { journal_span: 10, ..policy() });
    bench.beacon(1, notice("a", "x"));
    let effects = step(&mut bench, vec![Event::JournalReached(100)]);
    let (ticket, record) = journalled(&effects);
    assert!(matches!(record, JournalRecord::Accepted { .. }), "it is written anew");
    assert_eq!(step(&mut bench, vec![Event::JournalRefused(vec![ticket])]), []);
    assert_eq!(step(&mut bench, Vec::new()), []);
    bench.elapsed += std::time::Duration::from_secs(1);
    journalled(&step(&mut bench, Vec::new()));
}

#[test]
fn a_start_goes_on_from_the_last_checkpoint() {
    let policy = DeliveryPolicy { checkpoint_span: 100, ..policy() };
    let now = Bench::new(policy).now();
    let checkpoint = JournalRecord::Checkpoint { needed_from: 7 }.encode();
    for (at, reached, due) in [(None, 99, false), (None, 100, true), (Some(50), 149, false)] {
        let mut replay = JournalReplay::new(policy, now.unix_ms);
        if let Some(at) = at {
            replay.record(at, &checkpoint).unwrap();
        }
        let mut outbox = Vec::new();
        let mut inbox = vec![Event::JournalReached(reached)];
        replay.finish(now).step(now, &mut inbox, &mut outbox);
        assert_eq!(!outbox.is_empty(), due, "{at:?}, {reached}");
    }
}

#[test]
fn records_of_a_group_stand_one_after_another() {
    let ticket = |number| JournalTicket(number);
    let mut handed = TicketQueue::default();
    assert_eq!(handed.durable(0, 0), []);
    for number in 1..=5 {
        handed.push(number, ticket(10 + number));
    }
    assert_eq!(handed.durable(3, 40), [(ticket(11), 38), (ticket(12), 39), (ticket(13), 40)]);
    assert_eq!(handed.durable(3, 40), []);
    handed.push(6, ticket(16));
    assert_eq!(handed.durable(5, 90), [(ticket(14), 89), (ticket(15), 90)]);
    assert_eq!(handed.durable(6, 99), [(ticket(16), 99)]);
}

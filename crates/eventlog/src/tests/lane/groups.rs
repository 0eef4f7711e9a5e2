//! Groups of records: when they are committed and acknowledged and when they wake the thread. Rings
//! yield what was put in.

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;

use super::{GAPS, MS, OPTIONS, Rig, records, texts};
use crate::WriterOptions;
use crate::lane::{
    BatchLimits, DurableRing, LaneEvent, LaneKind, LaneOptions, LaneState, NextStep, PushError,
    RingPosition,
};

fn commits(rig: &Rig, kind: LaneKind) -> u64 {
    rig.lane(kind).counters().commits
}

#[test]
fn a_group_ends_by_time_by_bytes_or_when_a_ring_is_half_full() {
    /// Whether a record is committed at once in a ring of `ring_bytes`.
    #[track_caller]
    fn check(gather: BatchLimits, ring_bytes: usize, payload: usize, at_once: bool) {
        let mut rig = Rig::new(LaneOptions { gather, ..OPTIONS }, OPTIONS);
        let mut ring = rig.driver.durable_ring(ring_bytes, None);
        assert_eq!(rig.step(), NextStep::Woken);
        let position = ring.push(1, 0, &vec![b'x'; payload]).expect("it fits");
        let next = rig.step();
        assert_eq!(ring.is_durable(position), at_once);
        assert_eq!(commits(&rig, LaneKind::Durable), u64::from(at_once));
        if !at_once {
            assert_eq!(rig.wait(next), Some(gather.after));
            rig.step_after(gather.after - Duration::from_nanos(1));
            assert!(!ring.is_durable(position));
            rig.step_after(Duration::from_nanos(1));
            assert!(ring.is_durable(position));
        }
    }
    let pace = |ms: u32, bytes: usize| BatchLimits { after: MS * ms, bytes };
    //    gather           ring   payload  at once
    check(pace(5, 1_000), 10_000, 0, false);
    check(pace(5, 1_000), 10_000, 959, false);
    check(pace(5, 1_000), 10_000, 960, true);
    check(pace(5, 10_000), 1_000, 459, false);
    check(pace(5, 10_000), 1_000, 460, true);
    check(pace(0, 10_000), 10_000, 0, true);
}

/// Rings are written in rotation, so one acknowledgement covers consecutive records.
#[test]
fn rings_are_told_where_their_records_stand() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let (tell, told) = mpsc::channel();
    let mut ring = |name: &'static str| {
        let tell = tell.clone();
        let tell = move |what| tell.send((name, what)).expect("somebody listens");
        rig.driver.durable_ring(1_000, Some(Box::new(tell)))
    };
    let (mut a, mut b) = (ring("a"), ring("b"));
    assert_eq!(a.push(1, 0, b"a1"), Ok(RingPosition(1)));
    assert_eq!(b.push(1, 0, b"b1"), Ok(RingPosition(1)));
    assert_eq!(a.push(1, 0, b"a2"), Ok(RingPosition(2)));
    rig.step();
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty), "not before it is committed");
    assert_eq!((a.durable(), b.durable()), (RingPosition(0), RingPosition(0)));
    rig.step_after(MS);
    let durable = |through, records, sequence| LaneEvent::Durable {
        through: RingPosition(through),
        records,
        sequence,
    };
    let all: Vec<_> = told.try_iter().collect();
    assert_eq!(all, [("a", durable(2, 2, 2)), ("b", durable(1, 1, 3))]);
    assert_eq!((a.durable(), b.durable()), (RingPosition(2), RingPosition(1)));
    assert!(a.is_durable(RingPosition(2)) && !a.is_durable(RingPosition(3)));
    a.push(1, 0, b"a3").unwrap();
    b.push(1, 0, b"b2").unwrap();
    rig.step_after(MS);
    let all: Vec<_> = told.try_iter().collect();
    assert_eq!(all, [("a", durable(3, 1, 5)), ("b", durable(2, 1, 4))]);
    assert_eq!(rig.lane(LaneKind::Durable).sequence(), 5);
    assert_eq!(texts(&rig.durable), ["a1", "a2", "b1", "b2", "a3"]);
    assert_eq!(commits(&rig, LaneKind::Durable), 2);
}

#[test]
fn kind_and_time_come_through() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut durable = rig.driver.durable_ring(1_000, None);
    let mut firehose = rig.driver.firehose_ring(0, 1_000);
    durable.push(254, u64::MAX, b"").unwrap();
    assert!(firehose.offer(3, 77, b"xyz"));
    rig.step_after(MS);
    rig.step_after(MS);
    let record = &records(&rig.durable)[0];
    assert_eq!((record.kind, record.time_ms, record.payload.len()), (254, u64::MAX, 0));
    let record = &records(&rig.firehose)[0];
    assert_eq!((record.kind, record.time_ms, &record.payload[..]), (3, 77, &b"xyz"[..]));
}

#[test]
#[should_panic(expected = "kind 9 is that of gaps")]
fn nobody_else_writes_gaps() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let _taken = rig.driver.firehose_ring(0, 1_000).offer(GAPS.kind, 0, b"");
}

/// The firehose is written soon, for readers, but committed less often.
#[test]
fn the_firehose_is_committed_by_time_or_by_bytes() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    assert!(ring.offer(1, 0, b"a"));
    let next = rig.step();
    assert_eq!(rig.wait(next), Some(OPTIONS.gather.after));
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(texts(&rig.firehose), ["a"]);
    assert_eq!(commits(&rig, LaneKind::Firehose), 0);
    let next = rig.step_after(OPTIONS.gather.after);
    assert_eq!(rig.wait(next), Some(OPTIONS.commit.after - OPTIONS.gather.after));
    rig.step_after(OPTIONS.commit.after - OPTIONS.gather.after);
    assert_eq!(commits(&rig, LaneKind::Firehose), 1);
    for _ in 0..2 {
        assert!(ring.offer(1, 0, &[b'b'; 1_460]));
        rig.step_after(MS);
    }
    assert_eq!(commits(&rig, LaneKind::Firehose), 2, "3,000 bytes");
    assert_eq!(rig.lane(LaneKind::Firehose).counters().records, 3);
}

/// Even with the smallest limits, one record at a time is written.
#[test]
fn a_firehose_that_gathers_nothing_is_written() {
    let gather = BatchLimits { after: Duration::ZERO, bytes: 0 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { gather, ..OPTIONS });
    let mut rings = [0, 1].map(|shard| rig.driver.firehose_ring(shard, 1_000));
    for text in [b"a", b"b"] {
        assert!(rings.iter_mut().all(|ring| ring.offer(1, 0, text)));
    }
    for _ in 0..3 {
        assert_eq!(rig.step(), NextStep::Now);
    }
    rig.step();
    assert_eq!(texts(&rig.firehose), ["a", "a", "b", "b"]);
}

/// A flood of the firehose is written in pieces, with the durable lane's turn between them.
#[test]
fn the_durable_lane_comes_between_pieces_of_the_firehose() {
    let gather = BatchLimits { after: Duration::ZERO, bytes: 500 };
    let mut rig = Rig::new(LaneOptions { gather, ..OPTIONS }, LaneOptions { gather, ..OPTIONS });
    let mut durable = rig.driver.durable_ring(1_000, None);
    let mut flood = rig.driver.firehose_ring(0, 20_000);
    for _ in 0..100 {
        assert!(flood.offer(1, 0, &[b'x'; 100]));
    }
    for count in 1..25 {
        let position = durable.push(1, 0, b"wanted").unwrap();
        assert_eq!(rig.step(), NextStep::Now);
        assert!(durable.is_durable(position));
        let written = records(&rig.firehose).len();
        assert!(written <= count * 4, "{written} in {count} steps");
    }
    rig.step();
    assert_eq!(records(&rig.firehose).len(), 100);
}

/// Records that did not fit the last batch have waited long enough.
#[test]
fn what_is_left_behind_is_written_at_once() {
    let gather = BatchLimits { after: Duration::from_secs(1), bytes: 1 << 20 };
    let mut rig = Rig::new(LaneOptions { gather, ..OPTIONS }, OPTIONS);
    let mut ring = rig.driver.durable_ring(100_000, None);
    let push = |number: u64| (ring.push(1, number, &[0; 976]), number).1;
    let count = (0..10).map(push).count() as u64;
    rig.step();
    assert_eq!(rig.step_after(gather.after), NextStep::Now);
    assert_eq!((rig.step(), rig.step()), (NextStep::Now, NextStep::Now));
    let next = rig.step();
    assert_eq!(rig.wait(next), Some(gather.after), "nothing is left");
    assert_eq!(rig.lane(LaneKind::Durable).counters().records, count);
}

/// A firehose with a long commit interval commits once its batch is full.
#[test]
fn a_full_batch_is_committed() {
    let commit = BatchLimits { after: Duration::from_secs(3_600), bytes: 1 << 20 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { commit, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 100_000);
    for _ in 0..20 {
        assert!(ring.offer(1, 0, &[0; 976]));
    }
    for _ in 0..40 {
        rig.step_after(MS);
    }
    assert_eq!(records(&rig.firehose).len(), 20);
    let committed = rig.lane(LaneKind::Firehose).counters().records;
    assert!((16..20).contains(&committed), "{committed}");
}

/// A ring with more than one batch does not delay the others.
#[test]
fn a_flooded_ring_holds_up_no_other() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut flooded = rig.driver.durable_ring(50_000, None);
    let mut other = rig.driver.durable_ring(1_000, None);
    let payload = |number: u32| format!("{number:_>100}").into_bytes();
    let mut last = RingPosition(0);
    for number in 0..300 {
        last = flooded.push(1, 0, &payload(number)).unwrap();
    }
    let position = other.push(1, 0, &[b'o'; 100]).unwrap();
    assert_eq!(rig.step(), NextStep::Now, "there is more than fits a batch");
    assert!(!other.is_durable(position));
    rig.step();
    assert!(other.is_durable(position) && !flooded.is_durable(last));
    while !flooded.is_durable(last) {
        rig.step();
    }
    let found = texts(&rig.durable).into_iter().filter(|text| !text.contains('o'));
    assert!(found.map(String::into_bytes).eq((0..300).map(payload)));
}

/// Waking costs the shard a system call. It wakes the thread only after a pause or when much is
/// waiting.
#[test]
fn the_thread_is_woken_rarely() {
    let gather = BatchLimits { after: MS, bytes: 14_000 };
    let writer = WriterOptions { batch_bytes_max: 1 << 20, ..OPTIONS.writer };
    let mut rig = Rig::new(LaneOptions { gather, writer, ..OPTIONS }, OPTIONS);
    let mut ring = rig.driver.durable_ring(40_000, None);
    let push = |ring: &mut DurableRing, times: u32| {
        for _ in 0..times {
            ring.push(1, 0, &[b'x'; 6]).expect("there is room");
        }
    };
    push(&mut ring, 10);
    assert_eq!(rig.driver.wakes(), 0, "before its first step nobody sleeps");
    rig.step_after(MS);
    rig.step_after(MS);
    assert_eq!(rig.step_after(MS), NextStep::Woken);
    push(&mut ring, 200);
    assert_eq!(rig.driver.wakes(), 1, "by the first");
    let next = rig.step();
    assert_eq!(rig.wait(next), Some(MS));
    push(&mut ring, 100);
    assert_eq!(rig.driver.wakes(), 1, "it wakes by itself");
    push(&mut ring, 100);
    assert_eq!(rig.driver.wakes(), 2, "14,000 bytes wait no longer");
    let next = rig.step();
    assert_eq!((rig.wait(next), ring.durable()), (Some(MS), RingPosition(410)));
    push(&mut ring, 100);
    assert_eq!(rig.driver.wakes(), 2, "while it is busy it looks by itself");
    rig.step_after(MS);
    assert_eq!(ring.durable(), RingPosition(510));
    assert_eq!(rig.step_after(MS), NextStep::Woken);
    push(&mut ring, 1);
    assert_eq!(rig.driver.wakes(), 3);
}

/// A half-full ring wakes the thread before it is full.
#[test]
fn a_ring_that_is_half_full_wakes_the_thread() {
    let gather = BatchLimits { after: Duration::from_secs(1), bytes: 1 << 20 };
    let mut rig = Rig::new(LaneOptions { gather, ..OPTIONS }, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    rig.step();
    for (payload, wakes) in [(60, 1), (300, 1), (20, 2)] {
        ring.push(1, 0, &vec![b'x'; payload]).unwrap();
        assert_eq!(rig.driver.wakes(), wakes, "{payload}");
        rig.step();
    }
    assert_eq!(ring.durable(), RingPosition(3));
}

/// A lane that cannot write is not woken.
#[test]
fn a_failing_lane_is_not_woken() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    let mut firehose = rig.driver.firehose_ring(0, 1_000);
    rig.step();
    rig.durable.set_space(Some(0));
    rig.firehose.set_space(Some(0));
    ring.push(1, 0, b"a").unwrap();
    firehose.offer(1, 0, b"a");
    let wakes = rig.driver.wakes();
    let next = rig.step_after(MS);
    rig.step_after(MS);
    assert!(matches!(ring.state(), LaneState::Failing { .. }), "{next:?}");
    for _ in 0..100 {
        assert!(matches!(ring.push(1, 0, b"b"), Err(PushError::Failing { .. })));
        firehose.offer(1, 0, b"b");
    }
    assert!(firehose.shed() > 0);
    assert_eq!(rig.driver.wakes(), wakes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Rings of any length yield the records that they accepted, in number and content.
    #[test]
    fn rings_hand_over_what_was_put_in(
        ring_bytes in 0_usize..1_500,
        pushes in prop::collection::vec((0_usize..2, 0_usize..400, any::<bool>()), 1..80),
    ) {
        let mut rig = Rig::new(OPTIONS, OPTIONS);
        let mut rings = [0, 1].map(|_| rig.driver.durable_ring(ring_bytes, None));
        let mut taken = [Vec::new(), Vec::new()];
        for (serial, (ring, length, step)) in pushes.into_iter().enumerate() {
            let text = format!("{ring}:{serial:0length$}");
            if rings[ring].push(1, 0, text.as_bytes()).is_ok() {
                taken[ring].push(text);
            }
            if step {
                rig.step_after(MS);
            }
        }
        for _ in 0..10 {
            rig.step_after(MS);
        }
        prop_assert!(rig.driver.is_drained());
        let found = texts(&rig.durable);
        for (ring, taken) in (0..).zip(taken) {
            let prefix = format!("{ring}:");
            let own: Vec<_> = found.iter().filter(|text| text.starts_with(&prefix)).collect();
            prop_assert_eq!(own, taken.iter().collect::<Vec<_>>());
        }
    }
}

/// A reader that follows a lane is woken after each write that it can see, and may shorten the
/// wait for it.
#[test]
fn readers_are_woken_by_writes_and_shorten_the_wait() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let gather = BatchLimits { after: MS * 10, bytes: 1_000 };
    let slow = BatchLimits { after: MS * 1_000, bytes: 1_000_000 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { gather, commit: slow, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    let wakes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&wakes);
    let watch = rig.lane(LaneKind::Firehose).watch(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let woken = || wakes.load(Ordering::Relaxed);
    // Time until a record is written, and whether the reader is woken by that.
    let written_after = |rig: &mut Rig, ring: &mut crate::lane::FirehoseRing| {
        // Ends the gathering of earlier records.
        rig.step_after(MS * 20);
        let (before, begun) = (woken(), rig.now.tick);
        assert!(ring.offer(1, 0, b"record"));
        while rig.lane(LaneKind::Firehose).counters().records == 0 && woken() == before {
            let next = rig.step();
            match rig.wait(next) {
                Some(wait) if rig.now.tick - begun < MS * 15 => rig.step_after(wait),
                _ => break,
            };
        }
        (rig.now.tick - begun, woken() - before)
    };
    assert_eq!(written_after(&mut rig, &mut ring), (MS * 10, 1));
    watch.set_gather(Some(MS * 2));
    assert_eq!(written_after(&mut rig, &mut ring), (MS * 2, 1));
    let hasty = rig.lane(LaneKind::Firehose).watch(|| ());
    hasty.set_gather(Some(MS));
    assert_eq!(written_after(&mut rig, &mut ring), (MS, 1));
    drop(hasty);
    assert_eq!(written_after(&mut rig, &mut ring), (MS * 2, 1));
    watch.set_gather(None);
    assert_eq!(written_after(&mut rig, &mut ring), (MS * 10, 1));
    drop(watch);
    let before = woken();
    assert!(ring.offer(1, 0, b"record"));
    rig.step_after(MS * 30);
    assert_eq!(woken(), before, "nobody reads any more");
}

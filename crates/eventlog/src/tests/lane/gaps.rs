//! Gaps: they count the missing records at the right place.

use std::cell::RefCell;
use std::rc::Rc;

use super::{GAPS, OPTIONS, Rig, gap, records, texts};
use crate::disk::testing::DiskFaults;
use crate::interleaving::happen;
use crate::lane::{FirehoseRing, LaneGap, LaneKind, LaneOptions};

const SHARD: u32 = 7;

/// A firehose that commits every write, and a ring with room for two records of 100 bytes.
fn rig(options: LaneOptions) -> (Rig, FirehoseRing) {
    let mut rig = Rig::new(OPTIONS, options);
    let ring = rig.driver.firehose_ring(SHARD, 330);
    (rig, ring)
}

const AT_ONCE: LaneOptions = LaneOptions { commit: LaneOptions::DURABLE.commit, ..OPTIONS };

fn long(text: &str) -> Vec<u8> {
    format!("{text:_<100}").into_bytes()
}

/// The records and gaps of the log, without padding records.
fn said(rig: &Rig) -> Vec<String> {
    texts(&rig.firehose).into_iter().map(|text| text.trim_end_matches('_').to_owned()).collect()
}

#[test]
fn what_is_shed_is_told_where_it_is_missing() {
    let (mut rig, mut ring) = rig(AT_ONCE);
    let taken: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|text| ring.offer(1, 0, &long(text))).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert_eq!(ring.shed(), 2);
    assert!(ring.offer(1, 0, b"short"), "there is room for less");
    rig.step();
    assert_eq!(said(&rig), ["a", "b", "2 lost of 7", "short"]);
    assert!(ring.offer(1, 0, b"next"));
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(said(&rig)[4..], ["next"], "it is told once");
    let counters = rig.lane(LaneKind::Firehose).counters();
    assert_eq!((counters.records, counters.shed), (4, 2));
    assert_eq!((counters.gaps, counters.lost), (1, 2));
}

#[test]
fn a_ring_that_falls_silent_has_its_gap_told() {
    let (mut rig, mut ring) = rig(AT_ONCE);
    for text in ["a", "b", "c"] {
        ring.offer(1, 0, &long(text));
    }
    rig.step();
    assert_eq!(said(&rig), ["a", "b", "1 lost of 7"]);
    rig.step_after(OPTIONS.gather.after);
    assert!(!ring.offer(1, 0, &[0; 1_000]), "it never fits");
    assert_eq!(rig.driver.wakes(), 1);
    rig.step_after(OPTIONS.gather.after);
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(said(&rig), ["a", "b", "1 lost of 7", "1 lost of 7"]);
    assert_eq!(rig.lane(LaneKind::Firehose).counters().too_long, 1);
    // Left out by its owner before any offer.
    ring.leave_out(5);
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(said(&rig)[4..], ["1 lost of 7"]);
    assert_eq!(rig.lane(LaneKind::Firehose).counters().too_long, 2);
    assert!(rig.driver.is_drained());
}

/// A disk failure loses written but uncommitted records with their segment.
#[test]
fn what_a_failing_disk_takes_is_told_like_what_is_shed() {
    let (mut rig, mut ring) = rig(OPTIONS);
    for text in ["a", "b", "shed"] {
        ring.offer(1, 0, &long(text));
    }
    rig.step();
    assert_eq!(said(&rig), ["a", "b", "1 lost of 7"], "it is written for readers to see");
    assert_eq!(rig.lane(LaneKind::Firehose).counters().commits, 0, "and not durable");
    rig.firehose.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    // The next commit fails. It loses the unsynced records and the gap.
    rig.step_after(OPTIONS.commit.after);
    assert_eq!(rig.heard.take(), ["Failing Firehose"]);
    ring.offer(1, 0, &long("c"));
    ring.offer(1, 0, &long("d"));
    assert!(!ring.offer(1, 0, &long("shed too")), "its ring is what holds records now");
    // Retries fail, and the losses are not forgotten.
    for _ in 0..5 {
        rig.step_after(OPTIONS.retry_max);
    }
    rig.firehose.set_faults(DiskFaults::default());
    rig.step_after(OPTIONS.retry_max);
    assert_eq!(rig.heard.take(), ["Healed Firehose"]);
    assert_eq!(said(&rig), ["3 lost of 7", "c", "d", "1 lost of 7"]);
    let counters = rig.lane(LaneKind::Firehose).counters();
    assert_eq!((counters.records, counters.shed, counters.gaps, counters.lost), (2, 2, 2, 4));
    assert_eq!(counters.commit_failures, 6);
}

/// While the log thread reads the ring, a shard may fill it again and shed more records.
#[test]
fn a_gap_is_not_told_before_what_came_before_it() {
    let (mut rig, ring) = rig(AT_ONCE);
    let ring = Rc::new(RefCell::new(ring));
    for text in ["b", "c", "d"] {
        let ring = Rc::clone(&ring);
        happen(move || {
            let mut ring = ring.borrow_mut();
            assert!(ring.offer(1, 0, &long(text)) && ring.offer(1, 0, &long("next")));
            assert!(!ring.offer(1, 0, &long("shed")));
        });
        rig.step_after(OPTIONS.gather.after);
        rig.step_after(OPTIONS.gather.after);
    }
    let each = |text| [text, "next", "1 lost of 7"];
    assert_eq!(said(&rig), [each("b"), each("c"), each("d")].concat());
}

#[test]
fn each_ring_has_its_own_gaps() {
    let (mut rig, mut ring) = rig(AT_ONCE);
    let mut other = rig.driver.firehose_ring(8, 300);
    for text in ["a", "b", "c"] {
        ring.offer(1, 0, &long(text));
    }
    for text in ["k", "l", "m", "n"] {
        other.offer(1, 0, &long(text));
    }
    rig.step();
    assert_eq!(said(&rig), ["a", "b", "1 lost of 7", "k", "l", "2 lost of 8"]);
}

/// A gap has the earliest and latest time of the missing records, whether shed or lost.
#[test]
fn a_gap_tells_when() {
    let (mut rig, mut ring) = rig(OPTIONS);
    let mut offer = |time_ms, text: &str| ring.offer(1, time_ms, &long(text));
    assert!(offer(10, "a") && offer(20, "b"));
    // The clock goes back.
    assert!(!offer(40, "shed") && !offer(30, "shed") && !offer(35, "shed"));
    rig.step();
    assert!(!offer(50, &"never fits".repeat(40)));
    assert!(offer(60, "c"));
    rig.step_after(OPTIONS.gather.after);
    let gaps = |rig: &Rig| {
        let records = records(&rig.firehose).into_iter();
        let gaps = records.filter(|record| record.kind == GAPS.kind);
        gaps.map(|record| gap(&record.payload)).collect::<Vec<_>>()
    };
    let want = |lost, since_ms, through_ms| LaneGap { shard: SHARD, lost, since_ms, through_ms };
    // The second gap is of the same shortage; it may report the same times.
    assert_eq!(gaps(&rig), [want(3, 30, 40), want(1, 30, 50)]);
    rig.firehose.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    rig.step_after(OPTIONS.commit.after);
    rig.firehose.set_faults(DiskFaults::default());
    rig.step_after(OPTIONS.retry_max);
    assert_eq!(gaps(&rig), [want(7, 10, 60)], "all of it is lost");
    assert!(offer(70, "d") && offer(75, "e") && !offer(80, "shed"));
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(gaps(&rig)[1..], [want(1, 80, 80)]);
}

/// A close waits for gaps as for records: written ones must become durable, and refused ones must
/// be retried.
#[test]
fn a_gap_that_is_not_durable_is_not_settled() {
    let too_long = [0; 1_000];
    let (mut rig, mut ring) = rig(OPTIONS);
    assert!(rig.driver.is_drained());
    assert!(!ring.offer(1, 0, &too_long));
    rig.step();
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(said(&rig), ["1 lost of 7"]);
    assert_eq!(rig.driver.unfinished().firehose, 0, "no record is left");
    assert!(!rig.driver.is_drained(), "it is written alone");
    rig.step_after(OPTIONS.commit.after);
    assert!(rig.driver.is_drained());

    rig.firehose.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    assert!(!ring.offer(1, 0, &too_long));
    rig.driver.close();
    for _ in 0..3 {
        rig.step_after(OPTIONS.retry_max);
        assert_eq!(rig.driver.unfinished().firehose, 0);
        assert!(!rig.driver.is_drained(), "it is not even written");
    }
    rig.firehose.set_faults(DiskFaults::default());
    rig.step_after(OPTIONS.retry_max);
    assert!(rig.driver.is_drained());
    assert_eq!(said(&rig), ["1 lost of 7", "1 lost of 7"]);
}

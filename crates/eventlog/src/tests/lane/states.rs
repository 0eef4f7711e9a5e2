//! States of a lane: refusals and their causes, full and recovering disks, retention, counters, the
//! close.

use std::sync::mpsc;
use std::time::Duration;

use super::{GAPS, MS, OPTIONS, Rig, records, setup, texts};
use crate::disk::testing::{DiskFaults, FaultDisk};
use crate::lane::{
    BatchLimits, DurableRing, LaneCounters, LaneEvent, LaneFailure, LaneKind, LaneOptions,
    LaneReport, LaneReporter, LaneState, LaneTime, LogDriver, NextStep, PushError, Retention,
    RingPosition, UnfinishedRecords,
};

fn refused(ring: &mut DurableRing, bytes: usize) -> String {
    ring.push(1, 0, &vec![b'x'; bytes]).expect_err("it is refused").to_string()
}

#[test]
fn refusals_say_why_in_order() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(300, None);
    let lane = rig.lane(LaneKind::Durable);
    let too_long = "a payload of 261 bytes, at most 260 fit the ring";
    assert_eq!(ring.payload_bytes_max(), 260);
    assert_eq!(refused(&mut ring, 261), too_long);
    assert_eq!(ring.push(1, 0, &[b'a'; 260]), Ok(RingPosition(1)), "it fills the ring");
    assert_eq!((ring.state(), lane.state()), (LaneState::Writing, LaneState::Writing));
    let full = "the ring has no room: the disk is slower than what is handed over";
    assert_eq!(refused(&mut ring, 0), full);
    assert_eq!(refused(&mut ring, 261), too_long);
    assert_eq!((ring.state(), lane.state()), (LaneState::Full, LaneState::Full));
    rig.step();
    assert_eq!((ring.state(), lane.state()), (LaneState::Writing, LaneState::Writing));
    rig.durable.set_space(Some(0));
    assert_eq!(ring.push(1, 0, &[b'b'; 260]), Ok(RingPosition(2)));
    assert_eq!(refused(&mut ring, 0), full);
    rig.step();
    let failing = LaneState::Failing { cause: LaneFailure::DiskFull, since_ms: 5_000 };
    assert_eq!((ring.state(), lane.state()), (failing, failing));
    let text = "the log cannot be written: its disk is full";
    assert_eq!(refused(&mut ring, 0), text);
    assert_eq!(refused(&mut ring, 261), too_long);
    rig.driver.close();
    assert_eq!(refused(&mut ring, 0), "the log is closed");
    assert_eq!(refused(&mut ring, 261), too_long);
    assert_eq!((ring.state(), lane.state()), (LaneState::Closed, LaneState::Closed));
    let counters = lane.counters();
    assert_eq!((counters.too_long, counters.refused_full, counters.refused_state), (4, 2, 2));
}

/// A full lane recovers by itself once there is space.
#[test]
fn a_ring_that_was_full_is_forgiven_by_the_log() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let lane = rig.lane(LaneKind::Firehose);
    let mut ring = rig.driver.firehose_ring(0, 400);
    assert!(ring.offer(1, 0, &[0; 100]) && !ring.offer(1, 0, &[0; 300]));
    assert!(ring.offer(1, 0, b""), "there is room for less");
    assert_eq!((ring.state(), lane.state()), (LaneState::Full, LaneState::Full));
    rig.step();
    assert_eq!((ring.state(), lane.state()), (LaneState::Full, LaneState::Full), "it gathers yet");
    rig.step_after(MS);
    assert_eq!(ring.state(), LaneState::Writing, "it sees for itself");
    rig.step_after(MS);
    assert_eq!(lane.state(), LaneState::Writing);
}

#[test]
fn a_full_disk_heals_without_a_restart() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let (tell, told) = mpsc::channel();
    let tell = move |what| tell.send(what).expect("somebody listens");
    let mut ring = rig.driver.durable_ring(10_000, Some(Box::new(tell)));
    let mut firehose = rig.driver.firehose_ring(0, 10_000);
    ring.push(1, 0, b"before").unwrap();
    rig.step_after(MS);
    rig.step_after(MS);
    assert_eq!(ring.durable(), RingPosition(1));
    rig.durable.set_space(Some(100));
    for text in ["unlucky", "too"] {
        ring.push(1, 0, format!("{text:_<100}").as_bytes()).unwrap();
    }
    let mut next = rig.step_after(MS);
    // Retries become rarer.
    let mut waits = Vec::new();
    for _ in 0..10 {
        let wait = rig.wait(next).expect("it tries by itself");
        waits.push(wait.as_millis());
        let calls = rig.durable.calls();
        rig.step_after(wait / 2);
        assert_eq!(rig.durable.calls(), calls, "not before its time");
        next = rig.step_after(wait - wait / 2);
        assert!(rig.durable.calls() > calls);
        assert!(matches!(ring.push(1, 0, b"refused"), Err(PushError::Failing { .. })));
        assert_eq!(ring.durable(), RingPosition(1));
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]);
    assert!(rig.durable.names().len() <= 3, "tries leave no files: {:?}", rig.durable.names());
    // The other lane has its own disk.
    assert!(firehose.offer(1, 0, b"goes on"));
    rig.step_after(MS);
    rig.step_after(MS);
    assert_eq!(texts(&rig.firehose), ["goes on"]);
    rig.durable.set_space(None);
    rig.step_after(OPTIONS.retry_max);
    assert_eq!((ring.state(), ring.durable()), (LaneState::Writing, RingPosition(3)));
    assert_eq!(ring.push(1, 0, b"after"), Ok(RingPosition(4)));
    rig.step_after(MS);
    rig.step_after(MS);
    assert!(ring.is_durable(RingPosition(4)));
    let found = texts(&rig.durable);
    let found: Vec<_> = found.iter().map(|text| text.trim_end_matches('_')).collect();
    assert_eq!(found, ["before", "unlucky", "too", "after"]);
    assert_eq!(rig.heard.take(), ["Failing Durable", "Healed Durable"]);
    let told: Vec<_> = told.try_iter().collect();
    let durable = |through, records, sequence| LaneEvent::Durable {
        through: RingPosition(through),
        records,
        sequence,
    };
    let failing = LaneEvent::Failing { cause: LaneFailure::DiskFull, since_ms: 5_003 };
    let want = [durable(1, 1, 1), failing, durable(3, 2, 3), LaneEvent::Writing, durable(4, 1, 4)];
    assert_eq!(told, want);
    let counters = rig.lane(LaneKind::Durable).counters();
    assert_eq!((counters.commits, counters.commit_failures), (3, 11));
}

#[test]
fn a_disk_that_fails_otherwise_is_told_apart() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    rig.durable.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    ring.push(1, 0, b"a").unwrap();
    rig.step_after(MS);
    rig.step_after(MS);
    let refused = ring.push(1, 0, b"b").unwrap_err();
    let (cause, since_ms) = (LaneFailure::Disk, rig.now.unix_ms);
    assert_eq!(refused, PushError::Failing { cause, since_ms });
    assert_eq!(refused.to_string(), "the log cannot be written: its disk fails");
}

#[test]
fn old_segments_go_when_their_owners_gave_them_away() {
    let retention =
        Retention { bytes_max: Some(6_000), every: Duration::from_secs(10), ..Retention::ALL };
    let mut rig = Rig::new(LaneOptions { retention, ..OPTIONS }, OPTIONS);
    let lane = rig.lane(LaneKind::Durable);
    let (claim, other) = (lane.protect(), lane.protect());
    let mut ring = rig.driver.durable_ring(10_000, None);
    rig.step();
    for _ in 0..100 {
        ring.push(1, 0, &[b'x'; 164]).unwrap();
        rig.step_after(MS);
        rig.step_after(MS);
    }
    assert_eq!(ring.durable(), RingPosition(100));
    assert_eq!((records(&rig.durable).len(), lane.counters().segments), (100, 10));
    let next = rig.step();
    assert!(rig.wait(next).is_some_and(|wait| wait <= retention.every), "it looks by itself");
    rig.step_after(retention.every);
    assert_eq!(records(&rig.durable).len(), 100, "the owners need all");
    claim.keep_from(u64::MAX);
    rig.step_after(retention.every);
    assert_eq!(records(&rig.durable).len(), 100, "the other owner needs all");
    assert_eq!(rig.heard.take(), Vec::<String>::new());
    claim.keep_from(45);
    other.keep_from(70);
    rig.step_after(retention.every - MS);
    assert_eq!(records(&rig.durable).len(), 100, "not before its time");
    rig.step_after(MS);
    assert_eq!(records(&rig.durable)[0].sequence, 41, "the segment that holds 45 stays");
    drop(claim);
    rig.step_after(retention.every);
    assert_eq!(records(&rig.durable)[0].sequence, 61, "now the one that holds 70 stays");
    drop(other);
    rig.step_after(retention.every);
    assert_eq!(records(&rig.durable)[0].sequence, 81, "2 segments are not longer than that");
    assert_eq!(rig.heard.take(), ["Removed Durable"; 3]);
    let counters = lane.counters();
    assert_eq!((counters.segments, counters.removed_bytes), (5, 8 * 2_088));
    assert_eq!(ring.push(1, 0, b"goes on"), Ok(RingPosition(101)));
    rig.step_after(MS);
    rig.step_after(MS);
    assert_eq!(ring.durable(), RingPosition(101));
}

/// Retention waits for no group: it first commits the records that are written.
#[test]
fn old_segments_go_in_the_midst_of_a_group() {
    let retention = Retention { bytes_max: Some(0), every: MS * 100, ..Retention::ALL };
    let commit = BatchLimits { after: Duration::from_secs(3_600), bytes: 1_000 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { retention, commit, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    rig.step();
    for _ in 0..10 {
        assert!(ring.offer(1, 0, &[b'x'; 976]));
        rig.step_after(MS);
    }
    assert!(ring.offer(1, 0, b"begun"));
    rig.step_after(MS);
    rig.step_after(MS);
    let lane = rig.lane(LaneKind::Firehose);
    assert_eq!(lane.counters().commits, 10);
    assert_eq!(rig.driver.unfinished(), UnfinishedRecords { durable: 0, firehose: 1 });
    rig.step_after(retention.every);
    assert_eq!(lane.counters().commits, 11);
    assert_eq!(rig.heard.take(), ["Removed Firehose"]);
    assert_eq!(rig.driver.unfinished(), UnfinishedRecords::default());
}

/// A group that begins when retention is due is committed first. No retention is skipped, and a
/// clock step is reported once.
#[test]
fn a_group_that_begins_skips_no_retention() {
    let retention =
        Retention { age_max: Some(Duration::from_secs(3_600)), every: MS * 100, ..Retention::ALL };
    let commit = BatchLimits { after: Duration::from_secs(3_600), bytes: 1 << 20 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { retention, commit, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    rig.step();
    let lane = rig.lane(LaneKind::Firehose);
    let two_days = 2 * 24 * 60 * 60 * 1000;
    let mut reports = Vec::new();
    for (turn, time_ms) in [(1, 0), (2, two_days), (3, two_days), (4, two_days)] {
        assert!(ring.offer(1, time_ms, b"begun"));
        rig.step_after(retention.every - MS);
        assert_eq!(rig.driver.unfinished().firehose, 1, "turn {turn}");
        rig.step_after(MS);
        assert_eq!((rig.driver.unfinished().firehose, lane.counters().commits), (0, turn));
        reports.extend(rig.heard.take());
    }
    assert_eq!(reports, ["ClockStep Firehose"]);
}

/// No reader needs the firehose, so its old segments go even while it is written.
#[test]
fn the_firehose_goes_by_age() {
    let retention = Retention {
        age_max: Some(Duration::from_secs(60)),
        every: Duration::from_secs(1),
        ..Retention::ALL
    };
    let mut rig = Rig::new(OPTIONS, LaneOptions { retention, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    for _ in 0..200 {
        assert!(ring.offer(1, rig.now.unix_ms, &[b'x'; 364]));
        rig.step_after(Duration::from_secs(1));
        rig.step_after(MS);
    }
    let oldest = rig.now.unix_ms - records(&rig.firehose)[0].time_ms;
    assert!((60_000..90_000).contains(&oldest), "{oldest} ms");
    assert!(rig.lane(LaneKind::Firehose).counters().removed_bytes > 0);
}

#[test]
fn a_disk_that_does_not_remove_is_reported_and_tried_again() {
    let retention = Retention { bytes_max: Some(0), every: MS * 100, ..Retention::ALL };
    let mut rig = Rig::new(LaneOptions { retention, ..OPTIONS }, OPTIONS);
    let claim = rig.lane(LaneKind::Durable).protect();
    let mut ring = rig.driver.durable_ring(10_000, None);
    rig.step();
    for _ in 0..20 {
        ring.push(1, 0, &[b'x'; 364]).unwrap();
        rig.step_after(MS);
        rig.step_after(MS);
    }
    drop(claim);
    for failures in 1..=3 {
        rig.durable.set_faults(DiskFaults { other: 1, ..DiskFaults::default() });
        rig.step_after(retention.every);
        let told = rig.heard.take();
        assert_eq!(told.len(), usize::from(failures == 1), "it is told once: {told:?}");
        assert!(told.iter().all(|told| told == "RetainFailed Durable"), "{told:?}");
        assert_eq!(rig.lane(LaneKind::Durable).counters().retention_failures, failures);
    }
    assert_eq!(ring.state(), LaneState::Writing, "records are still written");
    rig.durable.set_faults(DiskFaults::default());
    rig.step_after(retention.every);
    assert_eq!(rig.heard.take(), ["Removed Durable"]);
    assert_eq!(records(&rig.durable)[0].sequence, 16, "the newest stays");
}

/// Retention does not wait for the next retry of the disk: space may be what the disk lacks.
#[test]
fn old_segments_go_while_the_disk_fails() {
    let retention = Retention { bytes_max: Some(3_000), every: MS * 5, ..Retention::ALL };
    let patient = Duration::from_secs(60);
    let durable = LaneOptions { retention, retry_min: patient, retry_max: patient, ..OPTIONS };
    let mut rig = Rig::new(durable, OPTIONS);
    let claim = rig.lane(LaneKind::Durable).protect();
    let mut ring = rig.driver.durable_ring(10_000, None);
    rig.step();
    let hand_over = |rig: &mut Rig, ring: &mut DurableRing| {
        ring.push(1, 0, &[b'x'; 364]).unwrap();
        rig.step_after(MS);
        rig.step_after(MS)
    };
    for _ in 0..20 {
        hand_over(&mut rig, &mut ring);
    }
    rig.durable.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    let next = hand_over(&mut rig, &mut ring);
    assert_eq!(rig.heard.take(), ["Failing Durable"]);
    assert!(rig.wait(next).is_some_and(|wait| wait <= retention.every), "{next:?}");
    rig.durable.set_faults(DiskFaults::default());
    let segments = rig.lane(LaneKind::Durable).counters().segments;
    drop(claim);
    rig.step_after(retention.every);
    assert_eq!(rig.heard.take(), ["Removed Durable"]);
    assert!(rig.lane(LaneKind::Durable).counters().segments < segments);
}

/// The close does not wait for retention.
#[test]
fn nothing_goes_at_the_end() {
    let retention = Retention { bytes_max: Some(0), every: MS * 5, ..Retention::ALL };
    let mut rig = Rig::new(LaneOptions { retention, ..OPTIONS }, OPTIONS);
    let claim = rig.lane(LaneKind::Durable).protect();
    let mut ring = rig.driver.durable_ring(10_000, None);
    for _ in 0..20 {
        ring.push(1, 0, &[b'x'; 364]).unwrap();
        rig.step_after(MS);
        rig.step_after(MS);
    }
    drop(claim);
    rig.driver.close();
    rig.step_after(retention.every);
    assert!(rig.driver.is_drained());
    assert_eq!(rig.lane(LaneKind::Durable).counters().removed_bytes, 0);
}

/// Counted from the first failure, regardless of retries.
#[test]
fn how_long_a_lane_failed_is_reported() {
    let disks = [FaultDisk::new(1), FaultDisk::new(2)];
    let [durable, firehose] = disks.each_ref().map(|disk| setup(disk, OPTIONS));
    let (heard, hear) = mpsc::channel();
    let report: LaneReporter = Box::new(move |lane, report| {
        if let LaneReport::Healed(after) = report {
            heard.send((lane, after)).expect("somebody listens");
        }
    });
    let mut driver = LogDriver::new(durable, firehose, GAPS, report);
    let mut ring = driver.durable_ring(1_000, None);
    let mut step = |ms: u64| {
        driver.step(LaneTime { tick: Duration::from_millis(ms), unix_ms: ms });
    };
    step(1_000);
    ring.push(1, 0, b"late").unwrap();
    disks[0].set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    step(1_001);
    step(1_010);
    assert!(
        matches!(ring.state(), LaneState::Failing { since_ms: 1_010, .. }),
        "{:?}",
        ring.state()
    );
    for seconds in 2..5 {
        step(1_000 * seconds);
    }
    disks[0].set_faults(DiskFaults::default());
    step(10_010);
    let after = Duration::from_secs(9);
    assert_eq!(hear.try_iter().collect::<Vec<_>>(), [(LaneKind::Durable, after)]);
}

#[test]
fn what_happened_is_counted() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let lane = rig.lane(LaneKind::Durable);
    assert_eq!(lane.counters(), LaneCounters::default());
    let mut rings = [300, 400].map(|bytes| rig.driver.durable_ring(bytes, None));
    for ring in &mut rings {
        ring.push(1, 0, &[b'x'; 100]).unwrap();
    }
    rings[1].push(1, 0, &[b'x'; 100]).unwrap();
    rig.step_after(MS);
    let want = LaneCounters {
        records: 3,
        by_class: [3, 0, 0, 0],
        bytes: 300,
        commits: 1,
        ring_bytes_high: 280,
        segments: 1,
        ..LaneCounters::default()
    };
    assert_eq!(lane.counters(), want);
}

/// Records that a disk loses count as lost, not as written.
#[test]
fn records_are_counted_by_class_once_they_are_durable() {
    let pace = BatchLimits { after: Duration::from_secs(60), bytes: 1 << 20 };
    let mut rig = Rig::new(OPTIONS, LaneOptions { commit: pace, ..OPTIONS });
    let mut ring = rig.driver.firehose_ring(0, 4_000);
    let lane = rig.lane(LaneKind::Firehose);
    let counted = || (lane.counters().by_class, lane.counters().disk_lost);
    assert!(ring.offer_as(1, 1, 0, b"a") && ring.offer_as(1, 2, 0, b"b"));
    rig.step();
    rig.step_after(OPTIONS.gather.after);
    assert_eq!(crate::segments(&rig.firehose).expect("a directory").len(), 1, "they are written");
    assert_eq!(counted(), ([0; 4], 0), "and not durable");
    rig.firehose.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    rig.step_after(pace.after);
    assert_eq!(counted(), ([0; 4], 2));
    rig.firehose.set_faults(DiskFaults::default());
    assert!(ring.offer_as(1, 2, 0, b"c"));
    rig.step_after(pace.after);
    rig.step_after(pace.after);
    assert_eq!(counted(), ([0, 0, 1, 0], 2));
    assert_eq!(lane.counters().lost, 2, "a gap tells of them");
}

#[test]
fn the_end_writes_what_is_left_at_once() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    let mut firehose = rig.driver.firehose_ring(3, 300);
    ring.push(1, 0, b"last").unwrap();
    for _ in 0..3 {
        firehose.offer(1, 0, &[b'f'; 100]);
    }
    assert_eq!(rig.driver.unfinished(), UnfinishedRecords { durable: 1, firehose: 2 });
    rig.driver.close();
    rig.step();
    assert!(rig.driver.is_drained());
    assert_eq!(rig.driver.unfinished(), UnfinishedRecords::default());
    assert!(ring.is_durable(RingPosition(1)));
    assert_eq!(texts(&rig.durable), ["last"]);
    assert_eq!(texts(&rig.firehose)[2], "1 lost of 3");
    assert_eq!(rig.lane(LaneKind::Firehose).counters().commits, 1);
}

#[test]
fn the_end_tries_a_failing_disk_and_tells_what_is_left() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    rig.durable.set_space(Some(0));
    ring.push(1, 0, b"stuck").unwrap();
    rig.step_after(MS);
    let next = rig.step_after(MS);
    assert!(rig.wait(next).is_some_and(|wait| wait > Duration::ZERO));
    rig.driver.close();
    let calls = rig.durable.calls();
    rig.step();
    assert!(rig.durable.calls() > calls, "once more, at once");
    assert!(!rig.driver.is_drained());
    assert_eq!(rig.driver.unfinished(), UnfinishedRecords { durable: 1, firehose: 0 });
    rig.heard.take();
    rig.driver.seal(rig.now);
    assert_eq!(rig.heard.take(), ["Unsealed Durable"], "the other one is sealed");
    rig.durable.set_space(None);
    rig.step_after(OPTIONS.retry_max);
    assert!(rig.driver.is_drained() && ring.is_durable(RingPosition(1)));
    assert_eq!(ring.state(), LaneState::Closed, "it stays so");
}

/// However the driver ends, its rings close.
#[test]
fn without_a_keeper_the_lanes_are_closed() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let mut ring = rig.driver.durable_ring(1_000, None);
    let mut firehose = rig.driver.firehose_ring(0, 1_000);
    let lane = rig.lane(LaneKind::Firehose);
    assert_eq!(rig.step(), NextStep::Woken);
    drop(rig);
    assert_eq!(ring.push(1, 0, b"a"), Err(PushError::Closed));
    assert!(!firehose.offer(1, 0, b"a"));
    assert_eq!((lane.state(), lane.counters().refused_state), (LaneState::Closed, 1));
}

/// The wall clock appears only in reports and gaps. It decides neither deadlines nor order.
#[test]
fn a_clock_that_goes_backwards_holds_up_nothing() {
    let retention =
        Retention { age_max: Some(Duration::from_secs(1)), every: MS, ..Retention::ALL };
    let firehose = LaneOptions { retention, ..OPTIONS };
    let mut rig = Rig::new(OPTIONS, firehose);
    let mut durable = rig.driver.durable_ring(4_000, None);
    let mut firehose = rig.driver.firehose_ring(0, 4_000);
    for number in 1..=40_u64 {
        rig.now.unix_ms = 5_000 - 100 * number;
        let payload = format!("{number:_<200}");
        durable.push(1, rig.now.unix_ms, payload.as_bytes()).unwrap();
        assert!(firehose.offer(1, rig.now.unix_ms, payload.as_bytes()));
        for _ in 0..2 {
            // The monotonic clock advances.
            rig.now.tick += MS;
            rig.step();
        }
        assert!(durable.is_durable(RingPosition(number)), "{number}");
    }
    assert_eq!(rig.heard.take(), Vec::<String>::new(), "nothing is older than the first was");
    rig.now.tick += OPTIONS.commit.after;
    rig.step();
    for disk in [&rig.durable, &rig.firehose] {
        let found = records(disk);
        assert!(found.iter().map(|record| record.sequence).eq(1..=40));
        assert!(found.iter().map(|record| record.time_ms).eq((1..=40).map(|n| 5_000 - 100 * n)));
    }
}

/// Its space is freed, and what it counted remains.
#[test]
fn a_ring_without_a_producer_goes_after_its_last_record() {
    let mut rig = Rig::new(OPTIONS, OPTIONS);
    let lane = rig.lane(LaneKind::Firehose);
    let mut others = rig.driver.firehose_ring(0, 1_000);
    for _ in 0..3 {
        let mut ring = rig.driver.firehose_ring(7, 300);
        let taken = (0..5).filter(|_| ring.offer(1, 0, &[b'x'; 100])).count();
        assert_eq!((taken, lane.state()), (2, LaneState::Full));
        drop(ring);
        rig.step();
        rig.step_after(OPTIONS.commit.after);
        assert!(others.offer(1, 0, b"goes on"));
        rig.step_after(MS);
        rig.step_after(OPTIONS.commit.after);
    }
    assert_eq!(rig.driver.rings(), 1);
    let counters = lane.counters();
    assert_eq!((counters.records, counters.shed, counters.lost), (9, 9, 9), "{counters:?}");
    assert_eq!(lane.state(), LaneState::Writing);
}

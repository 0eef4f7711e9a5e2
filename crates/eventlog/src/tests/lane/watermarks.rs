//! The durable lane's watermarks of the firehose: never ahead of what is durable, rare, and after a
//! crash sufficient to detect lost records.

use std::time::Duration;

use super::{GAPS, Heard, MS, OPTIONS, Rig, records, setup};
use crate::disk::DiskFolder;
use crate::disk::testing::{DiskFaults, FaultDisk};
use crate::lane::{
    BatchLimits, KnownReach, LaneFormats, LaneOptions, LaneTime, LaneWatermark, LogBuilder,
    LogDriver, LogOptions, NextStep, WatermarkFormat,
};
use crate::{CorruptionKind, LogEntry, RecoveredEnd};

const KIND: u8 = 8;

fn decode(payload: &[u8]) -> Option<LaneWatermark> {
    let sequence = u64::from_le_bytes(payload.try_into().ok()?);
    Some(LaneWatermark { epoch: 0, sequence })
}

const FORMATS: LaneFormats = LaneFormats {
    gaps: GAPS,
    watermarks: Some(WatermarkFormat {
        kind: KIND,
        encode: |watermark, out| out.extend(watermark.sequence.to_le_bytes()),
        decode,
    }),
};

const PACE: BatchLimits = BatchLimits { after: Duration::from_millis(100), bytes: 1 << 20 };

fn rig() -> Rig {
    let [durable, firehose] = [FaultDisk::new(1), FaultDisk::new(2)];
    let heard = Heard::default();
    let setups =
        (setup(&durable, OPTIONS), setup(&firehose, LaneOptions { commit: PACE, ..OPTIONS }));
    let driver = LogDriver::new(setups.0, setups.1, FORMATS, heard.reporter());
    let now = LaneTime { tick: Duration::from_secs(100), unix_ms: 5_000 };
    Rig { durable, firehose, driver, heard, now }
}

fn told(rig: &Rig) -> Vec<u64> {
    let watermarks = records(&rig.durable).into_iter().filter(|record| record.kind == KIND);
    watermarks.map(|record| decode(&record.payload).expect("a number").sequence).collect()
}

#[test]
fn a_watermark_is_written_once_a_second_while_the_firehose_grows() {
    let mut rig = rig();
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    assert_eq!(rig.step(), NextStep::Woken);
    assert!(ring.offer(1, 0, b"a"));
    rig.step();
    rig.step_after(MS);
    assert_eq!((told(&rig), records(&rig.firehose).len()), (vec![], 1), "it is not durable yet");
    rig.step_after(PACE.after);
    rig.step();
    assert_eq!(told(&rig), [1]);
    for _ in 0..20 {
        assert!(ring.offer(1, 0, b"b"));
        rig.step_after(PACE.after / 2);
    }
    assert_eq!(told(&rig).len(), 2, "the second came a second later");
    for _ in 0..50 {
        rig.step_after(MS * 100);
    }
    assert_eq!(told(&rig)[2..], [21], "and no more once it rests");
}

#[test]
fn a_lost_watermark_is_written_again() {
    let mut rig = rig();
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    rig.step();
    rig.durable.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    assert!(ring.offer(1, 0, b"a"));
    for _ in 0..40 {
        rig.step_after(MS * 20);
    }
    assert_eq!(rig.heard.take(), ["Failing Durable"]);
    rig.durable.set_faults(DiskFaults::default());
    for _ in 0..40 {
        rig.step_after(MS * 100);
    }
    assert_eq!(told(&rig), [1]);
}

#[test]
fn the_last_watermark_is_written_at_the_close() {
    let mut rig = rig();
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    rig.step();
    for _ in 0..3 {
        assert!(ring.offer(1, 0, b"a"));
    }
    rig.driver.close();
    for _ in 0..10 {
        rig.step();
    }
    assert!(rig.driver.is_drained());
    assert_eq!(told(&rig), [3]);
}

#[test]
fn a_watermark_never_passes_what_is_durable() {
    let mut rig = rig();
    let mut ring = rig.driver.firehose_ring(0, 10_000);
    rig.step();
    assert!(ring.offer(1, 0, b"a"));
    for _ in 0..5 {
        rig.step_after(MS);
    }
    assert_eq!(told(&rig), [0; 0]);
}

/// After a kill the firehose lacks its last segments. The next start reports which records.
#[test]
fn what_is_gone_after_a_crash_is_missing() {
    let temporary = tempfile::tempdir().expect("a directory");
    let root = temporary.path();
    let options = LogOptions {
        firehose: LaneOptions { commit: LaneOptions::DURABLE.commit, ..OPTIONS },
        durable: OPTIONS,
        ..LogOptions::DEFAULT
    };
    let open = || {
        let mut problems = Vec::new();
        let visit = |_, item| {
            if let LogEntry::Corruption(corruption) = item {
                problems.push(corruption.problem);
            }
        };
        let opened = LogBuilder::open(root, &options, FORMATS, Box::new(|_, _| ()), visit);
        let (log, recoveries) = opened.expect("the folder is ours");
        (log, recoveries, problems)
    };
    let log = open().0.start().expect("a thread");
    let mut ring = log.rings().firehose_ring(0, 100_000);
    for _ in 0..20 {
        assert!(ring.offer(1, 0, &[b'x'; 500]));
    }
    let left = log.close(Duration::from_secs(5)).expect("it ends");
    assert_eq!(left.firehose, 0);
    // As after a kill: no seal, and only the first segments remain.
    let folder = root.join("firehose");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|it| it.expect("a file").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "segment"));
    files.sort();
    assert!(files.len() > 2, "{files:?}");
    files[1..].iter().for_each(|file| std::fs::remove_file(file).expect("it is there"));
    std::fs::remove_file(folder.join("end")).expect("it is there");
    let durable = DiskFolder::read_only(root.join("durable"));
    let known = KnownReach::read(&durable, KIND, decode).expect("it is read").expect("it is told");
    assert_eq!(known.watermark.sequence, 20);
    let (log, recoveries, problems) = open();
    let (last, durable) = (recoveries.firehose.last, recoveries.firehose.durable);
    assert!(last < 20 && durable == 20, "{recoveries:?}");
    assert_eq!(problems, [CorruptionKind::Missing { from: last + 1, through: 20 }]);
    assert_eq!(
        (recoveries.watermark, recoveries.firehose.end),
        (Some(known), RecoveredEnd::Missing)
    );
    drop(log);
    // The durable lane's `end` is unreadable, its segments are not.
    let end = root.join("durable/end");
    std::fs::remove_file(&end).expect("it is there");
    std::os::unix::fs::symlink("end", &end).expect("a link to itself");
    let (_log, recoveries, _) = open();
    assert!(matches!(recoveries.durable.end, RecoveredEnd::Unreadable(_)), "{recoveries:?}");
    assert_eq!(recoveries.watermark, Some(known));
}

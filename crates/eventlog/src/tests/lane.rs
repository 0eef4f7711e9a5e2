//! The lanes: stepped by hand, on thousands of failing disks, and on threads.

mod faults;
mod gaps;
mod groups;
mod states;
mod threads;
mod waker;
mod watermarks;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::disk::SyncMeter;
use crate::disk::testing::FaultDisk;
use crate::lane::{
    BatchLimits, GapFormat, LaneGap, LaneHandle, LaneKind, LaneOptions, LaneReporter, LaneSetup,
    LaneTime, LogDriver, NextStep,
};
use crate::{LogEntry, LogReader, LogRecord, LogWriter, WriterOptions};

const MS: Duration = Duration::from_millis(1);

/// Gaps of four numbers.
const GAPS: GapFormat = GapFormat {
    kind: 9,
    encode: |gap, out| {
        let numbers = [u64::from(gap.shard), gap.lost, gap.since_ms, gap.through_ms];
        out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    },
};

fn gap(payload: &[u8]) -> LaneGap {
    let numbers: Vec<_> = payload
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")))
        .collect();
    let [shard, lost, since_ms, through_ms] = numbers[..] else { panic!("no gap: {payload:?}") };
    LaneGap { shard: u32::try_from(shard).expect("a number of ours"), lost, since_ms, through_ms }
}

/// Short segments and short waits.
const OPTIONS: LaneOptions = LaneOptions {
    writer: WriterOptions {
        segment_bytes: 2_000,
        batch_bytes_max: 4_000,
        index_every_bytes: 500,
        preallocate: false,
        ..WriterOptions::DEFAULT
    },
    gather: BatchLimits { after: MS, bytes: 1_000 },
    commit: BatchLimits { after: Duration::from_millis(50), bytes: 3_000 },
    ..LaneOptions::DURABLE
};

/// The reports, in short form.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn reporter(&self) -> LaneReporter {
        let heard = self.clone();
        Box::new(move |lane, report| {
            let text = format!("{report:?}");
            let name = text.split('(').next().unwrap_or_default();
            heard.0.lock().expect("nobody panicked").push(format!("{name} {lane:?}"));
        })
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panicked"))
    }
}

/// A driver with two disks in memory and a manual clock.
struct Rig {
    durable: FaultDisk,
    firehose: FaultDisk,
    driver: LogDriver<FaultDisk>,
    heard: Heard,
    now: LaneTime,
}

fn setup(disk: &FaultDisk, options: LaneOptions) -> LaneSetup<FaultDisk> {
    let opened = LogWriter::open(disk.clone(), options.writer, |_| ());
    LaneSetup {
        writer: opened.expect("nothing fails").0,
        options,
        meter: SyncMeter::default().into(),
    }
}

impl Rig {
    fn new(durable: LaneOptions, firehose: LaneOptions) -> Self {
        let disks = [FaultDisk::new(1), FaultDisk::new(2)];
        let heard = Heard::default();
        let [durable, firehose] = [(&disks[0], durable), (&disks[1], firehose)]
            .map(|(disk, options)| setup(disk, options));
        let driver = LogDriver::new(durable, firehose, GAPS, heard.reporter());
        let [durable, firehose] = disks;
        let now = LaneTime { tick: Duration::from_secs(100), unix_ms: 5_000 };
        Self { durable, firehose, driver, heard, now }
    }

    fn lane(&self, kind: LaneKind) -> LaneHandle {
        self.driver.lane(kind)
    }

    fn step(&mut self) -> NextStep {
        self.driver.step(self.now)
    }

    /// Advances the clock, then steps.
    fn step_after(&mut self, passed: Duration) -> NextStep {
        self.now.tick += passed;
        self.now.unix_ms += u64::try_from(passed.as_millis()).expect("not that long");
        self.step()
    }

    /// Time until the next step. None if it needs no further step.
    fn wait(&self, next: NextStep) -> Option<Duration> {
        match next {
            NextStep::Now => Some(Duration::ZERO),
            NextStep::At(at) => Some(at.saturating_sub(self.now.tick)),
            NextStep::Woken => None,
        }
    }
}

fn records(disk: &FaultDisk) -> Vec<LogRecord> {
    let items = LogReader::new(disk).expect("a directory").map(|item| item.expect("it is read"));
    let record = |item| match item {
        LogEntry::Record(record) => record,
        other => panic!("{other:?}"),
    };
    items.map(record).collect()
}

/// Payloads as text, gaps as their counts.
fn texts(disk: &FaultDisk) -> Vec<String> {
    let text = |record: LogRecord| {
        if record.kind == GAPS.kind {
            let gap = gap(&record.payload);
            return format!("{} lost of {}", gap.lost, gap.shard);
        }
        String::from_utf8(record.payload).expect("text")
    };
    records(disk).into_iter().map(text).collect()
}

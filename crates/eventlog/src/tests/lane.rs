//! The lanes: by hand, on disks that fail by the thousand, and on threads.

mod bell;
mod faults;
mod gaps;
mod groups;
mod states;
mod threads;
mod watermarks;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::disk::SyncMeter;
use crate::disk::testing::FaultDisk;
use crate::lane::{
    Gap, GapFormat, Keeper, Lane, LaneKind, LaneOptions, Next, Now, Pace, Reporter, Setup,
};
use crate::{Item, Options, Reader, Record, Writer};

const MS: Duration = Duration::from_millis(1);

/// Gaps as four numbers.
const GAPS: GapFormat = GapFormat {
    kind: 9,
    encode: |gap, out| {
        let numbers = [u64::from(gap.shard), gap.lost, gap.since_ms, gap.through_ms];
        out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    },
};

fn gap(payload: &[u8]) -> Gap {
    let numbers: Vec<_> = payload
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")))
        .collect();
    let [shard, lost, since_ms, through_ms] = numbers[..] else { panic!("no gap: {payload:?}") };
    Gap { shard: u32::try_from(shard).expect("a number of ours"), lost, since_ms, through_ms }
}

/// Short segments, and nothing waits for more of its like for long.
const OPTIONS: LaneOptions = LaneOptions {
    writer: Options {
        segment_bytes: 2_000,
        batch_bytes_max: 4_000,
        index_every_bytes: 500,
        preallocate: false,
        ..Options::DEFAULT
    },
    gather: Pace { after: MS, bytes: 1_000 },
    commit: Pace { after: Duration::from_millis(50), bytes: 3_000 },
    ..LaneOptions::DURABLE
};

/// What a reporter heard, in short.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn reporter(&self) -> Reporter {
        let heard = self.clone();
        Box::new(move |report| {
            let text = format!("{report:?}");
            let short: String = text.chars().take_while(|c| *c != ',').collect();
            heard.0.lock().expect("nobody panicked").push(short);
        })
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panicked"))
    }
}

/// A keeper over two disks in memory, and a clock that is moved by hand.
struct Rig {
    durable: FaultDisk,
    firehose: FaultDisk,
    keeper: Keeper<FaultDisk>,
    heard: Heard,
    now: Now,
}

fn setup(disk: &FaultDisk, options: LaneOptions) -> Setup<FaultDisk> {
    let opened = Writer::open(disk.clone(), options.writer, |_| ());
    Setup { writer: opened.expect("nothing fails").0, options, meter: SyncMeter::default().into() }
}

impl Rig {
    fn new(durable: LaneOptions, firehose: LaneOptions) -> Self {
        let disks = [FaultDisk::new(1), FaultDisk::new(2)];
        let heard = Heard::default();
        let [durable, firehose] = [(&disks[0], durable), (&disks[1], firehose)]
            .map(|(disk, options)| setup(disk, options));
        let keeper = Keeper::new(durable, firehose, GAPS, heard.reporter());
        let [durable, firehose] = disks;
        let now = Now { tick: Duration::from_secs(100), unix_ms: 5_000 };
        Self { durable, firehose, keeper, heard, now }
    }

    fn lane(&self, kind: LaneKind) -> Lane {
        self.keeper.lane(kind)
    }

    fn step(&mut self) -> Next {
        self.keeper.step(self.now)
    }

    /// Steps once so much later.
    fn step_after(&mut self, passed: Duration) -> Next {
        self.now.tick += passed;
        self.now.unix_ms += u64::try_from(passed.as_millis()).expect("not that long");
        self.step()
    }

    /// When it wants to be stepped again, from now.
    fn wait(&self, next: Next) -> Option<Duration> {
        match next {
            Next::Now => Some(Duration::ZERO),
            Next::At(at) => Some(at.saturating_sub(self.now.tick)),
            Next::Woken => None,
        }
    }
}

fn records(disk: &FaultDisk) -> Vec<Record> {
    let items = Reader::new(disk).expect("a directory").map(|item| item.expect("it is read"));
    let record = |item| match item {
        Item::Record(record) => record,
        other => panic!("{other:?}"),
    };
    items.map(record).collect()
}

/// Payloads as text, gaps as how many they tell of.
fn texts(disk: &FaultDisk) -> Vec<String> {
    let text = |record: Record| {
        if record.kind == GAPS.kind {
            let gap = gap(&record.payload);
            return format!("{} lost of {}", gap.lost, gap.shard);
        }
        String::from_utf8(record.payload).expect("text")
    };
    records(disk).into_iter().map(text).collect()
}

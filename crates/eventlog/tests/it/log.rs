//! The records of these tests, and the comparison with what a reader finds.
//!
//! Every record names its ring and its number, so the files alone show missing, repeated and
//! invented records.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use eventlog::disk::DiskFolder;
use eventlog::lane::{
    GapFormat, LaneKind, LaneOptions, LaneReporter, LogBuilder, LogError, LogOptions, ReadScope,
    Recoveries,
};
use eventlog::{LogEntry, LogReader, WriterOptions};

/// Longer than any step takes: a test fails instead of hanging.
pub(crate) const EVER: Duration = Duration::from_secs(60);

/// A ring: its epoch and its number.
pub(crate) type Name = (u32, u32);

/// Gaps of two numbers.
pub(crate) const GAPS: GapFormat = GapFormat {
    kind: 9,
    encode: |gap, out| {
        out.extend(gap.shard.to_le_bytes());
        out.extend(gap.lost.to_le_bytes());
    },
};

/// The number of a ring in gaps, which includes the epoch.
pub(crate) const fn shard((life, ring): Name) -> u32 {
    life * 100 + ring
}

/// Short segments and quick retries.
pub(crate) fn options(start: ReadScope) -> LogOptions {
    let lane = |lane: LaneOptions, segment_bytes| LaneOptions {
        writer: WriterOptions { segment_bytes, batch_bytes_max: 32 << 10, ..lane.writer },
        start,
        retry_max: Duration::from_millis(50),
        ..lane
    };
    LogOptions {
        durable: lane(LaneOptions::DURABLE, 32 << 10),
        firehose: lane(LaneOptions::FIREHOSE, 64 << 10),
        ..LogOptions::DEFAULT
    }
}

pub(crate) fn open(
    root: &Path,
    start: ReadScope,
    report: LaneReporter,
) -> Result<(LogBuilder, Recoveries), LogError> {
    LogBuilder::open(root, &options(start), GAPS, report, |_, _| ())
}

/// The record of a ring with this number, from 1.
pub(crate) fn payload((life, ring): Name, serial: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(life.to_le_bytes());
    payload.extend(ring.to_le_bytes());
    payload.extend(serial.to_le_bytes());
    let length = serial.wrapping_mul(37) % 400;
    payload.extend((0..length).map(|at| (at ^ serial).to_le_bytes()[0]));
    payload
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record of ours"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record of ours"))
}

/// The sequences of each ring's records. Panics unless sequences are consecutive from 1 and each
/// ring's records are in order, once each, with only those missing that a gap counts; these have
/// sequence 0.
pub(crate) fn found(root: &Path, kind: LaneKind) -> BTreeMap<Name, Vec<u64>> {
    let mut found = BTreeMap::<Name, Vec<u64>>::new();
    let mut last = 0;
    let folder = DiskFolder::read_only(root.join(kind.name()));
    for item in LogReader::new(&folder).expect("there is a log") {
        let record = match item.expect("it can be read") {
            LogEntry::Record(record) => record,
            // The end of the process cut it short.
            LogEntry::Torn(_) => continue,
            LogEntry::Corruption(corruption) => panic!("{corruption}"),
        };
        last += 1;
        assert_eq!(record.sequence, last, "sequences run on");
        let payload = &record.payload;
        let own = (u32_at(payload, 0), u64_at(payload, 4));
        if record.kind == GAPS.kind {
            let (shard, lost) = own;
            assert_eq!(kind, LaneKind::Firehose, "the durable lane has no gaps");
            let serials = found.entry((shard / 100, shard % 100)).or_default();
            serials.extend((0..lost).map(|_| 0));
            continue;
        }
        let name = (u32_at(payload, 0), u32_at(payload, 4));
        let serials = found.entry(name).or_default();
        let serial = serials.len() as u64 + 1;
        assert_eq!(u64_at(payload, 8), serial, "of {name:?}, in order, each once");
        assert_eq!(*payload, self::payload(name, serial), "as it was handed over");
        serials.push(record.sequence);
    }
    found
}

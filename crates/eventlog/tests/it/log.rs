//! What is handed over in these tests, and whether what is found is that.
//!
//! Every record says whose it is and which, so that a file alone shows what is missing, what came
//! twice and what nobody handed over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use eventlog::disk::DiskFolder;
use eventlog::lane::{
    GapFormat, LaneKind, LaneOptions, LaneReporter, LogBuilder, LogError, LogOptions, ReadScope,
    Recoveries,
};
use eventlog::{LogEntry, LogReader, WriterOptions};

/// Longer than anything takes: a test fails instead of hanging.
pub(crate) const EVER: Duration = Duration::from_secs(60);

/// The name of a ring: the life of the log that it was part of, and its number.
pub(crate) type Name = (u32, u32);

/// Gaps as two numbers.
pub(crate) const GAPS: GapFormat = GapFormat {
    kind: 9,
    encode: |gap, out| {
        out.extend(gap.shard.to_le_bytes());
        out.extend(gap.lost.to_le_bytes());
    },
};

/// A ring's number in gaps tells its life as well.
pub(crate) const fn shard((life, ring): Name) -> u32 {
    life * 100 + ring
}

/// Short segments, and a disk that heals is soon tried.
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

/// The record of a ring that has this number there, from 1.
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

/// What a lane holds: of each ring, the sequence of each of its records. Panics unless sequences
/// run on from 1, every record is one that its ring handed over, and a ring's records are there in
/// order, each once, with nothing missing but what a gap tells of, whose sequence is 0.
pub(crate) fn found(root: &Path, kind: LaneKind) -> BTreeMap<Name, Vec<u64>> {
    let mut found = BTreeMap::<Name, Vec<u64>>::new();
    let mut last = 0;
    let folder = DiskFolder::read_only(root.join(kind.name()));
    for item in LogReader::new(&folder).expect("there is a log") {
        let record = match item.expect("it can be read") {
            LogEntry::Record(record) => record,
            // What the end of a process cut short.
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

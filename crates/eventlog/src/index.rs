//! The index file beside a sealed segment: which records it holds, their times and kinds, and where
//! some of them begin.
//!
//! Nothing depends on it. A missing, damaged or foreign index costs a scan of the segment: a reader
//! compares the index with the segment's frames before it trusts it.
//!
//! All integers are little-endian:
//!
//! | at | bytes | index |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version |
//! | 12 | 4 | CRC32C of all other bytes |
//! | 16 | 8 | epoch of the segment |
//! | 24 | 8 | its first sequence |
//! | 32 | 4 | its node |
//! | 36 | 4 | number of kinds |
//! | 40 | 4 | number of entries |
//! | 44 | 4 | zero |
//! | 48 | 8 | last sequence |
//! | 56 | 8 | offset of its frame |
//! | 64 | 32 | times of the first and the last record, the earliest and the latest time |
//! | 96 | 8 each | kind and its number of records, 4 bytes each, in ascending order of kinds |
//! | | 24 each | entries: sequence, offset of its frame, latest time of the records before it |

use std::collections::BTreeMap;

use crate::disk::{Disk, DiskFile};
use crate::segment::{
    ALIGN, FRAME_BYTES, HEADER_BYTES_MIN, SEGMENT_BYTES_LIMIT, SegmentId, u32_at, u64_at,
};

/// The version that is written, and the only one that is used.
pub const INDEX_VERSION: u32 = 1;
/// Most entries of an index.
pub const INDEX_ENTRIES_MAX: usize = 8_192;
/// Longest index; a longer file is not read.
pub const INDEX_BYTES_MAX: usize = FIXED_BYTES + 256 * KIND_BYTES + INDEX_ENTRIES_MAX * ENTRY_BYTES;

const MAGIC: [u8; 8] = *b"vkryidx\n";
const FIXED_BYTES: usize = 96;
const KIND_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;

const _: () = assert!(
    SEGMENT_BYTES_LIMIT / (FRAME_BYTES as u64) < u32::MAX as u64,
    "records of a segment are counted in 32 bits"
);

/// What a sealed segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentIndex {
    /// The segment; its first record is part of the identity.
    pub identity: SegmentId,
    /// Sequence of its last record.
    pub last: u64,
    /// Offset of that record's frame.
    pub last_offset: usize,
    /// Time of the first record.
    pub first_time_ms: u64,
    /// Time of the last record.
    pub last_time_ms: u64,
    /// The earliest time.
    pub min_time_ms: u64,
    /// The latest time.
    pub max_time_ms: u64,
    /// Number of records of each kind.
    pub kinds: BTreeMap<u8, u32>,
    /// Places to start from, in ascending order.
    pub entries: Vec<IndexEntry>,
}

/// A place to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The record that begins there.
    pub sequence: u64,
    /// Offset of its frame.
    pub offset: usize,
    /// The latest time of all earlier records of the segment.
    pub before_ms: u64,
}

impl SegmentIndex {
    /// Reads the index of a segment. None if it is missing or damaged.
    pub fn read<D: Disk>(disk: &D, identity: SegmentId) -> Option<Self> {
        let file = disk.open(&identity.index_name()).ok()?;
        let length = usize::try_from(file.len().ok()?).ok()?;
        let mut bytes = vec![0; Some(length).filter(|length| *length <= INDEX_BYTES_MAX)?];
        let mut done = 0;
        while done < length {
            match file.read_at(done as u64, &mut bytes[done..]).ok()? {
                0 => return None,
                more => done += more,
            }
        }
        Self::decode(&bytes, identity)
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        let mut out = MAGIC.to_vec();
        out.extend(INDEX_VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.identity.epoch.to_le_bytes());
        out.extend(self.identity.first.to_le_bytes());
        out.extend(self.identity.node.to_le_bytes());
        out.extend(count(self.kinds.len()));
        out.extend(count(self.entries.len()));
        out.extend([0; 4]);
        let times = [self.first_time_ms, self.last_time_ms, self.min_time_ms, self.max_time_ms];
        for number in [self.last, self.last_offset as u64].into_iter().chain(times) {
            out.extend(number.to_le_bytes());
        }
        for (kind, records) in &self.kinds {
            out.extend(u32::from(*kind).to_le_bytes());
            out.extend(records.to_le_bytes());
        }
        for entry in &self.entries {
            for number in [entry.sequence, entry.offset as u64, entry.before_ms] {
                out.extend(number.to_le_bytes());
            }
        }
        let check = check(&out);
        out[12..16].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes an index. None if it is not of this segment, damaged or implausible.
    pub fn decode(bytes: &[u8], identity: SegmentId) -> Option<Self> {
        if bytes.len() < FIXED_BYTES || bytes.len() > INDEX_BYTES_MAX || bytes[..8] != MAGIC {
            return None;
        }
        if u32_at(bytes, 8) != INDEX_VERSION || u32_at(bytes, 12) != check(bytes) {
            return None;
        }
        let (epoch, first, node) = (u64_at(bytes, 16), u64_at(bytes, 24), u32_at(bytes, 32));
        let kinds = usize::try_from(u32_at(bytes, 36)).ok()?.checked_mul(KIND_BYTES)?;
        let entries = usize::try_from(u32_at(bytes, 40)).ok()?.checked_mul(ENTRY_BYTES)?;
        let whole = FIXED_BYTES.checked_add(kinds)?.checked_add(entries)? == bytes.len();
        if !whole || u32_at(bytes, 44) != 0 || (SegmentId { epoch, first, node }) != identity {
            return None;
        }
        let (kinds, entries) = bytes[FIXED_BYTES..].split_at(kinds);
        let index = Self {
            identity,
            last: u64_at(bytes, 48),
            last_offset: usize::try_from(u64_at(bytes, 56)).ok()?,
            first_time_ms: u64_at(bytes, 64),
            last_time_ms: u64_at(bytes, 72),
            min_time_ms: u64_at(bytes, 80),
            max_time_ms: u64_at(bytes, 88),
            kinds: decode_kinds(kinds)?,
            entries: entries.chunks_exact(ENTRY_BYTES).map(decode_entry).collect::<Option<_>>()?,
        };
        index.is_plausible().then_some(index)
    }

    fn is_plausible(&self) -> bool {
        let records: u64 = self.kinds.values().map(|count| u64::from(*count)).sum();
        let times = self.min_time_ms..=self.max_time_ms;
        let inside = |entry: &IndexEntry| {
            entry.sequence > self.identity.first
                && entry.sequence <= self.last
                && entry.offset > HEADER_BYTES_MIN
                && entry.offset <= self.last_offset
                && entry.offset.is_multiple_of(ALIGN)
                && times.contains(&entry.before_ms)
        };
        let ascend = |pair: &[IndexEntry]| {
            pair[0].sequence < pair[1].sequence
                && pair[0].offset < pair[1].offset
                && pair[0].before_ms <= pair[1].before_ms
        };
        self.last >= self.identity.first
            && self.last - self.identity.first == records.wrapping_sub(1)
            && times.contains(&self.first_time_ms)
            && times.contains(&self.last_time_ms)
            && self.entries.iter().all(inside)
            && self.entries.windows(2).all(ascend)
    }

    /// The last entry at or before `sequence`.
    pub fn start(&self, sequence: u64) -> Option<IndexEntry> {
        let behind = |entry: &IndexEntry| entry.sequence <= sequence;
        self.entries[..self.entries.partition_point(behind)].last().copied()
    }
}

fn decode_kinds(bytes: &[u8]) -> Option<BTreeMap<u8, u32>> {
    let mut kinds = BTreeMap::new();
    for bytes in bytes.chunks_exact(KIND_BYTES) {
        let (kind, records) = (u8::try_from(u32_at(bytes, 0)).ok()?, u32_at(bytes, 4));
        let ascends = kinds.last_key_value().is_none_or(|(last, _)| *last < kind);
        if !ascends || records == 0 {
            return None;
        }
        kinds.insert(kind, records);
    }
    Some(kinds)
}

fn decode_entry(bytes: &[u8]) -> Option<IndexEntry> {
    let offset = usize::try_from(u64_at(bytes, 8)).ok()?;
    Some(IndexEntry { sequence: u64_at(bytes, 0), offset, before_ms: u64_at(bytes, 16) })
}

fn check(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// Builds an index as records are appended.
#[derive(Clone, Debug)]
pub(crate) struct IndexBuilder {
    index: SegmentIndex,
    /// Bytes between entries.
    every: usize,
    /// Offset of the first record.
    begins: usize,
    /// Whether the records have consecutive sequences.
    whole: bool,
}

impl IndexBuilder {
    pub fn new(identity: SegmentId, every: usize) -> Self {
        let index = SegmentIndex {
            identity,
            last: identity.first - 1,
            last_offset: 0,
            first_time_ms: 0,
            last_time_ms: 0,
            min_time_ms: u64::MAX,
            max_time_ms: 0,
            kinds: BTreeMap::new(),
            entries: Vec::new(),
        };
        Self { index, every, begins: 0, whole: true }
    }

    pub fn add(&mut self, offset: usize, sequence: u64, kind: u8, time_ms: u64) {
        let index = &mut self.index;
        self.whole &= sequence == index.last + 1;
        if index.kinds.is_empty() {
            (index.first_time_ms, self.begins) = (time_ms, offset);
        } else {
            let last = index.entries.last().map_or(self.begins, |entry| entry.offset);
            if offset - last >= self.every {
                index.entries.push(IndexEntry { sequence, offset, before_ms: index.max_time_ms });
            }
        }
        if index.entries.len() > INDEX_ENTRIES_MAX {
            // Every other entry is enough for a longer segment.
            let mut kept = false;
            index.entries.retain(|_| {
                kept = !kept;
                kept
            });
            self.every = self.every.saturating_mul(2);
        }
        *index.kinds.entry(kind).or_default() += 1;
        (index.last, index.last_offset, index.last_time_ms) = (sequence, offset, time_ms);
        index.min_time_ms = index.min_time_ms.min(time_ms);
        index.max_time_ms = index.max_time_ms.max(time_ms);
    }

    /// Time of the first record and the latest time. None without records.
    pub fn times(&self) -> Option<(u64, u64)> {
        let SegmentIndex { first_time_ms, max_time_ms, kinds, .. } = &self.index;
        (!kinds.is_empty()).then_some((*first_time_ms, *max_time_ms))
    }

    /// The finished index. None if there are no records, or some are missing.
    pub fn finish(self) -> Option<SegmentIndex> {
        (self.whole && !self.index.kinds.is_empty()).then_some(self.index)
    }
}

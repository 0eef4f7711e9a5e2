//! The format of a segment: a header, then records, and behind the last one a summary of all. Pure;
//! the bytes may be anything.
//!
//! All integers are little-endian.
//!
//! | at | bytes | header of the segment |
//! |---|---|---|
//! | 0 | 8 | magic, with the format's version |
//! | 8 | 4 | number of the segment, counting up |
//! | 12 | 8 | newest purge when it began |
//! | 20 | 4 | random number |
//! | 24 | 4 | CRC32C of the bytes before |
//!
//! | at | bytes | header of a record |
//! |---|---|---|
//! | 0 | 1 | kind |
//! | 1 | 4 | bytes of payload |
//! | 5 | 8 | hash of the key |
//! | 13 | 8 | number of the purge; of a resource, the newest purge that it has been through |
//! | 21 | 4 | CRC32C of the payload |
//! | 25 | 4 | CRC32C of the segment's number and random number, the record's place, and the bytes before |
//!
//! | kind | payload |
//! |---|---|
//! | 1: resource | the key and its responses, as `cache-core` encodes them |
//! | 2: removal | none: earlier resources of the hash are void |
//! | 3: purge | its scope and effect |
//! | 4: summary | 25 bytes for each record before: kind, hash, number of a purge, place, bytes of payload |
//!
//! The last 16 bytes of a complete segment are the magic, the place of the summary, and the CRC32C of
//! the random number and both. Checks are against accidents. The random number keeps clients, who choose
//! payloads, from writing what looks like a record.

use std::ops::Range;

/// Bytes before the first record.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 28;
/// Bytes of a record before its payload.
pub(crate) const RECORD_HEADER_BYTES: usize = 29;
/// Bytes of a record in the summary.
pub(crate) const SUMMARY_LINE_BYTES: usize = 25;
/// Bytes behind the summary.
pub(crate) const TRAILER_BYTES: usize = 16;
/// The largest segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 256 << 20;

const MAGIC: [u8; 8] = *b"vkcache1";
const SUFFIX: &str = ".cache-segment";

/// Name of a segment's file. Names sort in the order of the segments.
pub(crate) fn file_name(segment: u32) -> String {
    format!("{segment:010}{SUFFIX}")
}

/// None if it is no segment's.
pub(crate) fn segment_of(name: &str) -> Option<u32> {
    let segment = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (file_name(segment) == name && segment < u32::MAX).then_some(segment)
}

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskSegmentHeader {
    pub segment: u32,
    /// The newest purge when it began: its resources have been through it.
    pub purged_through: u64,
    /// Drawn when it began.
    pub nonce: u32,
}

impl DiskSegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.segment.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.purged_through.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.nonce.to_le_bytes());
        seal(&mut bytes, 0);
        bytes
    }

    /// None if it is damaged, or of another version.
    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Option<Self> {
        is_sealed(bytes, 0).then_some(())?;
        (bytes[..8] == MAGIC).then(|| Self {
            segment: u32::from_le_bytes(field(bytes, 8..12)),
            purged_through: u64::from_le_bytes(field(bytes, 12..20)),
            nonce: u32::from_le_bytes(field(bytes, 20..24)),
        })
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DiskRecordKind {
    Resource = 1,
    Removal,
    Purge,
    Summary,
}

impl DiskRecordKind {
    const ALL: [Self; 4] = [Self::Resource, Self::Removal, Self::Purge, Self::Summary];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSubject {
    pub kind: DiskRecordKind,
    /// Of the key. 0 if it is of no key.
    pub hash: u64,
    /// Of the purge; of a resource, the newest that it has been through. Else 0.
    pub purge: u64,
}

/// A record without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub subject: RecordSubject,
    /// Of payload.
    pub bytes: u32,
    /// Of the payload.
    pub check: u32,
}

impl RecordHeader {
    pub(crate) fn encode(self, place: RecordPlace) -> [u8; RECORD_HEADER_BYTES] {
        let Self { subject: RecordSubject { kind, hash, purge }, .. } = self;
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[0] = kind as u8;
        bytes[1..5].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[5..13].copy_from_slice(&hash.to_le_bytes());
        bytes[13..21].copy_from_slice(&purge.to_le_bytes());
        bytes[21..25].copy_from_slice(&self.check.to_le_bytes());
        seal(&mut bytes, place.check());
        bytes
    }

    /// None if there is no record at this place.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER_BYTES], place: RecordPlace) -> Option<Self> {
        is_sealed(bytes, place.check()).then_some(())?;
        let subject = RecordSubject {
            kind: DiskRecordKind::of(bytes[0])?,
            hash: u64::from_le_bytes(field(bytes, 5..13)),
            purge: u64::from_le_bytes(field(bytes, 13..21)),
        };
        Some(Self {
            subject,
            bytes: u32::from_le_bytes(field(bytes, 1..5)),
            check: u32::from_le_bytes(field(bytes, 21..25)),
        })
    }
}

/// Where a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub segment: u32,
    /// Of the segment.
    pub nonce: u32,
    /// In the file.
    pub offset: u32,
}

impl RecordPlace {
    fn check(self) -> u32 {
        let Self { segment, nonce, offset } = self;
        [segment, nonce, offset]
            .iter()
            .fold(0, |check, part| crc32c::crc32c_append(check, &part.to_le_bytes()))
    }
}

/// A record, as the summary and the index know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SummaryLine {
    pub subject: RecordSubject,
    pub offset: u32,
    pub bytes: u32,
}

/// The summary's payload.
pub(crate) fn encode_summary(lines: &[SummaryLine]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.len() * SUMMARY_LINE_BYTES);
    for line in lines {
        bytes.push(line.subject.kind as u8);
        bytes.extend_from_slice(&line.subject.hash.to_le_bytes());
        bytes.extend_from_slice(&line.subject.purge.to_le_bytes());
        bytes.extend_from_slice(&line.offset.to_le_bytes());
        bytes.extend_from_slice(&line.bytes.to_le_bytes());
    }
    bytes
}

/// None if it is no summary.
pub(crate) fn decode_summary(bytes: &[u8]) -> Option<Vec<SummaryLine>> {
    let (lines, []) = bytes.as_chunks::<SUMMARY_LINE_BYTES>() else { return None };
    let line = |line: &[u8; SUMMARY_LINE_BYTES]| {
        let subject = RecordSubject {
            kind: DiskRecordKind::of(line[0])?,
            hash: u64::from_le_bytes(field(line, 1..9)),
            purge: u64::from_le_bytes(field(line, 9..17)),
        };
        let (offset, bytes) = (field(line, 17..21), field(line, 21..25));
        let (offset, bytes) = (u32::from_le_bytes(offset), u32::from_le_bytes(bytes));
        Some(SummaryLine { subject, offset, bytes })
    };
    lines.iter().map(line).collect()
}

/// The last bytes of a complete segment.
pub(crate) fn encode_trailer(nonce: u32, summary_at: u32) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&summary_at.to_le_bytes());
    seal(&mut bytes, nonce);
    bytes
}

/// Where the summary is. None if these are no trailer.
pub(crate) fn decode_trailer(nonce: u32, bytes: &[u8; TRAILER_BYTES]) -> Option<u32> {
    (bytes[..8] == MAGIC && is_sealed(bytes, nonce))
        .then(|| u32::from_le_bytes(field(bytes, 8..12)))
}

/// Writes the check of all bytes before the last four into those.
fn seal(bytes: &mut [u8], seed: u32) {
    let (content, check) = bytes.split_at_mut(bytes.len() - 4);
    check.copy_from_slice(&crc32c::crc32c_append(seed, content).to_le_bytes());
}

fn is_sealed(bytes: &[u8], seed: u32) -> bool {
    let (content, check) = bytes.split_at(bytes.len() - 4);
    crc32c::crc32c_append(seed, content).to_le_bytes() == *check
}

fn field<const N: usize>(bytes: &[u8], range: Range<usize>) -> [u8; N] {
    bytes[range].try_into().expect("the range has this length")
}

#[cfg(test)]
mod tests;

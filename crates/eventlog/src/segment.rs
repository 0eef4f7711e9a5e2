//! The format of a segment: a header, then frames. Pure; the bytes may be anything. `scan` finds
//! the frames in them.
//!
//! All integers are little-endian. The first 44 bytes keep their layout in every version; version 2
//! has no more of a header:
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC32C of the other bytes before 44 |
//! | 16 | 8 | epoch |
//! | 24 | 8 | sequence of the first record |
//! | 32 | 8 | lowest sequence that was still wanted when the segment began |
//! | 40 | 4 | node that wrote it |
//! | 44 | 8 | records in the chain before this segment, see `chain` |
//! | 52 | 32 | hash of the segment before, up to the end of its last record; zeros where the chain begins |
//! | 84 | 4 | CRC32C of bytes 44 to 84, begun from that of the 44 before |
//!
//! Frames begin at multiples of 4, padded with zeros:
//!
//! | at | bytes | frame |
//! |---|---|---|
//! | 0 | 8 | sequence, from 1 |
//! | 8 | 4 | bytes of payload |
//! | 12 | 4 | by how much the sequence is ahead of the last that was durable when it was appended |
//! | 16 | 8 | time, in Unix milliseconds, as its owner gave it: it orders nothing |
//! | 24 | 4 | kind, and three zeros |
//! | 28 | 4 | CRC32C of the payload, begun from that of the header's other fields |
//! | 32 | 4 | CRC32C of node, epoch, first sequence, place in the file, and bytes 0 to 32 |
//! | 36 | n | payload |
//!
//! The frame header's own check lets a reader step over a damaged payload and know what it lost,
//! and finds the next frame after damage in one pass. Place and identity are in it, so that a copy of
//! a frame within a payload is not taken for one. Checks are against accidents; they do not
//! authenticate.

use std::ops::Range;

use crate::chain::{ChainHash, ChainPoint, HASH_BYTES};

/// Bytes before the first frame.
pub const HEADER_BYTES: usize = HEADER_BYTES_MIN + LINK_BYTES;
/// Bytes before the first frame in version 2, which has no chain.
pub(crate) const HEADER_BYTES_MIN: usize = 44;
/// The link to the previous segment: records, hash, check.
const LINK_BYTES: usize = 8 + HASH_BYTES + 4;
/// Bytes of a frame before its payload.
pub const FRAME_BYTES: usize = 36;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The longest segment; a longer file is not read.
pub const SEGMENT_BYTES_LIMIT: u64 = 1 << 30;
/// The most records of a segment.
pub const SEGMENT_RECORDS_MAX: u64 = SEGMENT_BYTES_LIMIT / FRAME_BYTES as u64;
/// The highest sequence and epoch; a higher number is damage.
pub const SEQUENCE_MAX: u64 = u64::MAX >> 1;
/// The version that is written.
pub const FORMAT_VERSION: u32 = 3;
/// The oldest version that is read. It has no chain.
const UNCHAINED_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"vkrylog\n";
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 4;
const SUFFIX: &str = ".segment";
const INDEX_SUFFIX: &str = ".index";

const _: () = assert!(
    FRAME_BYTES.is_multiple_of(ALIGN)
        && HEADER_BYTES.is_multiple_of(ALIGN)
        && HEADER_BYTES_MIN.is_multiple_of(ALIGN)
);
const _: () =
    assert!((PAYLOAD_BYTES_MAX as u64) < SEGMENT_BYTES_LIMIT / 2, "a frame fits a segment");

/// Identifies a segment. Its file name contains it too, so that a damaged header loses nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId {
    /// Increases with every start of a writer and every failed commit.
    pub epoch: u64,
    /// Sequence of its first record.
    pub first: u64,
    /// The node that wrote it. A directory belongs to one node.
    pub node: u32,
}

impl SegmentId {
    /// Name of the file. Names sort in the order of the segments.
    pub fn file_name(self) -> String {
        self.name(SUFFIX)
    }

    /// Name of its index file.
    pub fn index_name(self) -> String {
        self.name(INDEX_SUFFIX)
    }

    fn name(self, suffix: &str) -> String {
        format!("{:010}-{:020}-{:010}{suffix}", self.epoch, self.first, self.node)
    }

    /// Parses the name of a file. None if it is not a segment's.
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::from_name(name, SUFFIX)
    }

    /// Parses the name of an index file. None if it is not one.
    pub(crate) fn from_index_name(name: &str) -> Option<Self> {
        Self::from_name(name, INDEX_SUFFIX)
    }

    fn from_name(name: &str, suffix: &str) -> Option<Self> {
        let mut fields = name.strip_suffix(suffix)?.splitn(3, '-');
        let mut digits =
            || fields.next().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let (epoch, first, node) = (digits()?, digits()?, digits()?);
        let identity = Self {
            epoch: epoch.parse().ok()?,
            first: first.parse().ok()?,
            node: node.parse().ok()?,
        };
        let is_in_range =
            identity.epoch <= SEQUENCE_MAX && (1..=SEQUENCE_MAX).contains(&identity.first);
        (is_in_range && identity.name(suffix) == name).then_some(identity)
    }

    /// Start of the checks of its frames.
    fn check_at(self, offset: usize) -> u32 {
        let mut place = [0; 28];
        place[..4].copy_from_slice(&self.node.to_le_bytes());
        place[4..12].copy_from_slice(&self.epoch.to_le_bytes());
        place[12..20].copy_from_slice(&self.first.to_le_bytes());
        place[20..].copy_from_slice(&(offset as u64).to_le_bytes());
        crc32c::crc32c(&place)
    }
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Sound, and of the expected segment.
    Good {
        /// Records below were not wanted when it was written.
        keep_from: u64,
        /// The chain before its first record. None in a segment of version 2.
        before: Option<ChainPoint>,
    },
    /// Sound, of an unknown version.
    Version(u32),
    /// Anything else.
    Damaged,
}

/// The header of a segment. Records below `keep_from` are not wanted any more; the chain has come
/// to `before`.
pub fn encode_header(
    identity: SegmentId,
    keep_from: u64,
    before: &ChainPoint,
) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let first = encode_version(identity, keep_from, FORMAT_VERSION);
    header[..HEADER_BYTES_MIN].copy_from_slice(&first);
    header[44..52].copy_from_slice(&before.records.to_le_bytes());
    header[52..84].copy_from_slice(&before.hash.0);
    let check = crc32c::crc32c_append(crc32c::crc32c(&first), &header[44..84]);
    header[84..].copy_from_slice(&check.to_le_bytes());
    header
}

/// The header of a segment without a chain, as an earlier release wrote it.
#[cfg(any(test, feature = "testing"))]
pub fn encode_unlinked_header(identity: SegmentId, keep_from: u64) -> [u8; HEADER_BYTES_MIN] {
    encode_version(identity, keep_from, UNCHAINED_VERSION)
}

/// The part that all versions have in common.
pub(crate) fn encode_version(
    identity: SegmentId,
    keep_from: u64,
    version: u32,
) -> [u8; HEADER_BYTES_MIN] {
    let mut header = [0; HEADER_BYTES_MIN];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&identity.epoch.to_le_bytes());
    header[24..32].copy_from_slice(&identity.first.to_le_bytes());
    header[32..40].copy_from_slice(&keep_from.to_le_bytes());
    header[40..].copy_from_slice(&identity.node.to_le_bytes());
    let check = header_check(&header);
    header[12..16].copy_from_slice(&check.to_le_bytes());
    header
}

fn header_check(header: &[u8; HEADER_BYTES_MIN]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..])
}

/// Reads the header of a segment from its first [`HEADER_BYTES`], or all of a shorter file.
pub(crate) fn read_header(bytes: &[u8], identity: SegmentId) -> Header {
    let Some(first) = bytes.first_chunk::<HEADER_BYTES_MIN>() else { return Header::Damaged };
    let version = u32_at(first, 8);
    let sound = first[..8] == MAGIC && u32_at(first, 12) == header_check(first);
    let keep_from = u64_at(first, 32);
    let is_own = *first == encode_version(identity, keep_from, version);
    match version {
        _ if !sound => Header::Damaged,
        UNCHAINED_VERSION if is_own => Header::Good { keep_from, before: None },
        FORMAT_VERSION if is_own => match read_link(bytes) {
            before @ Some(_) => Header::Good { keep_from, before },
            None => Header::Damaged,
        },
        UNCHAINED_VERSION | FORMAT_VERSION => Header::Damaged,
        other => Header::Version(other),
    }
}

fn read_link(bytes: &[u8]) -> Option<ChainPoint> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let check = crc32c::crc32c(&header[..84]);
    let hash = *header[52..].first_chunk().expect("a header is that long");
    (check == u32_at(header, 84))
        .then(|| ChainPoint { records: u64_at(header, 44), hash: ChainHash(hash) })
}

/// A sound header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Records below were not wanted when the segment began.
    pub keep_from: u64,
    /// The chain before its first record. None in a segment of version 2.
    pub before: Option<ChainPoint>,
}

impl SegmentHeader {
    /// Reads it from the first [`HEADER_BYTES`] of a segment, or all of a shorter file. None if the
    /// header is damaged or of a later version.
    pub fn read(bytes: &[u8], identity: SegmentId) -> Option<Self> {
        match read_header(bytes, identity) {
            Header::Good { keep_from, before } => Some(Self { keep_from, before }),
            Header::Damaged | Header::Version(_) => None,
        }
    }

    /// Offset of the first frame.
    pub const fn frames_at(&self) -> usize {
        match self.before {
            Some(_) => HEADER_BYTES,
            None => HEADER_BYTES_MIN,
        }
    }
}

/// Offset of the first frame of a segment, from its first [`HEADER_BYTES`] or all of a shorter
/// file. If the header is damaged, a sound frame at the offset of version 2 shows that it was of
/// that version.
pub fn frames_at(bytes: &[u8], identity: SegmentId) -> usize {
    match read_header(bytes, identity) {
        Header::Good { before: None, .. } => HEADER_BYTES_MIN,
        Header::Good { .. } | Header::Version(_) => HEADER_BYTES,
        Header::Damaged => {
            let at = HEADER_BYTES_MIN;
            let frame = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            // The scan checks whether it fits.
            let longest = at + FRAME_BYTES + PAYLOAD_BYTES_MAX;
            match frame.and_then(|frame| decode_frame(identity, at, longest, frame)) {
                Some(_) => HEADER_BYTES_MIN,
                None => HEADER_BYTES,
            }
        }
    }
}

/// A record in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFrame {
    /// Offset in the file.
    pub offset: usize,
    /// Sequence of the record.
    pub sequence: u64,
    /// Every sequence up to here was durable when it was appended.
    pub durable: u64,
    /// Unix milliseconds, given by the caller.
    pub time_ms: u64,
    /// Kind, given by the caller.
    pub kind: u8,
    /// Where its payload is in the file.
    pub payload: Range<usize>,
}

/// What a frame says besides its payload.
#[derive(Clone, Copy, Debug)]
pub struct FrameFields {
    /// Offset in the file.
    pub offset: usize,
    /// Sequence of the record.
    pub sequence: u64,
    /// The last durable sequence before it.
    pub durable: u64,
    /// Unix milliseconds, given by the caller.
    pub time_ms: u64,
    /// Kind, given by the caller.
    pub kind: u8,
}

/// Appends a frame, which will be at `frame.offset` of its segment.
pub fn encode_frame(out: &mut Vec<u8>, identity: SegmentId, frame: &FrameFields, payload: &[u8]) {
    let FrameFields { offset, sequence, durable, time_ms, kind } = *frame;
    let length = u32::try_from(payload.len()).expect("a payload is at most a MiB");
    let ahead = u32::try_from(sequence - durable).expect("a batch has fewer records than 2^32");
    let mut header = [0; FRAME_BYTES];
    header[..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..12].copy_from_slice(&length.to_le_bytes());
    header[12..16].copy_from_slice(&ahead.to_le_bytes());
    header[16..24].copy_from_slice(&time_ms.to_le_bytes());
    header[24] = kind;
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), payload);
    header[28..32].copy_from_slice(&check.to_le_bytes());
    let check = crc32c::crc32c_append(identity.check_at(offset), &header[..32]);
    header[32..].copy_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// Decodes the frame header at `offset` of a segment of `length` bytes. None if it is unsound or
/// the frame does not fit. The payload is not checked.
pub(crate) fn decode_frame(
    identity: SegmentId,
    offset: usize,
    length: usize,
    header: &[u8; FRAME_BYTES],
) -> Option<LogFrame> {
    let check = crc32c::crc32c_append(identity.check_at(offset), &header[..32]);
    if check != u32_at(header, 32) {
        return None;
    }
    let sequence = u64_at(header, 0);
    let durable = sequence.checked_sub(u64::from(u32_at(header, 12)))?;
    let bytes = usize::try_from(u32_at(header, 8)).ok()?;
    let payload = offset + FRAME_BYTES..(offset + FRAME_BYTES).checked_add(bytes)?;
    let fits = bytes <= PAYLOAD_BYTES_MAX && payload.end <= length;
    let clean = header[25..28] == [0; 3] && durable < sequence;
    let (time_ms, kind) = (u64_at(header, 16), header[24]);
    (fits && clean).then_some(LogFrame { offset, sequence, durable, time_ms, kind, payload })
}

pub(crate) fn payload_is_sound(header: &[u8; FRAME_BYTES], payload: &[u8]) -> bool {
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), payload);
    check == u32_at(header, 28)
}

/// Offset of the frame that follows one ending here.
pub const fn aligned(end: usize) -> usize {
    end.next_multiple_of(ALIGN)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

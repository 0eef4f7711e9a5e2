//! What stands in a segment: a header, then frames. Pure; the bytes may be anything. How frames
//! are found among them is `scan`'s.
//!
//! All integers are little-endian. The first [`HEADER_BYTES`] keep their layout in every version:
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC32C of the other 40 bytes |
//! | 16 | 8 | epoch |
//! | 24 | 8 | sequence of the first record |
//! | 32 | 8 | lowest sequence that was still wanted when the segment began |
//! | 40 | 4 | node that wrote it |
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

use crate::bug::{Bug, planted};

/// Bytes before the first frame.
pub const HEADER_BYTES: usize = 44;
/// Bytes of a frame before its payload.
pub const FRAME_BYTES: usize = 36;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// No segment is longer; a longer file is not read.
pub const SEGMENT_BYTES_LIMIT: u64 = 1 << 30;
/// The version that is written, and the only one that is read.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"vkrylog\n";
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 4;
const SUFFIX: &str = ".segment";
const INDEX_SUFFIX: &str = ".index";

const _: () = assert!(FRAME_BYTES.is_multiple_of(ALIGN) && HEADER_BYTES.is_multiple_of(ALIGN));
const _: () =
    assert!((PAYLOAD_BYTES_MAX as u64) < SEGMENT_BYTES_LIMIT / 2, "a frame fits a segment");

/// Which segment it is. Its file name says so too, so that a damaged header loses nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Grows with every start of a writer and every failed commit.
    pub epoch: u64,
    /// Sequence of its first record.
    pub first: u64,
    /// Which node of a cluster wrote it. A directory is one node's.
    pub node: u32,
}

impl Identity {
    /// Name of the file. Names sort as the segments follow each other.
    pub fn file_name(self) -> String {
        self.name(SUFFIX)
    }

    /// Name of the file that holds its index.
    pub fn index_name(self) -> String {
        self.name(INDEX_SUFFIX)
    }

    fn name(self, suffix: &str) -> String {
        format!("{:010}-{:020}-{:010}{suffix}", self.epoch, self.first, self.node)
    }

    /// From the name of a file; `None` when it is no segment's.
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::from_name(name, SUFFIX)
    }

    /// From the name of an index; `None` when it is none's.
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
        (identity.first > 0 && identity.name(suffix) == name).then_some(identity)
    }

    /// Beginning of the checks of its frames.
    fn check_at(self, offset: usize) -> u32 {
        let mut place = [0; 28];
        place[..4].copy_from_slice(&self.node.to_le_bytes());
        place[4..12].copy_from_slice(&self.epoch.to_le_bytes());
        place[12..20].copy_from_slice(&self.first.to_le_bytes());
        place[20..].copy_from_slice(&(offset as u64).to_le_bytes());
        crc32c::crc32c(&place)
    }
}

/// What the beginning of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// That of the segment that its name says.
    Good {
        /// Records below were not wanted any more.
        keep_from: u64,
    },
    /// Sound, and of a version that is not known here.
    Version(u32),
    /// Anything else.
    Damaged,
}

/// The header of a segment, begun when records below `keep_from` were not wanted any more.
pub fn encode_header(identity: Identity, keep_from: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&identity.epoch.to_le_bytes());
    header[24..32].copy_from_slice(&identity.first.to_le_bytes());
    header[32..40].copy_from_slice(&keep_from.to_le_bytes());
    header[40..].copy_from_slice(&identity.node.to_le_bytes());
    let check = header_check(&header);
    header[12..16].copy_from_slice(&check.to_le_bytes());
    header
}

fn header_check(header: &[u8; HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..])
}

pub(crate) fn read_header(bytes: &[u8], identity: Identity) -> Header {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Header::Damaged };
    let version = u32_at(header, 8);
    let sound = header[..8] == MAGIC && u32_at(header, 12) == header_check(header);
    let keep_from = u64_at(header, 32);
    match version {
        _ if !sound => Header::Damaged,
        FORMAT_VERSION if *header == encode_header(identity, keep_from) => {
            Header::Good { keep_from }
        }
        FORMAT_VERSION => Header::Damaged,
        other => Header::Version(other),
    }
}

/// A record as it stands in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins in the file.
    pub offset: usize,
    /// Its number.
    pub sequence: u64,
    /// Every sequence up to here was durable when it was appended.
    pub durable: u64,
    /// Unix milliseconds, as the owner gave it.
    pub time_ms: u64,
    /// The owner's.
    pub kind: u8,
    /// Where its payload stands.
    pub payload: Range<usize>,
}

/// Appends a frame that will stand at `offset` of its segment. `durable` is the last sequence
/// that was durable before it.
pub fn encode_frame(
    out: &mut Vec<u8>,
    (identity, offset): (Identity, usize),
    (sequence, durable): (u64, u64),
    (kind, time_ms): (u8, u64),
    payload: &[u8],
) {
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

/// The frame whose header stands at `offset` of a segment of `length` bytes, when that header is
/// sound and the frame fits. Of its payload nothing is known yet.
pub(crate) fn decode_frame(
    (identity, offset): (Identity, usize),
    length: usize,
    header: &[u8; FRAME_BYTES],
) -> Option<Frame> {
    let check = crc32c::crc32c_append(identity.check_at(offset), &header[..32]);
    if check != u32_at(header, 32) && !planted(Bug::SkipCheck) {
        return None;
    }
    let sequence = u64_at(header, 0);
    let durable = sequence.checked_sub(u64::from(u32_at(header, 12)))?;
    let bytes = usize::try_from(u32_at(header, 8)).ok()?;
    let payload = offset + FRAME_BYTES..(offset + FRAME_BYTES).checked_add(bytes)?;
    let fits = bytes <= PAYLOAD_BYTES_MAX && payload.end <= length;
    let clean = header[25..28] == [0; 3] && durable < sequence;
    let (time_ms, kind) = (u64_at(header, 16), header[24]);
    (fits && clean).then_some(Frame { offset, sequence, durable, time_ms, kind, payload })
}

pub(crate) fn payload_is_sound(header: &[u8; FRAME_BYTES], payload: &[u8]) -> bool {
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[..28]), payload);
    check == u32_at(header, 28) || planted(Bug::SkipCheck)
}

pub(crate) const fn aligned(end: usize) -> usize {
    end.next_multiple_of(ALIGN)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

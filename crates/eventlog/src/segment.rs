//! What stands in a segment: a header, then frames. Pure; the bytes may be anything.
//!
//! All integers are little-endian. The first [`HEADER_BYTES`] keep their layout in every version:
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC32C of the other 36 bytes |
//! | 16 | 8 | epoch |
//! | 24 | 8 | sequence of the first record |
//! | 32 | 8 | lowest sequence that was still wanted when the segment began |
//!
//! Frames begin at multiples of 4, padded with zeros:
//!
//! | at | bytes | frame |
//! |---|---|---|
//! | 0 | 8 | sequence, from 1 |
//! | 8 | 4 | bytes of payload |
//! | 12 | 4 | by how much the sequence is ahead of the last that was durable when it was appended |
//! | 16 | 4 | kind, and three zeros |
//! | 20 | 4 | CRC32C of the payload, begun from that of the header's other fields |
//! | 24 | 4 | CRC32C of epoch, first sequence, place in the file, and bytes 0 to 24 |
//! | 28 | n | payload |
//!
//! The header's own check lets a reader step over a damaged payload and know what it lost, and
//! finds the next frame after damage in one pass. Place and identity are in it, so that a copy of
//! a frame within a payload is not taken for one. Checks are against accidents; they do not
//! authenticate.

use std::ops::Range;

use crate::bug::{Bug, planted};

/// Bytes before the first frame.
pub const HEADER_BYTES: usize = 40;
/// Bytes of a frame before its payload.
pub const FRAME_BYTES: usize = 28;
/// The longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// No segment is longer; a longer file is not read.
pub const SEGMENT_BYTES_LIMIT: u64 = 1 << 30;
/// The version that is written, and the only one that is read.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"vkrylog\n";
const ALIGN: usize = 4;
const SUFFIX: &str = ".segment";

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
}

impl Identity {
    /// Name of the file.
    pub fn file_name(self) -> String {
        format!("{:010}-{:020}{SUFFIX}", self.epoch, self.first)
    }

    /// From the name of a file; `None` when it is no segment's.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (epoch, first) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let known = digits(epoch) && digits(first);
        let identity = Self { epoch: epoch.parse().ok()?, first: first.parse().ok()? };
        (known && identity.first > 0 && identity.file_name() == name).then_some(identity)
    }

    /// Beginning of the checks of its frames.
    fn check_at(self, offset: usize) -> u32 {
        let check = crc32c::crc32c(&self.epoch.to_le_bytes());
        let check = crc32c::crc32c_append(check, &self.first.to_le_bytes());
        crc32c::crc32c_append(check, &(offset as u64).to_le_bytes())
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
    header[32..].copy_from_slice(&keep_from.to_le_bytes());
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
    kind: u8,
    payload: &[u8],
) {
    let length = u32::try_from(payload.len()).expect("a payload is at most a MiB");
    let ahead = u32::try_from(sequence - durable).expect("a batch has fewer records than 2^32");
    let mut header = [0; FRAME_BYTES];
    header[..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..12].copy_from_slice(&length.to_le_bytes());
    header[12..16].copy_from_slice(&ahead.to_le_bytes());
    header[16] = kind;
    let check = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), payload);
    header[20..24].copy_from_slice(&check.to_le_bytes());
    let check = crc32c::crc32c_append(identity.check_at(offset), &header[..24]);
    header[24..].copy_from_slice(&check.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

/// What a scan comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A sound record.
    Record(Frame),
    /// A record that is what its header says, but for its payload.
    BadPayload {
        /// The bytes it takes.
        bytes: Range<usize>,
        /// Which record is lost.
        sequence: u64,
    },
    /// Bytes that are no frame.
    Garbage {
        /// Which.
        bytes: Range<usize>,
    },
}

/// Walks the frames of a segment: linear in its length whatever it holds.
#[derive(Clone, Debug)]
pub struct Scan {
    identity: Identity,
    position: usize,
    /// Last sequence that was told by a sound header.
    last: u64,
    /// Where `last` ended.
    last_end: usize,
}

impl Scan {
    /// Over the frames of a segment.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            position: HEADER_BYTES,
            last: identity.first.saturating_sub(1),
            last_end: HEADER_BYTES,
        }
    }

    /// The next thing in `bytes`, which is the whole segment at each call.
    pub fn next(&mut self, bytes: &[u8]) -> Option<Found> {
        if self.position >= bytes.len() {
            return None;
        }
        let start = self.position;
        loop {
            if let Some(frame) = self.frame_at(bytes, self.position) {
                if self.position > start {
                    return Some(Found::Garbage { bytes: start..self.position });
                }
                return Some(self.step_over(bytes, frame));
            }
            self.position += ALIGN;
            if self.position >= bytes.len() {
                self.position = bytes.len();
                return Some(Found::Garbage { bytes: start..bytes.len() });
            }
        }
    }

    fn step_over(&mut self, bytes: &[u8], frame: Frame) -> Found {
        let end = frame.payload.end.next_multiple_of(ALIGN).min(bytes.len());
        (self.position, self.last_end, self.last) = (end, end, frame.sequence);
        let header = &bytes[frame.offset..frame.offset + FRAME_BYTES];
        let check = crc32c::crc32c(&header[..20]);
        let check = crc32c::crc32c_append(check, &bytes[frame.payload.clone()]);
        if check == u32_at(header, 20) || planted(Bug::SkipCheck) {
            Found::Record(frame)
        } else {
            Found::BadPayload { bytes: frame.offset..end, sequence: frame.sequence }
        }
    }

    /// The frame at `offset`, when its header is sound and it can stand there.
    fn frame_at(&self, bytes: &[u8], offset: usize) -> Option<Frame> {
        let header = bytes.get(offset..)?.first_chunk::<FRAME_BYTES>()?;
        let check = crc32c::crc32c_append(self.identity.check_at(offset), &header[..24]);
        if check != u32_at(header, 24) && !planted(Bug::SkipCheck) {
            return None;
        }
        let sequence = u64_at(header, 0);
        let durable = sequence.checked_sub(u64::from(u32_at(header, 12)))?;
        let length = usize::try_from(u32_at(header, 8)).ok()?;
        let payload = offset + FRAME_BYTES..offset + FRAME_BYTES + length;
        // As many records may be missing as could have stood in the bytes that were skipped.
        let skipped = (offset - self.last_end) / FRAME_BYTES;
        let ahead = sequence.checked_sub(self.last)?;
        let fits = length <= PAYLOAD_BYTES_MAX && payload.end <= bytes.len();
        let plausible = ahead >= 1 && ahead - 1 <= skipped as u64 && durable < sequence;
        let clean = header[17..20] == [0; 3];
        (fits && plausible && clean).then(|| Frame {
            offset,
            sequence,
            durable,
            kind: header[16],
            payload,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the field is within its header"))
}

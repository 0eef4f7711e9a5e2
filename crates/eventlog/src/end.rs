//! The file `end` beside the segments: how far the log reaches.
//!
//! Written when a segment begins, and at a clean stop, when it seals the log. It is replaced
//! atomically: written under another name, synced, renamed. What it states stays true, so anything
//! it states that is not found later is lost.
//!
//! All integers are little-endian:
//!
//! | at | bytes | end |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version |
//! | 12 | 4 | CRC32C of all other bytes |
//! | 16 | 8 | epoch of the newest segment |
//! | 24 | 8 | its first sequence |
//! | 32 | 4 | its node |
//! | 36 | 4 | 1: the log is sealed, 0: the segment has begun |
//! | 40 | 8 | last sequence of the log |
//! | 48 | 8 | records in its chain |
//! | 56 | 32 | hash of the last segment with records |
//! | 88 | 8 | when this was written, in Unix milliseconds; 0 if unknown |

use std::io;

use crate::chain::{ChainHash, ChainPoint};
use crate::disk::{Disk, DiskFile};
use crate::item::LogReadError;
use crate::segment::{SEGMENT_RECORDS_MAX, SEQUENCE_MAX, SegmentId, u32_at, u64_at};

/// Name of the file.
pub const END_NAME: &str = "end";
/// Temporary name of the file that replaces it.
const NEW_NAME: &str = "end.new";
/// Length of the file.
pub const END_BYTES: usize = 96;
/// The version that is written, and the only one that is read.
pub const END_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"vkryend\n";
/// A file up to this length may be of a later release.
const LATER_BYTES_MAX: usize = 1 << 16;

/// How far the log reached when its writer wrote this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The newest segment. If the log is sealed, the last one with records; otherwise a segment
    /// that has begun and may hold records by now.
    pub newest: SegmentId,
    /// Whether the log was stopped cleanly and holds everything that was durable.
    pub is_sealed: bool,
    /// Every sequence up to here was durable.
    pub last: u64,
    /// The chain behind `last`.
    pub chain: ChainPoint,
    /// When it was written, in Unix milliseconds; 0 if unknown.
    pub time_ms: u64,
}

/// What was found in place of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndFile {
    /// No file: an empty log, or one of an earlier release.
    Absent,
    /// The file is damaged.
    Damaged,
    /// The file system cannot read it.
    Unreadable(io::ErrorKind),
    /// A later release wrote it, in this version.
    Version(u32),
    /// How far the log reached when it was written.
    Sound(LogEnd),
}

impl EndFile {
    /// Reads the file. A reader reads it before it lists the segments, so every segment that it
    /// names is in the list. A missing file is [`Self::Absent`], not an error.
    pub fn read<D: Disk>(disk: &D) -> io::Result<Self> {
        let file = match disk.open(END_NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            file => file?,
        };
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if length > LATER_BYTES_MAX {
            return Ok(Self::Damaged);
        }
        let (mut bytes, mut done) = (vec![0; length], 0);
        while done < length {
            match file.read_at(done as u64, &mut bytes[done..])? {
                0 => return Ok(Self::Damaged),
                more => done += more,
            }
        }
        Ok(Self::decode(&bytes))
    }

    /// Decodes a file. Magic, version and check stand at the same places in every version.
    pub fn decode(bytes: &[u8]) -> Self {
        let is_sound =
            bytes.len() >= 16 && bytes[..8] == MAGIC && u32_at(bytes, 12) == check(bytes);
        match is_sound.then(|| u32_at(bytes, 8)) {
            None => Self::Damaged,
            Some(version) if version > END_VERSION => Self::Version(version),
            Some(_) => LogEnd::decode(bytes).map_or(Self::Damaged, Self::Sound),
        }
    }

    /// As [`Self::read`], and fails if a later release wrote the file. An unreadable file does not
    /// stop a reader of segments, and a writer replaces it.
    pub fn read_known<D: Disk>(disk: &D) -> Result<Self, LogReadError> {
        match Self::read(disk) {
            Ok(Self::Version(version)) => Err(LogReadError::Version {
                name: END_NAME.to_owned(),
                version,
                known: END_VERSION,
            }),
            Ok(file) => Ok(file),
            Err(error) => Ok(Self::Unreadable(error.kind())),
        }
    }

    /// The end of the log if the file belongs to `node`. With `node` None, of any node.
    pub fn of_node(self, node: Option<u32>) -> Option<LogEnd> {
        match self {
            Self::Sound(end) if node.is_none_or(|node| node == end.newest.node) => Some(end),
            Self::Sound(_)
            | Self::Damaged
            | Self::Unreadable(_)
            | Self::Version(_)
            | Self::Absent => None,
        }
    }
}

impl LogEnd {
    /// Encodes the file.
    pub fn encode(&self) -> [u8; END_BYTES] {
        let mut bytes = [0; END_BYTES];
        let Self { newest, is_sealed, last, chain, time_ms } = self;
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&END_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&newest.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&newest.first.to_le_bytes());
        bytes[32..36].copy_from_slice(&newest.node.to_le_bytes());
        bytes[36..40].copy_from_slice(&u32::from(*is_sealed).to_le_bytes());
        bytes[40..48].copy_from_slice(&last.to_le_bytes());
        bytes[48..56].copy_from_slice(&chain.records.to_le_bytes());
        bytes[56..88].copy_from_slice(&chain.hash.0);
        bytes[88..].copy_from_slice(&time_ms.to_le_bytes());
        let check = check(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes a file. None if it is damaged or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; END_BYTES] = bytes.try_into().ok()?;
        let is_sound = bytes[..8] == MAGIC && u32_at(bytes, 12) == check(bytes);
        if !is_sound || u32_at(bytes, 8) != END_VERSION {
            return None;
        }
        let (epoch, first, node) = (u64_at(bytes, 16), u64_at(bytes, 24), u32_at(bytes, 32));
        let hash = ChainHash(*bytes[56..].first_chunk()?);
        let end = Self {
            newest: SegmentId { epoch, first, node },
            is_sealed: u32_at(bytes, 36) == 1,
            last: u64_at(bytes, 40),
            chain: ChainPoint { records: u64_at(bytes, 48), hash },
            time_ms: u64_at(bytes, 88),
        };
        let may_be = end.last <= SEQUENCE_MAX
            && epoch <= SEQUENCE_MAX
            && end.chain.records <= end.last
            && first > 0
            && first - 1 <= end.last;
        may_be.then_some(end)
    }

    /// The last sequence that the newest segment may have used, if it had begun and is gone. The
    /// number of its records is unknown, so none of its sequences may be used again. None if the
    /// log is sealed, or if `newest`, the newest segment found, is that segment or a later one.
    pub fn lost_through(&self, newest: Option<SegmentId>) -> Option<u64> {
        let is_gone = !self.is_sealed && newest < Some(self.newest);
        is_gone.then(|| self.newest.first - 1 + SEGMENT_RECORDS_MAX)
    }

    /// Replaces the file durably. After an error the previous one may still be there.
    pub(crate) fn write<D: Disk>(&self, disk: &D) -> io::Result<()> {
        match disk.remove(NEW_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // An earlier attempt left one.
            Ok(()) | Err(_) => (),
        }
        let mut file = disk.create(NEW_NAME)?;
        file.write_at(0, &self.encode())?;
        file.sync_data()?;
        disk.replace(NEW_NAME, END_NAME)?;
        disk.sync_directory()
    }
}

/// Check of a file of any version.
fn check(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

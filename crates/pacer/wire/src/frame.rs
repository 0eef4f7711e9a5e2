//! One frame: its head, its checksum, and where it ends.

use strum::VariantArray;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of every frame.
pub const MAGIC: [u8; 2] = *b"VP";
/// The version that this package speaks.
pub const VERSION: u8 = 1;
/// Length of a head.
pub const HEAD_BYTES: usize = size_of::<FrameHead>();

/// Position of the checksum, which does not cover itself.
const CHECKSUM_AT: usize = HEAD_BYTES - 4;

/// The head of a frame.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FrameHead {
    /// [`MAGIC`].
    pub magic: [u8; 2],
    /// [`VERSION`].
    pub version: u8,
    /// A [`FrameKind`].
    pub kind: u8,
    /// Length of head and fixed part.
    pub head_len: u8,
    /// Length of an entry; zero without entries.
    pub block_len: u8,
    /// Number of entries.
    pub count: U16,
    /// Length of the whole frame.
    pub frame_len: U32,
    /// From a client: counts its frames from 1. From the server: the frame that this one answers,
    /// or 0.
    pub sequence: U64,
    /// CRC-32C of all other bytes of the frame.
    pub checksum: U32,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[repr(u8)]
pub enum FrameKind {
    /// The client's first frame.
    Hello = 1,
    /// The server's first frame.
    Welcome = 2,
    /// Bid requests, each with its candidates.
    Batch = 3,
    /// A decision for each request of a batch.
    Decisions = 4,
    /// Reservations that were won or lost.
    Settle = 5,
    /// The result of each settlement.
    Settled = 6,
    /// Campaigns that the client may name.
    Catalogue = 7,
    /// Shows that the sender lives.
    Heartbeat = 8,
    /// Why the server closes the connection. Its last frame.
    Error = 9,
}

impl FrameKind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|kind| *kind as u8 == number)
    }
}

/// Why bytes are not a frame, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another protocol.
    #[error("a frame begins with `VP`")]
    Magic,
    /// A version that was not agreed on.
    #[error("version {0} of the protocol: this side speaks {VERSION}")]
    Version(u8),
    /// Not a kind of this version.
    #[error("there is no frame of kind {0}")]
    Kind(u8),
    /// Beyond the limit.
    #[error("a frame of {length} bytes, at most {max} are accepted")]
    TooLong {
        /// The length in the head.
        length: u32,
        /// The limit.
        max: u32,
    },
    /// Lengths and counts contradict each other, or are too short for the kind.
    #[error("the lengths in the head do not describe a frame of this kind")]
    Length,
    /// Altered on the way.
    #[error("the checksum does not hold")]
    Checksum,
    /// The number of entries is zero, beyond the limit, or contradicts the tail.
    #[error("{0} entries are not allowed here")]
    Count(u16),
    /// A text is not UTF-8, or exceeds its frame.
    #[error("a text is not UTF-8")]
    Text,
}

/// A frame whose head and checksum hold. Its content is checked when it is decoded.
#[derive(Clone, Copy, Debug)]
pub struct RawFrame<'b> {
    /// The kind.
    pub kind: FrameKind,
    /// The head.
    pub head: &'b FrameHead,
    /// All its bytes.
    pub bytes: &'b [u8],
}

impl<'b> RawFrame<'b> {
    /// The frame at the start of `bytes`. None if more bytes must arrive first.
    ///
    /// # Errors
    /// As soon as the head shows it; [`FrameError::Checksum`] once the frame is complete.
    pub fn read(bytes: &'b [u8], bytes_max: u32) -> Result<Option<Self>, FrameError> {
        let Ok((head, _)) = FrameHead::ref_from_prefix(bytes) else {
            let matches = MAGIC.iter().zip(bytes).all(|(magic, byte)| magic == byte);
            return if matches { Ok(None) } else { Err(FrameError::Magic) };
        };
        if head.magic != MAGIC {
            return Err(FrameError::Magic);
        }
        if head.version != VERSION {
            return Err(FrameError::Version(head.version));
        }
        let kind = FrameKind::from_number(head.kind).ok_or(FrameError::Kind(head.kind))?;
        let (length, max) = (head.frame_len.get(), bytes_max);
        if length > max {
            return Err(FrameError::TooLong { length, max });
        }
        let length = usize::try_from(length).expect("addresses have 32 bits at least");
        if usize::from(head.head_len) < HEAD_BYTES || length < head.entries_end() {
            return Err(FrameError::Length);
        }
        let Some(bytes) = bytes.get(..length) else { return Ok(None) };
        if checksum(bytes) != head.checksum.get() {
            return Err(FrameError::Checksum);
        }
        Ok(Some(Self { kind, head, bytes }))
    }

    /// The fixed part of its kind.
    pub(crate) fn fixed<T: FromBytes + KnownLayout + Immutable + Unaligned>(
        &self,
    ) -> Result<&'b T, FrameError> {
        let fixed = &self.bytes[HEAD_BYTES..usize::from(self.head.head_len)];
        T::ref_from_prefix(fixed).map(|(fixed, _)| fixed).map_err(|_| FrameError::Length)
    }

    /// The bytes of all entries, each at least as long as a `T`.
    pub(crate) fn entries<T>(&self) -> Result<&'b [u8], FrameError> {
        if usize::from(self.head.block_len) < size_of::<T>() {
            return Err(FrameError::Length);
        }
        Ok(&self.bytes[usize::from(self.head.head_len)..self.head.entries_end()])
    }

    /// The bytes after the entries.
    pub(crate) fn tail(&self) -> &'b [u8] {
        &self.bytes[self.head.entries_end()..]
    }

    /// Its number of entries, if `allowed` includes it.
    pub(crate) fn count(&self, max: u16) -> Result<u16, FrameError> {
        let count = self.head.count.get();
        if count == 0 || count > max { Err(FrameError::Count(count)) } else { Ok(count) }
    }
}

impl FrameHead {
    fn entries_end(&self) -> usize {
        usize::from(self.head_len) + usize::from(self.block_len) * usize::from(self.count.get())
    }
}

/// How many entries a frame has, and the length of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryLayout {
    block_len: usize,
    count: usize,
}

impl EntryLayout {
    /// Without entries.
    pub const NONE: Self = Self { block_len: 0, count: 0 };

    /// `count` entries.
    pub const fn of<T>(count: usize) -> Self {
        Self { block_len: size_of::<T>(), count }
    }
}

/// Begins a frame in `out`; returns where it begins.
pub(crate) fn begin<F: IntoBytes + Immutable>(
    out: &mut Vec<u8>,
    kind: FrameKind,
    sequence: u64,
    fixed: &F,
    entries: EntryLayout,
) -> usize {
    let EntryLayout { block_len, count } = entries;
    let start = out.len();
    let head_len = HEAD_BYTES + fixed.as_bytes().len();
    let head = FrameHead {
        magic: MAGIC,
        version: VERSION,
        kind: kind as u8,
        head_len: u8::try_from(head_len).expect("fixed parts are short"),
        block_len: u8::try_from(block_len).expect("entries are short"),
        count: U16::new(u16::try_from(count).expect("a frame has at most 65,535 entries")),
        frame_len: U32::ZERO,
        sequence: U64::new(sequence),
        checksum: U32::ZERO,
    };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(fixed.as_bytes());
    start
}

/// Completes the frame that begins at `start`: its length and its checksum.
pub(crate) fn finish(out: &mut [u8], start: usize) {
    let frame = &mut out[start..];
    let length = u32::try_from(frame.len()).expect("a frame has less than 4 GiB");
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(frame);
    frame[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(frame: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&frame[..CHECKSUM_AT]);
    crc32c::crc32c_append(sum, &frame[HEAD_BYTES..])
}

//! The hash chain that joins the segments of a log. It reveals any changed byte and any file lost
//! before the end.
//!
//! A segment's hash is BLAKE3 of its file, from the first byte to the end of its last record. Each
//! header holds the hash of the previous segment, so the newest hash vouches for all of them.
//! Segments without records are skipped. The hash has no key: someone who can write the files can
//! recompute it, and is detected by a hash kept elsewhere.

use std::fmt;
use std::str::FromStr;

/// Bytes of a hash.
pub const HASH_BYTES: usize = 32;

/// The hash of a segment, which covers all earlier ones through its header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainHash(pub [u8; HASH_BYTES]);

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hexadecimal digits, as `vickrey log verify` prints it")]
pub struct ChainHashError;

impl FromStr for ChainHash {
    type Err = ChainHashError;

    fn from_str(text: &str) -> Result<Self, ChainHashError> {
        let digits = text.as_bytes();
        if digits.len() != 2 * HASH_BYTES {
            return Err(ChainHashError);
        }
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok());
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or(ChainHashError)?;
            *byte = high << 4 | low;
        }
        Ok(Self(hash))
    }
}

/// A point in the chain, after some record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPoint {
    /// Records in the chain.
    pub records: u64,
    /// Hash of the segment that holds the last of them.
    pub hash: ChainHash,
}

impl ChainPoint {
    /// The start of a chain: a new log, or the segment after those that have none.
    pub const START: Self = Self { records: 0, hash: ChainHash([0; HASH_BYTES]) };

    /// Whether this is [`Self::START`].
    pub fn is_start(&self) -> bool {
        *self == Self::START
    }

    /// The point after a segment with this many records and this hash. A segment without records
    /// changes nothing.
    #[must_use]
    pub fn then(self, records: u64, hash: ChainHash) -> Self {
        if records == 0 {
            return self;
        }
        Self { records: self.records.saturating_add(records), hash }
    }
}

/// Hashes a segment piece by piece.
#[derive(Clone, Debug, Default)]
pub struct SegmentHasher(blake3::Hasher);

impl SegmentHasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far; more may follow.
    pub fn hash(&self) -> ChainHash {
        ChainHash(*self.0.finalize().as_bytes())
    }
}

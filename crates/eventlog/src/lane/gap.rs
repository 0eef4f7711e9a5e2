//! What the firehose says about records that are not there.
//!
//! Pure. Its bytes are those of a protobuf message with `fixed32 shard = 1` and `fixed64 lost = 2`,
//! both always present, so that a reader of the schema needs nothing else.

/// The kind of a gap's record, which is no other's.
pub const GAP_KIND: u8 = u8::MAX;

const BYTES: usize = 14;
/// Field 1, 32 bits.
const SHARD_TAG: u8 = 1 << 3 | 5;
/// Field 2, 64 bits.
const LOST_TAG: u8 = 2 << 3 | 1;

/// Records of one ring that were offered and are not in the log, at the place where they are
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The ring's, as its owner numbered it.
    pub shard: u32,
    /// How many, since the record of that ring before this one.
    pub lost: u64,
}

impl Gap {
    /// The payload of its record.
    pub fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = SHARD_TAG;
        bytes[1..5].copy_from_slice(&self.shard.to_le_bytes());
        bytes[5] = LOST_TAG;
        bytes[6..].copy_from_slice(&self.lost.to_le_bytes());
        bytes
    }

    /// From the payload of a record of [`GAP_KIND`]; `None` when that is no gap. What a later
    /// release may add behind it is passed over.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let [SHARD_TAG, a, b, c, d, LOST_TAG, lost @ ..] = payload.first_chunk::<BYTES>()? else {
            return None;
        };
        let lost = u64::from_le_bytes(*lost.first_chunk()?);
        Some(Self { shard: u32::from_le_bytes([*a, *b, *c, *d]), lost })
    }
}

//! A gap in the log: how many auctions of which shard are missing, and from when. Knows no auction.

use crate::fields::gap as field;
use crate::reader::{Malformed, Reader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::Writer;

/// Auctions that were held and not recorded, because the log could not take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Whose records they were.
    pub shard: u32,
    /// How many.
    pub records: u64,
    /// When the first of them was shed, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    /// When the last of them was.
    pub through_unix_ms: u64,
}

impl Gap {
    /// Writes it behind what `out` holds.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = Writer::new(out);
        record.uint(field::VERSION, VERSION.into());
        record.uint(field::SHARD, self.shard.into());
        record.uint(field::RECORDS, self.records);
        record.uint(field::SINCE_UNIX_MS, self.since_unix_ms);
        record.uint(field::THROUGH_UNIX_MS, self.through_unix_ms);
        record.finish();
    }

    /// Reads it again.
    ///
    /// # Errors
    ///
    /// When it is none, or of a later version.
    pub fn decode(record: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::of_record(record)?;
        check_version(reader.take(field::VERSION, Varint::uint)?.unwrap_or(0))?;
        let gap = Self {
            shard: reader.take(field::SHARD, Varint::uint32)?.unwrap_or(0),
            records: reader.take(field::RECORDS, Varint::uint)?.unwrap_or(0),
            since_unix_ms: reader.take(field::SINCE_UNIX_MS, Varint::uint)?.unwrap_or(0),
            through_unix_ms: reader.take(field::THROUGH_UNIX_MS, Varint::uint)?.unwrap_or(0),
        };
        reader.finish()?;
        Ok(gap)
    }
}

#[cfg(test)]
mod tests;

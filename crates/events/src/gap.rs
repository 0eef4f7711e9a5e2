//! A gap in the log: how many auctions of which shard are missing, and since when.

use crate::fields::gap as field;
use crate::reader::{MalformedRecord, MessageReader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::MessageWriter;

/// Auctions that were not recorded because the log could not take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The shard.
    pub shard: u32,
    /// Number of missing records.
    pub records: u64,
    /// When the first of them was shed, in Unix milliseconds.
    pub since_unix_ms: u64,
    /// When the last of them was shed.
    pub through_unix_ms: u64,
}

impl Gap {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = MessageWriter::new(out);
        record.uint(field::VERSION, VERSION.into());
        record.uint(field::SHARD, self.shard.into());
        record.uint(field::RECORDS, self.records);
        record.uint(field::SINCE_UNIX_MS, self.since_unix_ms);
        record.uint(field::THROUGH_UNIX_MS, self.through_unix_ms);
        record.finish();
    }

    /// Decodes it; fails for anything else, or a later version.
    pub fn decode(record: &[u8]) -> Result<Self, MalformedRecord> {
        let mut reader = MessageReader::of_record(record)?;
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

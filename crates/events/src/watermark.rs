//! How far the auctions' log was durable when a watermark of the durable lane was written.

#[cfg(test)]
mod tests;

use crate::fields::watermark as field;
use crate::reader::{MalformedRecord, MessageReader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::MessageWriter;

/// The highest sequence of a log.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// Every record of the firehose up to a sequence was durable when this was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// The firehose's epoch at that time.
    pub epoch: u64,
    /// The last durable sequence.
    pub sequence: u64,
}

impl Watermark {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = MessageWriter::new(out);
        record.uint(field::VERSION, VERSION.into());
        record.uint(field::EPOCH, self.epoch);
        record.uint(field::SEQUENCE, self.sequence);
        record.finish();
    }

    /// Decodes it; fails for anything else, or a later version.
    pub fn decode(record: &[u8]) -> Result<Self, MalformedRecord> {
        let mut reader = MessageReader::of_record(record)?;
        check_version(reader.take(field::VERSION, Varint::uint)?.unwrap_or(0))?;
        let watermark = Self {
            epoch: reader.take(field::EPOCH, Varint::uint)?.unwrap_or(0),
            sequence: reader
                .take(field::SEQUENCE, |value: Varint| value.known(in_range))?
                .unwrap_or(0),
        };
        reader.finish()?;
        Ok(watermark)
    }
}

fn in_range(sequence: u64) -> Option<u64> {
    (sequence <= SEQUENCE_MAX).then_some(sequence)
}

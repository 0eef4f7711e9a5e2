//! How far auctions were recorded when a moment of the durable lane was written. Knows no auction.

#[cfg(test)]
mod tests;

use crate::fields::watermark as field;
use crate::reader::{Malformed, Reader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::Writer;

/// No sequence of a log is higher.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// Every record of the firehose up to a sequence was durable when this was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// The epoch in which the firehose was written then.
    pub epoch: u64,
    /// The last of them.
    pub sequence: u64,
}

impl Watermark {
    /// Writes it behind what `out` holds.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = Writer::new(out);
        record.uint(field::VERSION, VERSION.into());
        record.uint(field::EPOCH, self.epoch);
        record.uint(field::SEQUENCE, self.sequence);
        record.finish();
    }

    /// Decodes what [`Self::encode`] wrote.
    ///
    /// # Errors
    ///
    /// The bytes are no watermark, or one of a later version.
    pub fn decode(record: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::of_record(record)?;
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

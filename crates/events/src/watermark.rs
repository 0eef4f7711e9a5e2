//! How far auctions were recorded when a moment of the durable lane was written. Knows no auction.

use crate::fields::watermark as field;
use crate::{Malformed, Reader, VERSION, Varint, Writer, check_version};

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

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1;

    const WATERMARK: Watermark = Watermark { epoch: 3, sequence: 1_234_567 };

    /// Never changed: files hold such bytes.
    const VERSION_1: [u8; 14] = [8, 1, 16, 3, 24, 0x87, 0xad, 0x4b, 0xfd, 0x7f, 8, 0, 0, 0];

    #[test]
    fn a_watermark_keeps_its_bytes() {
        let mut out = Vec::new();
        WATERMARK.encode(&mut out);
        assert_eq!(out, VERSION_1);
        assert_eq!(Watermark::decode(&VERSION_1), Ok(WATERMARK));
        let message = v1::Watermark::decode(&VERSION_1[..]).unwrap();
        let want = v1::Watermark { version: 1, epoch: 3, sequence: 1_234_567, length: 8 };
        assert_eq!(message, want);
        assert_eq!(message.encode_to_vec(), VERSION_1);
        for len in 0..VERSION_1.len() {
            assert!(Watermark::decode(&VERSION_1[..len]).is_err(), "the first {len} bytes");
        }
    }

    #[test]
    fn a_watermark_beyond_all_sequences_is_refused() {
        for (sequence, is_sound) in
            [(SEQUENCE_MAX, true), (SEQUENCE_MAX + 1, false), (u64::MAX, false)]
        {
            let mut out = Vec::new();
            Watermark { epoch: 1, sequence }.encode(&mut out);
            assert_eq!(Watermark::decode(&out).is_ok(), is_sound, "{sequence}");
        }
    }
}

//! An event of a lot. There are few, so prost's types read and write them.

use prost::Message as _;

use crate::fields::lot as field;
use crate::reader::{MalformedRecord, MessageReader};
use crate::schema::VERSION;
use crate::v1;

impl v1::Lot {
    /// Appends it to `out` as a record of this version.
    pub fn write_record(mut self, out: &mut Vec<u8>) {
        (self.version, self.length) = (VERSION, 0);
        self.length = u32::try_from(self.encoded_len()).expect("a record is short");
        self.encode(out).expect("a vector grows");
    }

    /// Reads a record; fails for anything else, or a later version.
    ///
    /// # Errors
    /// It is no event of a lot, or is truncated.
    pub fn read_record(record: &[u8]) -> Result<Self, MalformedRecord> {
        MessageReader::of_record(record)?;
        let read = Self::decode(record).map_err(|_| MalformedRecord::Type(field::ID))?;
        match read.version {
            VERSION => Ok(read),
            other => Err(MalformedRecord::Version(other.into())),
        }
    }
}

#[cfg(test)]
mod tests;

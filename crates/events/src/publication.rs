//! A message that a client of the live feed published.

use crate::fields::publication as field;
use crate::reader::{Bytes, MalformedRecord, MessageReader, Varint, check_version};
use crate::schema::VERSION;
use crate::writer::MessageWriter;

/// A published message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Publication<'b> {
    /// The topic, which the configuration declared.
    pub topic: &'b str,
    /// Who published it: the subject of the token, or empty without one.
    pub publisher: &'b str,
    /// What the message is about: for subscribers that conflate, a later one replaces it.
    pub key: &'b str,
    /// The message: JSON, as the client wrote it.
    pub body: &'b str,
}

impl<'b> Publication<'b> {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = MessageWriter::new(out);
        record.uint(field::VERSION, VERSION.into());
        record.text(field::TOPIC, self.topic);
        record.text(field::PUBLISHER, self.publisher);
        record.text(field::KEY, self.key);
        record.text(field::BODY, self.body);
        record.finish();
    }

    /// Decodes it; fails for anything else, or a later version.
    ///
    /// # Errors
    /// It is no publication, is truncated, or its texts are not UTF-8.
    pub fn decode(record: &'b [u8]) -> Result<Self, MalformedRecord> {
        let mut reader = MessageReader::of_record(record)?;
        check_version(reader.take(field::VERSION, Varint::uint)?.unwrap_or(0))?;
        let publication = Self {
            topic: reader.take(field::TOPIC, Bytes::text)?.unwrap_or(""),
            publisher: reader.take(field::PUBLISHER, Bytes::text)?.unwrap_or(""),
            key: reader.take(field::KEY, Bytes::text)?.unwrap_or(""),
            body: reader.take(field::BODY, Bytes::text)?.unwrap_or(""),
        };
        reader.finish()?;
        Ok(publication)
    }
}

#[cfg(test)]
mod tests;

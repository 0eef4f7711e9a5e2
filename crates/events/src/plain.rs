//! A fast path for messages exactly as this release writes them.
//!
//! A [`MessageReader`] can read every message. A record has hundreds of small ones, nearly all of
//! which are plain: reading those is several times as fast if the reader gives up at anything else.

use crate::reader::{Bytes, FieldValue, Fixed64, MalformedRecord, MessageReader, Varint};

/// A source of a message's fields, in the order of their numbers.
pub trait MessageFields<'b> {
    /// See [`MessageReader::take`].
    fn take<V: PlainValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, MalformedRecord>,
    ) -> Result<Option<T>, MalformedRecord>;

    /// See [`MessageReader::finish`].
    fn finish(self) -> Result<(), MalformedRecord>;
}

/// Reads fields as long as the message is plain: keys of one byte, numbers of at most four, no
/// unexpected fields. An error only means that a [`MessageReader`] must read the message.
#[derive(Clone, Copy, Debug)]
pub struct PlainFields<'b> {
    rest: &'b [u8],
}

/// A value that plain messages may have.
pub trait PlainValue<'b>: FieldValue<'b> {
    /// The value of field `number` at the start of `bytes`, and the rest. None if it is cut off, or
    /// too long to be plain.
    fn read_plain(bytes: &'b [u8], number: u32) -> Option<(Self, &'b [u8])>;
}

impl<'b> MessageReader<'b> {
    /// Reads a message by `read_plain`, or by `read_any` if that fails. Both must read the same
    /// fields.
    #[inline(always)]
    pub fn read_message<T>(
        self,
        read_plain: impl FnOnce(PlainFields<'b>) -> Result<T, MalformedRecord>,
        read_any: impl FnOnce(Self) -> Result<T, MalformedRecord>,
    ) -> Result<T, MalformedRecord> {
        match read_plain(PlainFields { rest: self.rest() }) {
            Ok(made) => Ok(made),
            Err(_) => read_any(self),
        }
    }
}

impl<'b> MessageFields<'b> for PlainFields<'b> {
    #[inline(always)]
    fn take<V: PlainValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, MalformedRecord>,
    ) -> Result<Option<T>, MalformedRecord> {
        let key = number << 3 | V::WIRE;
        if key >= 0x80 {
            return Err(NOT_PLAIN); // It has two bytes.
        }
        match *self.rest {
            [byte, ref rest @ ..] if u32::from(byte) == key => {
                let (value, rest) = V::read_plain(rest, number).ok_or(NOT_PLAIN)?;
                self.rest = rest;
                read(value).map(Some)
            }
            [byte, ..] if u32::from(byte) <= key | 7 => Err(NOT_PLAIN),
            _ => Ok(None),
        }
    }

    #[inline(always)]
    fn finish(self) -> Result<(), MalformedRecord> {
        if self.rest.is_empty() { Ok(()) } else { Err(NOT_PLAIN) }
    }
}

/// Never shown: a [`MessageReader`] reads the message instead.
const NOT_PLAIN: MalformedRecord = MalformedRecord::Number(0);

impl<'b> MessageFields<'b> for MessageReader<'b> {
    #[inline(always)]
    fn take<V: PlainValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, MalformedRecord>,
    ) -> Result<Option<T>, MalformedRecord> {
        Self::take(self, number, read)
    }

    #[inline(always)]
    fn finish(self) -> Result<(), MalformedRecord> {
        Self::finish(self)
    }
}

/// Seven bits each, the lowest first.
#[inline(always)]
fn number_of<const N: usize>(bytes: [u8; N]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

#[inline(always)]
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match *bytes {
        [a, ref rest @ ..] if a < 0x80 => Some((a.into(), rest)),
        [a, b, ref rest @ ..] if b < 0x80 => Some((number_of([a, b]), rest)),
        [a, b, c, ref rest @ ..] if c < 0x80 => Some((number_of([a, b, c]), rest)),
        [a, b, c, d, ref rest @ ..] if d < 0x80 => Some((number_of([a, b, c, d]), rest)),
        _ => None,
    }
}

impl<'b> PlainValue<'b> for Varint {
    #[inline(always)]
    fn read_plain(bytes: &'b [u8], number: u32) -> Option<(Self, &'b [u8])> {
        varint(bytes).map(|(value, rest)| (Self { number, value }, rest))
    }
}

impl<'b> PlainValue<'b> for Fixed64 {
    #[inline(always)]
    fn read_plain(bytes: &'b [u8], _: u32) -> Option<(Self, &'b [u8])> {
        let (value, rest) = bytes.split_first_chunk()?;
        Some((Self(u64::from_le_bytes(*value)), rest))
    }
}

impl<'b> PlainValue<'b> for Bytes<'b> {
    #[inline(always)]
    fn read_plain(bytes: &'b [u8], number: u32) -> Option<(Self, &'b [u8])> {
        let (len, rest) = varint(bytes)?;
        let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        Some((Self { number, bytes }, rest))
    }
}

#[cfg(test)]
mod tests;

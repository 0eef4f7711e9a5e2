//! The fields of a message that is as this release writes it: each in its turn, and none besides.
//!
//! A [`Reader`] knows what to make of every message. A record has hundreds of small ones, nearly all of
//! which are plain, and are read several times as fast by who gives up at whatever is not. Knows the wire
//! and no schema.

use crate::reader::{Bytes, Fixed64, Malformed, Reader, Value, Varint};

/// Where the fields of a message are taken from, in the order of their numbers.
pub trait MessageFields<'b> {
    /// See [`Reader::take`].
    ///
    /// # Errors
    ///
    /// Those of `read`, and its own.
    fn take<V: PlainValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed>;

    /// See [`Reader::finish`].
    ///
    /// # Errors
    ///
    /// Its own.
    fn finish(self) -> Result<(), Malformed>;
}

/// Takes fields for as long as the message is plain: keys have one byte, numbers at most four, and no field
/// stands between those that are asked for. Any error says no more than that it may not be: a [`Reader`]
/// is to be asked then.
#[derive(Clone, Copy, Debug)]
pub struct PlainFields<'b> {
    rest: &'b [u8],
}

/// A value that plain messages have.
pub trait PlainValue<'b>: Value<'b> {
    /// The value of field `number` at the start of `bytes`, and what is behind it. None if it is cut off, or
    /// too long to be plain.
    fn read_plain(bytes: &'b [u8], number: u32) -> Option<(Self, &'b [u8])>;
}

impl<'b> Reader<'b> {
    /// What a message says: as `read_plain` has it, or `read_any` if that fails. Both are to take the same
    /// fields.
    ///
    /// # Errors
    ///
    /// Those of `read_any`.
    #[inline(always)]
    pub fn read_message<T>(
        self,
        read_plain: impl FnOnce(PlainFields<'b>) -> Result<T, Malformed>,
        read_any: impl FnOnce(Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
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
        read: impl FnOnce(V) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
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
    fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(NOT_PLAIN) }
    }
}

/// Nobody is told: it has a reader asked.
const NOT_PLAIN: Malformed = Malformed::Number(0);

impl<'b> MessageFields<'b> for Reader<'b> {
    #[inline(always)]
    fn take<V: PlainValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        Self::take(self, number, read)
    }

    #[inline(always)]
    fn finish(self) -> Result<(), Malformed> {
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

//! Reads protobuf in place, without knowing the schema, from any bytes.
//!
//! A nested message is bytes until it is read: nesting is as deep as the schema, and unknown fields
//! cost nothing.

use crate::schema::{LENGTH, RECORD_BYTES_MAX, VERSION};
use crate::writer::{BYTES, FIXED32, FIXED64, VARINT};

/// Bytes of the field that ends a record: two for its key, four for its value.
const END_BYTES: usize = 6;

const _: () = assert!(LENGTH >= 16 && LENGTH < 2048, "the key of the last field has two bytes");

/// Reads the fields of one message in the order of their numbers.
///
/// Nothing is searched: the next byte tells whether a field is there. Fields between those asked
/// for are of a later release, and skipped.
#[derive(Clone, Copy, Debug)]
pub struct MessageReader<'b> {
    rest: &'b [u8],
    /// The lowest number that the next field may have.
    least: u32,
}

/// A field's value of one of the types below.
pub trait FieldValue<'b>: Sized {
    /// Its wire type.
    const WIRE: u32;

    /// Reads the value of field `number`, whose key has been read.
    fn read(reader: &mut MessageReader<'b>, number: u32) -> Result<Self, MalformedRecord>;
}

/// A number of variable length.
#[derive(Clone, Copy, Debug)]
pub struct Varint {
    pub(crate) number: u32,
    pub(crate) value: u64,
}

/// A number of eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fixed64(pub(crate) u64);

/// A number of four bytes, used only by the field that ends a record.
struct Fixed32(u32);

/// A string, bytes, a message, or packed numbers.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b> {
    pub(crate) number: u32,
    pub(crate) bytes: &'b [u8],
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRecord {
    /// It does not end with its own length: it was cut off, or something was appended.
    #[error("the record does not end as it should: it was cut off, or added to")]
    Length,
    /// Longer than [`RECORD_BYTES_MAX`].
    #[error("a record of {0} bytes is longer than any")]
    TooLong(usize),
    /// Of an unknown version.
    #[error("the record is of version {0}, known is {known}: use the release that wrote it",
        known = VERSION)]
    Version(u64),
    /// Cut off within this field, or within a key (0).
    #[error("field {0} is cut off")]
    Truncated(u32),
    /// A number of more than 64 bits.
    #[error("field {0} is no number of 64 bits")]
    Varint(u32),
    /// A field number out of range.
    #[error("{0} is no number of a field")]
    Number(u64),
    /// Another wire type than the schema says, or a deprecated one.
    #[error("field {0} is of another type")]
    Type(u32),
    /// Out of the field's range.
    #[error("field {number} cannot be {value}")]
    Range {
        /// The field.
        number: u32,
        /// Its value.
        value: u64,
    },
    /// Not UTF-8.
    #[error("field {0} is no text")]
    Text(u32),
    /// A string that is not a value of the field.
    #[error("field {0} is text that says nothing there")]
    Value(u32),
    /// More elements than any record has.
    #[error("there is more of field {0} than any record has")]
    TooMany(u32),
    /// Out of order, or duplicate.
    #[error("field {0} stands out of order")]
    Order(u32),
}

impl<'b> MessageReader<'b> {
    /// Reads a nested message.
    pub const fn new(message: &'b [u8]) -> Self {
        Self { rest: message, least: 1 }
    }

    /// Reads a whole record, and checks that it ends with its length.
    pub fn of_record(record: &'b [u8]) -> Result<Self, MalformedRecord> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(MalformedRecord::TooLong(record.len()));
        }
        let at = record.len().checked_sub(END_BYTES).ok_or(MalformedRecord::Length)?;
        let (rest, end) = record.split_at(at);
        match Self::new(end).take(LENGTH, |Fixed32(len)| Ok(len as usize)) {
            Ok(Some(len)) if len == at => Ok(Self::new(rest)),
            _ => Err(MalformedRecord::Length),
        }
    }

    /// Applies `read` to the field of this number. None if it is absent. After an error nothing
    /// more can be read.
    #[inline(always)]
    pub fn take<V: FieldValue<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, MalformedRecord>,
    ) -> Result<Option<T>, MalformedRecord> {
        let is_there = self.comes_to(number, V::WIRE)?;
        self.least = number + 1;
        if is_there { V::read(self, number).and_then(read).map(Some) } else { Ok(None) }
    }

    /// Applies `read` to every field of this number.
    #[inline]
    pub fn each<V: FieldValue<'b>, E: From<MalformedRecord>>(
        &mut self,
        number: u32,
        mut read: impl FnMut(V) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.comes_to(number, V::WIRE)? {
            self.least = number;
            read(V::read(self, number)?)?;
        }
        self.least = number + 1;
        Ok(())
    }

    /// Skips the remaining fields, which are of a later release.
    #[inline]
    pub fn finish(mut self) -> Result<(), MalformedRecord> {
        if self.rest.is_empty() { Ok(()) } else { self.search(u32::MAX, VARINT).map(drop) }
    }

    /// Whether the next field has this number, after skipping lower ones; if so, reads its key.
    /// Inlined, this compares one or two bytes.
    #[inline(always)]
    fn comes_to(&mut self, number: u32, wire: u32) -> Result<bool, MalformedRecord> {
        let key = number << 3 | wire;
        let next = match *self.rest {
            [] => return Ok(false),
            [byte, ref rest @ ..] if u32::from(byte) == key && key < 0x80 => Some(rest),
            [byte, ..] if byte < 0x80 && key | 7 < u32::from(byte) => return Ok(false),
            [low, high, ref rest @ ..]
                if (0x80..0x4000).contains(&key)
                    && u32::from(low) == key & 0x7f | 0x80
                    && u32::from(high) == key >> 7 =>
            {
                Some(rest)
            }
            _ => None,
        };
        let Some(rest) = next else { return self.search(number, wire) };
        self.rest = rest;
        Ok(true)
    }

    #[inline(never)]
    fn search(&mut self, number: u32, wire: u32) -> Result<bool, MalformedRecord> {
        while !self.rest.is_empty() {
            let mut ahead = *self;
            let (found, found_wire) = ahead.key()?;
            if number < found {
                return Ok(false);
            }
            if found < self.least {
                return Err(MalformedRecord::Order(found));
            }
            if number == found {
                *self = ahead;
                return if found_wire == wire {
                    Ok(true)
                } else {
                    Err(MalformedRecord::Type(found))
                };
            }
            ahead.skip(found, found_wire)?;
            *self = Self { least: found, ..ahead };
        }
        Ok(false)
    }

    fn key(&mut self) -> Result<(u32, u32), MalformedRecord> {
        let key = self.varint(0)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        Ok((number.ok_or(MalformedRecord::Number(key >> 3))?, (key & 7) as u32))
    }

    fn skip(&mut self, number: u32, wire: u32) -> Result<(), MalformedRecord> {
        match wire {
            VARINT => Varint::read(self, number).map(drop),
            FIXED64 => Fixed64::read(self, number).map(drop),
            FIXED32 => Fixed32::read(self, number).map(drop),
            BYTES => Bytes::read(self, number).map(drop),
            _ => Err(MalformedRecord::Type(number)),
        }
    }

    /// Most keys have one byte.
    #[inline(always)]
    fn varint(&mut self, number: u32) -> Result<u64, MalformedRecord> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(number),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, number: u32) -> Result<u64, MalformedRecord> {
        // Up to four bytes without branching on the length, which follows no pattern.
        if let Some((word, _)) = self.rest.split_first_chunk() {
            let word = u32::from_le_bytes(*word);
            let ends = !word & 0x8080_8080;
            if ends != 0 {
                let own = word & (ends ^ (ends - 1));
                self.rest = &self.rest[ends.trailing_zeros() as usize / 8 + 1..];
                let part = |at: u32| (own >> at) & (0x7f << (7 * at));
                return Ok((part(0) | part(1) | part(2) | part(3)).into());
            }
        }
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) =
                self.rest.split_first().ok_or(MalformedRecord::Truncated(number))?;
            self.rest = rest;
            let low = u64::from(byte & 0x7f);
            if low << shift >> shift != low {
                return Err(MalformedRecord::Varint(number));
            }
            value |= low << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MalformedRecord::Varint(number))
    }

    /// The unread bytes.
    pub(crate) const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self, number: u32) -> Result<[u8; N], MalformedRecord> {
        let (array, rest) =
            self.rest.split_first_chunk().ok_or(MalformedRecord::Truncated(number))?;
        self.rest = rest;
        Ok(*array)
    }
}

impl<'b> FieldValue<'b> for Varint {
    const WIRE: u32 = VARINT;

    #[inline(always)]
    fn read(reader: &mut MessageReader<'b>, number: u32) -> Result<Self, MalformedRecord> {
        reader.varint(number).map(|value| Self { number, value })
    }
}

impl<'b> FieldValue<'b> for Fixed64 {
    const WIRE: u32 = FIXED64;

    #[inline]
    fn read(reader: &mut MessageReader<'b>, number: u32) -> Result<Self, MalformedRecord> {
        reader.array(number).map(|bytes| Self(u64::from_le_bytes(bytes)))
    }
}

impl<'b> FieldValue<'b> for Fixed32 {
    const WIRE: u32 = FIXED32;

    #[inline]
    fn read(reader: &mut MessageReader<'b>, number: u32) -> Result<Self, MalformedRecord> {
        reader.array(number).map(|bytes| Self(u32::from_le_bytes(bytes)))
    }
}

impl<'b> FieldValue<'b> for Bytes<'b> {
    const WIRE: u32 = BYTES;

    #[inline]
    fn read(reader: &mut MessageReader<'b>, number: u32) -> Result<Self, MalformedRecord> {
        let len = usize::try_from(reader.varint(number)?).ok();
        let parts = len.and_then(|len| reader.rest.split_at_checked(len));
        let (bytes, rest) = parts.ok_or(MalformedRecord::Truncated(number))?;
        reader.rest = rest;
        Ok(Self { number, bytes })
    }
}

impl Varint {
    /// `uint64`, or an enumeration. Never fails; the following conversions fail for values out of
    /// range.
    pub const fn uint(self) -> Result<u64, MalformedRecord> {
        Ok(self.value)
    }

    /// `uint32`.
    pub fn uint32(self) -> Result<u32, MalformedRecord> {
        let value = self.uint()?;
        u32::try_from(value).map_err(|_| self.out_of_range(value))
    }

    /// A position, as `uint32`.
    pub fn position(self) -> Result<usize, MalformedRecord> {
        self.uint32().map(|value| value as usize)
    }

    /// `sint64`.
    pub fn sint(self) -> Result<i64, MalformedRecord> {
        let value = self.uint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// `bool`.
    pub fn flag(self) -> Result<bool, MalformedRecord> {
        match self.uint()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(self.out_of_range(value)),
        }
    }

    /// `uint64` or an enumeration, converted by `known`, which returns None for an invalid value.
    pub fn known<T>(self, known: impl FnOnce(u64) -> Option<T>) -> Result<T, MalformedRecord> {
        known(self.value).ok_or(self.out_of_range(self.value))
    }

    /// The error for `value`.
    const fn out_of_range(self, value: u64) -> MalformedRecord {
        MalformedRecord::Range { number: self.number, value }
    }
}

impl Fixed64 {
    /// `fixed64`. Never fails.
    pub const fn uint(self) -> Result<u64, MalformedRecord> {
        Ok(self.0)
    }
}

impl<'b> Bytes<'b> {
    /// `bytes`. Never fails; the following conversions fail for invalid values.
    pub const fn bytes(self) -> Result<&'b [u8], MalformedRecord> {
        Ok(self.bytes)
    }

    /// `string`.
    pub fn text(self) -> Result<&'b str, MalformedRecord> {
        std::str::from_utf8(self.bytes).map_err(|_| MalformedRecord::Text(self.number))
    }

    /// A message.
    pub fn message(self) -> Result<MessageReader<'b>, MalformedRecord> {
        Ok(MessageReader::new(self.bytes))
    }

    /// `repeated uint32`, packed; calls `each` with every element.
    pub fn packed(
        self,
        mut each: impl FnMut(u32) -> Result<(), MalformedRecord>,
    ) -> Result<(), MalformedRecord> {
        let mut values = MessageReader::new(self.bytes);
        while !values.rest.is_empty() {
            let value = values.varint(self.number)?;
            each(u32::try_from(value).map_err(|_| self.out_of_range(value))?)?;
        }
        Ok(())
    }

    /// `string`, converted by `parse`, which returns None for an invalid value.
    pub fn parsed<T>(self, parse: impl FnOnce(&'b str) -> Option<T>) -> Result<T, MalformedRecord> {
        parse(self.text()?).ok_or(MalformedRecord::Value(self.number))
    }

    /// The error for `value`.
    pub const fn out_of_range(self, value: u64) -> MalformedRecord {
        MalformedRecord::Range { number: self.number, value }
    }
}

/// Whether this release reads records of `version`; a record without one is refused.
pub const fn check_version(version: u64) -> Result<(), MalformedRecord> {
    if version == VERSION as u64 { Ok(()) } else { Err(MalformedRecord::Version(version)) }
}

#[cfg(test)]
mod tests;

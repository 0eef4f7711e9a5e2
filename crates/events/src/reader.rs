//! Protobuf, read where it stands. Knows the wire and no schema; the bytes may be anything.
//!
//! A message within a message is bytes, until somebody asks: nesting is as deep as the schema, and
//! what a reader does not know costs it nothing.

use crate::schema::{LENGTH, RECORD_BYTES_MAX, VERSION};
use crate::writer::{BYTES, FIXED32, FIXED64, VARINT};

/// Bytes of the field that ends a record: two of its key, four of its value.
const END_BYTES: usize = 6;

const _: () = assert!(LENGTH >= 16 && LENGTH < 2048, "the key of the last field has two bytes");

/// Reads the fields of one message by their numbers, in whose order they stand and are asked for.
///
/// Nothing searches: whether a field is there is seen from the one byte that stands next. What stands
/// between two that are asked for is of a later release, and passed over.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
    /// The least number that may stand next.
    least: u32,
}

/// A field's value as it stands: of one of the types below.
pub trait Value<'b>: Sized {
    /// The type's number.
    const WIRE: u32;

    /// Reads that of field `number`, whose key has been read.
    ///
    /// # Errors
    ///
    /// When it is cut off, or no number of 64 bits.
    fn read(reader: &mut Reader<'b>, number: u32) -> Result<Self, Malformed>;
}

/// A number, as most are.
#[derive(Clone, Copy, Debug)]
pub struct Varint {
    pub(crate) number: u32,
    pub(crate) value: u64,
}

/// A number of always the same length.
#[derive(Clone, Copy, Debug)]
pub struct Fixed64(pub(crate) u64);

/// The same of four bytes: only what ends a record.
struct Fixed32(u32);

/// Text, bytes, a message, or packed numbers.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b> {
    pub(crate) number: u32,
    pub(crate) bytes: &'b [u8],
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It does not end with its own length: it was cut off, or something was put behind it.
    #[error("the record does not end as it should: it was cut off, or added to")]
    Length,
    /// More than [`RECORD_BYTES_MAX`].
    #[error("a record of {0} bytes is longer than any")]
    TooLong(usize),
    /// It has a version of its own.
    #[error("the record is of version {0}, known is {known}: use the release that wrote it",
        known = VERSION)]
    Version(u64),
    /// Within this field, or within the key of one (0).
    #[error("field {0} is cut off")]
    Truncated(u32),
    /// A number of more than 64 bits.
    #[error("field {0} is no number of 64 bits")]
    Varint(u32),
    /// No field has this number.
    #[error("{0} is no number of a field")]
    Number(u64),
    /// Of another type than the schema says, or of one that this encoding no longer has.
    #[error("field {0} is of another type")]
    Type(u32),
    /// Beyond what the field may hold.
    #[error("field {number} cannot be {value}")]
    Range {
        /// The field.
        number: u32,
        /// What it says.
        value: u64,
    },
    /// Not UTF-8.
    #[error("field {0} is no text")]
    Text(u32),
    /// Text, but not of the kind that the field may hold.
    #[error("field {0} is text that says nothing there")]
    Value(u32),
    /// More of it than any record has.
    #[error("there is more of field {0} than any record has")]
    TooMany(u32),
    /// Behind one with a higher number, or a second time.
    #[error("field {0} stands out of order")]
    Order(u32),
}

impl<'b> Reader<'b> {
    /// Of a message within another.
    pub const fn new(message: &'b [u8]) -> Self {
        Self { rest: message, least: 1 }
    }

    /// Of a whole record.
    ///
    /// # Errors
    ///
    /// When it is longer than any, or does not end with its length.
    pub fn of_record(record: &'b [u8]) -> Result<Self, Malformed> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(Malformed::TooLong(record.len()));
        }
        let at = record.len().checked_sub(END_BYTES).ok_or(Malformed::Length)?;
        let (rest, end) = record.split_at(at);
        match Self::new(end).take(LENGTH, |Fixed32(len)| Ok(len as usize)) {
            Ok(Some(len)) if len == at => Ok(Self::new(rest)),
            _ => Err(Malformed::Length),
        }
    }

    /// What `read` makes of the field of this number; `None` when it is not there.
    ///
    /// # Errors
    ///
    /// Those of `read`, and when what stands there is no field, of another type, or out of order;
    /// nothing is to be read on after that.
    #[inline(always)]
    pub fn take<V: Value<'b>, T>(
        &mut self,
        number: u32,
        read: impl FnOnce(V) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        let is_there = self.comes_to(number, V::WIRE)?;
        self.least = number + 1;
        if is_there { V::read(self, number).and_then(read).map(Some) } else { Ok(None) }
    }

    /// Hands every field of this number to `read`.
    ///
    /// # Errors
    ///
    /// As [`Reader::take`].
    #[inline]
    pub fn each<V: Value<'b>, E: From<Malformed>>(
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

    /// Passes over whatever is left, which is of a later release.
    ///
    /// # Errors
    ///
    /// When that is no fields, or out of order.
    #[inline]
    pub fn finish(mut self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { self.search(u32::MAX, VARINT).map(drop) }
    }

    /// Whether the next field has this number, once those with lower ones are passed over. Reads its
    /// key then. Inlined, it is a comparison with one byte, or two.
    #[inline(always)]
    fn comes_to(&mut self, number: u32, wire: u32) -> Result<bool, Malformed> {
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
    fn search(&mut self, number: u32, wire: u32) -> Result<bool, Malformed> {
        while !self.rest.is_empty() {
            let mut ahead = *self;
            let (found, found_wire) = ahead.key()?;
            if number < found {
                return Ok(false);
            }
            if found < self.least {
                return Err(Malformed::Order(found));
            }
            if number == found {
                *self = ahead;
                return if found_wire == wire { Ok(true) } else { Err(Malformed::Type(found)) };
            }
            ahead.skip(found, found_wire)?;
            *self = Self { least: found, ..ahead };
        }
        Ok(false)
    }

    fn key(&mut self) -> Result<(u32, u32), Malformed> {
        let key = self.varint(0)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        Ok((number.ok_or(Malformed::Number(key >> 3))?, (key & 7) as u32))
    }

    fn skip(&mut self, number: u32, wire: u32) -> Result<(), Malformed> {
        match wire {
            VARINT => Varint::read(self, number).map(drop),
            FIXED64 => Fixed64::read(self, number).map(drop),
            FIXED32 => Fixed32::read(self, number).map(drop),
            BYTES => Bytes::read(self, number).map(drop),
            _ => Err(Malformed::Type(number)),
        }
    }

    /// Most have one byte.
    #[inline(always)]
    fn varint(&mut self, number: u32) -> Result<u64, Malformed> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(number),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, number: u32) -> Result<u64, Malformed> {
        // Those of up to four bytes, without a branch on how many: lengths follow no pattern.
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
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated(number))?;
            self.rest = rest;
            let low = u64::from(byte & 0x7f);
            if low << shift >> shift != low {
                return Err(Malformed::Varint(number));
            }
            value |= low << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Varint(number))
    }

    /// What has not been read.
    pub(crate) const fn rest(&self) -> &'b [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self, number: u32) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated(number))?;
        self.rest = rest;
        Ok(*array)
    }
}

impl<'b> Value<'b> for Varint {
    const WIRE: u32 = VARINT;

    #[inline(always)]
    fn read(reader: &mut Reader<'b>, number: u32) -> Result<Self, Malformed> {
        reader.varint(number).map(|value| Self { number, value })
    }
}

impl<'b> Value<'b> for Fixed64 {
    const WIRE: u32 = FIXED64;

    #[inline]
    fn read(reader: &mut Reader<'b>, number: u32) -> Result<Self, Malformed> {
        reader.array(number).map(|bytes| Self(u64::from_le_bytes(bytes)))
    }
}

impl<'b> Value<'b> for Fixed32 {
    const WIRE: u32 = FIXED32;

    #[inline]
    fn read(reader: &mut Reader<'b>, number: u32) -> Result<Self, Malformed> {
        reader.array(number).map(|bytes| Self(u32::from_le_bytes(bytes)))
    }
}

impl<'b> Value<'b> for Bytes<'b> {
    const WIRE: u32 = BYTES;

    #[inline]
    fn read(reader: &mut Reader<'b>, number: u32) -> Result<Self, Malformed> {
        let len = usize::try_from(reader.varint(number)?).ok();
        let parts = len.and_then(|len| reader.rest.split_at_checked(len));
        let (bytes, rest) = parts.ok_or(Malformed::Truncated(number))?;
        reader.rest = rest;
        Ok(Self { number, bytes })
    }
}

impl Varint {
    /// `uint64`, or an enumeration.
    ///
    /// # Errors
    ///
    /// Never. Of all that follow: when it is not what that type holds.
    pub const fn uint(self) -> Result<u64, Malformed> {
        Ok(self.value)
    }

    /// `uint32`.
    pub fn uint32(self) -> Result<u32, Malformed> {
        let value = self.uint()?;
        u32::try_from(value).map_err(|_| self.out_of_range(value))
    }

    /// A position, of `uint32`.
    pub fn position(self) -> Result<usize, Malformed> {
        self.uint32().map(|value| value as usize)
    }

    /// `sint64`.
    pub fn sint(self) -> Result<i64, Malformed> {
        let value = self.uint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// `bool`.
    pub fn flag(self) -> Result<bool, Malformed> {
        match self.uint()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(self.out_of_range(value)),
        }
    }

    /// `uint64` or an enumeration, or nothing that the field may hold where `known` finds it to be
    /// none.
    pub fn known<T>(self, known: impl FnOnce(u64) -> Option<T>) -> Result<T, Malformed> {
        known(self.value).ok_or(self.out_of_range(self.value))
    }

    /// That it cannot be `value`.
    const fn out_of_range(self, value: u64) -> Malformed {
        Malformed::Range { number: self.number, value }
    }
}

impl Fixed64 {
    /// `fixed64`.
    ///
    /// # Errors
    ///
    /// Never.
    pub const fn uint(self) -> Result<u64, Malformed> {
        Ok(self.0)
    }
}

impl<'b> Bytes<'b> {
    /// `bytes`.
    ///
    /// # Errors
    ///
    /// Never. Of all that follow: when it is not what that type holds.
    pub const fn bytes(self) -> Result<&'b [u8], Malformed> {
        Ok(self.bytes)
    }

    /// `string`.
    pub fn text(self) -> Result<&'b str, Malformed> {
        std::str::from_utf8(self.bytes).map_err(|_| Malformed::Text(self.number))
    }

    /// A message.
    pub fn message(self) -> Result<Reader<'b>, Malformed> {
        Ok(Reader::new(self.bytes))
    }

    /// `repeated uint32`, packed: each goes to `each`.
    pub fn packed(
        self,
        mut each: impl FnMut(u32) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut values = Reader::new(self.bytes);
        while !values.rest.is_empty() {
            let value = values.varint(self.number)?;
            each(u32::try_from(value).map_err(|_| self.out_of_range(value))?)?;
        }
        Ok(())
    }

    /// `string`, or nothing that the field may hold where `parse` finds it to be none.
    pub fn parsed<T>(self, parse: impl FnOnce(&'b str) -> Option<T>) -> Result<T, Malformed> {
        parse(self.text()?).ok_or(Malformed::Value(self.number))
    }

    /// That it cannot hold `value`.
    pub const fn out_of_range(self, value: u64) -> Malformed {
        Malformed::Range { number: self.number, value }
    }
}

/// Whether a record of this version can be read: one without any cannot.
///
/// # Errors
///
/// [`Malformed::Version`].
pub const fn check_version(version: u64) -> Result<(), Malformed> {
    if version == VERSION as u64 { Ok(()) } else { Err(Malformed::Version(version)) }
}

#[cfg(test)]
mod tests;

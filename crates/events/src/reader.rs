//! Protobuf, read where it stands. Knows the wire and no schema; the bytes may be anything.
//!
//! A message within a message is bytes, until somebody asks: nesting is as deep as the schema, and
//! what a reader does not know costs it nothing.

use crate::writer::{BYTES, FIXED32, FIXED64, VARINT};
use crate::{LENGTH, RECORD_BYTES_MAX, VERSION};

/// Bytes of the field that ends a record: two of its key, four of its value.
const END_BYTES: usize = 6;

const _: () = assert!(LENGTH >= 16 && LENGTH < 2048, "the key of the last field has two bytes");

/// Reads the fields of one message, in the order in which they stand.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'b> {
    /// Its number in the schema.
    pub number: u32,
    value: Value<'b>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
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
    /// Behind one with a higher number.
    #[error("field {0} stands out of order")]
    Order(u32),
}

impl<'b> Reader<'b> {
    /// Of a message within another.
    pub const fn new(message: &'b [u8]) -> Self {
        Self { rest: message }
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
        match Self::new(end).next() {
            Ok(Some(Field { number: LENGTH, value: Value::Fixed32(len) }))
                if len as usize == at =>
            {
                Ok(Self::new(rest))
            }
            _ => Err(Malformed::Length),
        }
    }

    /// The next field of a record, whose fields stand in the order of their numbers: `last` is the
    /// number of the one before, from 0.
    ///
    /// # Errors
    ///
    /// As [`Reader::next`], and when it is out of order.
    pub fn next_in_order(&mut self, last: &mut u32) -> Result<Option<Field<'b>>, Malformed> {
        let field = self.next()?;
        if let Some(Field { number, .. }) = field {
            if number < *last {
                return Err(Malformed::Order(number));
            }
            *last = number;
        }
        Ok(field)
    }

    /// The next field; `None` when there are no more.
    ///
    /// # Errors
    ///
    /// When no field stands here; nothing is to be read on after that.
    #[expect(clippy::should_implement_trait, reason = "`?` reads better than items that may fail")]
    pub fn next(&mut self) -> Result<Option<Field<'b>>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint(0)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(Malformed::Number(key >> 3))?;
        let value = match u32::try_from(key & 7) {
            Ok(VARINT) => Value::Varint(self.varint(number)?),
            Ok(FIXED64) => Value::Fixed64(u64::from_le_bytes(self.array(number)?)),
            Ok(FIXED32) => Value::Fixed32(u32::from_le_bytes(self.array(number)?)),
            Ok(BYTES) => {
                let len = self.varint(number)?;
                let len = usize::try_from(len).map_err(|_| Malformed::Truncated(number))?;
                Value::Bytes(self.take(len, number)?)
            }
            _ => return Err(Malformed::Type(number)),
        };
        Ok(Some(Field { number, value }))
    }

    fn varint(&mut self, number: u32) -> Result<u64, Malformed> {
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

    fn array<const N: usize>(&mut self, number: u32) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated(number))?;
        self.rest = rest;
        Ok(*array)
    }

    fn take(&mut self, len: usize, number: u32) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Truncated(number))?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'b> Field<'b> {
    /// `uint64`, or an enumeration.
    ///
    /// # Errors
    ///
    /// This and all that follow: when the field is of another type, or holds what that type cannot.
    pub fn uint(self) -> Result<u64, Malformed> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(Malformed::Type(self.number)),
        }
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

    /// `fixed64`.
    pub fn fixed64(self) -> Result<u64, Malformed> {
        match self.value {
            Value::Fixed64(value) => Ok(value),
            _ => Err(Malformed::Type(self.number)),
        }
    }

    /// `bytes`.
    pub fn bytes(self) -> Result<&'b [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::Type(self.number)),
        }
    }

    /// `string`.
    pub fn text(self) -> Result<&'b str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Text(self.number))
    }

    /// A message.
    pub fn message(self) -> Result<Reader<'b>, Malformed> {
        self.bytes().map(Reader::new)
    }

    /// `repeated uint32`, packed: each goes to `each`.
    pub fn packed(
        self,
        mut each: impl FnMut(u32) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut values = self.message()?;
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

    /// `uint64` or an enumeration, or nothing that the field may hold where `known` finds it to be
    /// none.
    pub fn known<T>(self, known: impl FnOnce(u64) -> Option<T>) -> Result<T, Malformed> {
        let value = self.uint()?;
        known(value).ok_or(self.out_of_range(value))
    }

    /// That it cannot be `value`.
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

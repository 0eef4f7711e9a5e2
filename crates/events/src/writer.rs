//! Writes protobuf into a reusable buffer, without knowing the schema. Fields written in the order
//! of their numbers give the same bytes as prost.

use crate::schema::LENGTH;

/// Wire types of the protobuf encoding.
pub(crate) const VARINT: u32 = 0;
pub(crate) const FIXED64: u32 = 1;
pub(crate) const BYTES: u32 = 2;
pub(crate) const FIXED32: u32 = 5;

/// Writes one message after the content of a buffer, without allocating once that has room.
///
/// As in proto3, a field without presence is omitted at its default, a field with presence if None.
#[derive(Debug)]
pub struct MessageWriter<'v> {
    out: &'v mut Vec<u8>,
    start: usize,
}

impl<'v> MessageWriter<'v> {
    /// Begins a message at the end of `out`.
    pub const fn new(out: &'v mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start }
    }

    /// Bytes of the message so far.
    pub const fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether nothing has been written yet.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Truncates the message to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.out.truncate(self.start + len);
    }

    /// `uint32`, `uint64` or an enumeration.
    pub fn uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.present_uint(field, Some(value));
        }
    }

    /// `optional uint32` or `uint64`.
    pub fn present_uint(&mut self, field: u32, value: Option<u64>) {
        if let Some(value) = value {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    /// A position, as `uint32`.
    pub fn position(&mut self, field: u32, value: usize) {
        self.uint(field, value as u64);
    }

    /// A position, as `optional uint32`.
    pub fn present_position(&mut self, field: u32, value: Option<usize>) {
        self.present_uint(field, value.map(|value| value as u64));
    }

    /// `sint32` or `sint64`: zigzag, so that values near zero are short whatever their sign.
    pub fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
    }

    /// `bool`.
    pub fn flag(&mut self, field: u32, value: bool) {
        self.uint(field, value.into());
    }

    /// `fixed64`.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, FIXED64);
            self.out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// `string`.
    pub fn text(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.present_bytes(field, Some(value.as_bytes()));
        }
    }

    /// `optional string`.
    pub fn present_text(&mut self, field: u32, value: Option<&str>) {
        self.present_bytes(field, value.map(str::as_bytes));
    }

    /// `bytes`.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.present_bytes(field, Some(value));
        }
    }

    /// `optional bytes`.
    pub fn present_bytes(&mut self, field: u32, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.key(field, BYTES);
            self.varint(value.len() as u64);
            self.out.extend_from_slice(value);
        }
    }

    /// `repeated uint32` or `uint64`, packed.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.message(field, |inner| values.for_each(|value| inner.varint(value)));
        }
    }

    /// A nested message, which may be empty; once for each of a repeated field.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut MessageWriter<'_>)) {
        self.key(field, BYTES);
        let at = self.out.len();
        // Most messages need one byte for the length. Longer ones are moved.
        self.out.push(0);
        let mut inner = MessageWriter::new(self.out);
        write(&mut inner);
        let len = inner.len();
        let (bytes, width) = varint(len as u64);
        if width > 1 {
            let end = self.out.len();
            self.out.resize(end + width - 1, 0);
            self.out.copy_within(at + 1..end, at + width);
        }
        self.out[at..at + width].copy_from_slice(&bytes[..width]);
    }

    /// Ends a record with its length, so that a part of it is not taken for the whole.
    pub fn finish(self) {
        let len = u32::try_from(self.len()).expect("a record is far below 4 GiB");
        let (key, width) = varint(key(LENGTH, FIXED32));
        self.out.extend_from_slice(&key[..width]);
        self.out.extend_from_slice(&len.to_le_bytes());
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(key(field, wire_type));
    }

    fn varint(&mut self, value: u64) {
        match u8::try_from(value) {
            Ok(byte) if byte < 0x80 => self.out.push(byte),
            _ => {
                let (bytes, width) = varint(value);
                self.out.extend_from_slice(&bytes[..width]);
            }
        }
    }
}

fn key(field: u32, wire_type: u32) -> u64 {
    u64::from(field << 3 | wire_type)
}

/// `value` as a varint, and its length.
fn varint(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut width = 0;
    loop {
        let low = value.to_le_bytes()[0];
        value >>= 7;
        bytes[width] = if value == 0 { low & 0x7f } else { low | 0x80 };
        width += 1;
        if value == 0 {
            return (bytes, width);
        }
    }
}

#[cfg(test)]
mod tests;

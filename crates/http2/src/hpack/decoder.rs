//! Decodes header blocks. Must not know what a field means.

use super::dynamic_table::{DynamicTable, EntryName};
use super::error::HpackError;
use super::static_table::{STATIC_LENGTH, static_field};
use super::{TABLE_BYTES_DEFAULT, huffman, integer};

/// The decoder of one direction of a connection.
#[derive(Debug)]
pub struct FieldDecoder {
    table: DynamicTable,
    /// Huffman strings of the current field.
    plain: Vec<u8>,
}

impl Default for FieldDecoder {
    fn default() -> Self {
        Self { table: DynamicTable::new(TABLE_BYTES_DEFAULT), plain: Vec::new() }
    }
}

/// Where a string of the current field is.
#[derive(Clone, Copy)]
enum FieldText<'b> {
    Block(&'b [u8]),
    /// In the buffer for Huffman strings.
    Plain(usize, usize),
}

impl<'b> FieldText<'b> {
    fn of(self, plain: &'b [u8]) -> &'b [u8] {
        match self {
            Self::Block(text) => text,
            Self::Plain(start, end) => &plain[start..end],
        }
    }
}

impl FieldDecoder {
    /// Decodes one whole block, and calls `on_field` with each name and value. Takes time in
    /// proportion to the block, however large its fields are once decoded.
    ///
    /// # Errors
    /// The block is malformed; the decoder must not be used again.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        mut on_field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut may_resize = true;
        while let Some((&first, rest)) = block.split_first() {
            block = rest;
            if first & 0xe0 == 0x20 {
                let size = integer::read(first, 5, &mut block)?;
                if !may_resize || size > TABLE_BYTES_DEFAULT {
                    return Err(HpackError::SizeUpdate);
                }
                self.table.resize(size);
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                let (name, value) = self.field(integer::read(first, 7, &mut block)?)?;
                on_field(name, value);
            } else {
                self.literal(first, &mut block, &mut on_field)?;
            }
        }
        Ok(())
    }

    /// The field at an index of both tables.
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let found = match index.checked_sub(STATIC_LENGTH + 1) {
            Some(index) => self.table.get(index),
            None => static_field(index),
        };
        found.ok_or(HpackError::UnknownIndex)
    }

    fn literal(
        &mut self,
        first: u8,
        block: &mut &[u8],
        on_field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let is_kept = first & 0x40 != 0;
        let index = integer::read(first, if is_kept { 6 } else { 4 }, block)?;
        self.plain.clear();
        let literal = if index == 0 { Some(self.text(block)?) } else { None };
        let value = self.text(block)?;
        let value = value.of(&self.plain);
        let name = match literal {
            Some(name) => name.of(&self.plain),
            None => self.field(index)?.0,
        };
        on_field(name, value);
        if is_kept {
            let name = match index.checked_sub(STATIC_LENGTH + 1) {
                Some(index) => EntryName::Same(index),
                None => match literal {
                    Some(name) => EntryName::Literal(name.of(&self.plain)),
                    None => {
                        EntryName::Literal(static_field(index).ok_or(HpackError::UnknownIndex)?.0)
                    }
                },
            };
            self.table.insert(name, value);
        }
        Ok(())
    }

    /// Reads a string (section 5.2).
    fn text<'b>(&mut self, block: &mut &'b [u8]) -> Result<FieldText<'b>, HpackError> {
        let (&first, rest) = block.split_first().ok_or(HpackError::Truncated)?;
        *block = rest;
        let length = integer::read(first, 7, block)?;
        let (text, rest) = block.split_at_checked(length).ok_or(HpackError::Truncated)?;
        *block = rest;
        if first & 0x80 == 0 {
            return Ok(FieldText::Block(text));
        }
        let start = self.plain.len();
        huffman::decode(text, &mut self.plain)?;
        Ok(FieldText::Plain(start, self.plain.len()))
    }
}

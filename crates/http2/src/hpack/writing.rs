//! Representations of header fields (RFC 7541, section 6). Strings are not Huffman-coded.

use super::integer;
use super::static_table::static_name_index;

/// Whether the decoder keeps a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It becomes the newest entry of the dynamic table.
    Incremental,
    /// It is not kept.
    Without,
}

/// Appends an indexed field; 1 is the first of the static table.
pub fn write_indexed(out: &mut Vec<u8>, index: usize) {
    integer::write(out, 0x80, 7, index);
}

/// Appends a literal field; its name is an index if the static table has it.
pub fn write_literal(out: &mut Vec<u8>, name: &[u8], value: &[u8], indexing: Indexing) {
    write_literal_name(out, name, indexing);
    write_string(out, value);
}

/// Appends a literal field up to its value, which must follow as a string.
pub fn write_literal_name(out: &mut Vec<u8>, name: &[u8], indexing: Indexing) {
    let (pattern, bits) = match indexing {
        Indexing::Incremental => (0x40, 6),
        Indexing::Without => (0x00, 4),
    };
    match static_name_index(name) {
        Some(index) => integer::write(out, pattern, bits, index),
        None => {
            out.push(pattern);
            write_string(out, name);
        }
    }
}

/// Appends a change of the dynamic table's size.
pub fn write_size_update(out: &mut Vec<u8>, size_max: usize) {
    integer::write(out, 0x20, 5, size_max);
}

/// Appends a string.
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    integer::write(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

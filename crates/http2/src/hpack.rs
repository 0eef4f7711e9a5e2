//! Header compression (RFC 7541).

mod decoder;
mod dynamic_table;
mod error;
mod huffman;
mod integer;
mod static_table;
mod writing;

pub use decoder::FieldDecoder;
pub use error::HpackError;
pub use static_table::{STATIC_LENGTH, static_field, static_index, static_name_index};
pub use writing::{
    Indexing, write_indexed, write_literal, write_literal_name, write_size_update, write_string,
};

/// Size of a dynamic table until a setting changes it (RFC 9113, section 6.5.2).
pub const TABLE_BYTES_DEFAULT: usize = 4096;

/// What an entry of a dynamic table counts beyond its name and value (section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

#[cfg(test)]
mod tests;

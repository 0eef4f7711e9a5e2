//! The version of the records, and what all records have in common.

#[cfg(test)]
mod tests;

use crate::fields;

/// The version of records that is written, and the highest that is read.
pub const VERSION: u32 = 1;

/// The longest record.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Number of the field that ends every record: the number of bytes before it.
pub const LENGTH: u32 = 2047;

const _: () = assert!(
    LENGTH == fields::auction::LENGTH
        && LENGTH == fields::generation::LENGTH
        && LENGTH == fields::gap::LENGTH
        && LENGTH == fields::lot::LENGTH
        && LENGTH == fields::publication::LENGTH
        && LENGTH == fields::settlements::LENGTH
        && LENGTH == fields::watermark::LENGTH,
    "every record ends in the same way"
);

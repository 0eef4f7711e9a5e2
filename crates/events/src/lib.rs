//! What is recorded, and its bytes: the schema of `proto/`, as types and as numbers of fields, and
//! how records are written without an allocation and read without a copy.
//!
//! Knows no rule of an auction, and not where records are kept. Nothing here does I/O.
//!
//! Records are protobuf, so that anybody can read them; [`v1`] has them as prost does. Who writes or
//! reads many uses a [`Writer`] or a [`Reader`] with the numbers in [`fields`]: what it writes is,
//! byte for byte, what prost would.

mod gap;
mod kind;
mod plain;
mod reader;
mod watermark;
mod writer;

pub use gap::Gap;
pub use kind::Kind;
pub use plain::{MessageFields, PlainFields, PlainValue};
pub use reader::{Bytes, Fixed64, Malformed, Reader, Value, Varint, check_version};
pub use watermark::Watermark;
pub use writer::Writer;

/// The version of records that is written, and the highest that is read.
pub const VERSION: u32 = 1;

/// The longest record.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// The number of the field that ends every record: how many bytes stand before it.
pub const LENGTH: u32 = 2047;

const _: () = assert!(
    LENGTH == fields::auction::LENGTH
        && LENGTH == fields::generation::LENGTH
        && LENGTH == fields::gap::LENGTH
        && LENGTH == fields::watermark::LENGTH,
    "every record ends in the same way"
);

/// Version 1 of the schema, as types.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/vickrey.v1.rs"));
}

/// Numbers of the fields of each message.
pub mod fields {
    include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
}

#[cfg(test)]
mod tests {
    /// Whoever adds to the schema adds a line here; whoever changes a line breaks every reader of
    /// what has been written.
    #[test]
    fn numbers_and_types_are_never_changed() {
        let now: Vec<_> = include_str!(concat!(env!("OUT_DIR"), "/schema.txt")).lines().collect();
        let known: Vec<_> = include_str!("../golden/v1/schema.txt").lines().collect();
        let changed: Vec<_> = known.iter().filter(|line| !now.contains(line)).collect();
        assert!(changed.is_empty(), "changed or removed: {changed:#?}");
        let added: Vec<_> = now.iter().filter(|line| !known.contains(line)).collect();
        assert!(added.is_empty(), "not yet in golden/v1/schema.txt: {added:#?}");
    }
}

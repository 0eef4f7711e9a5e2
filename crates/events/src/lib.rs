//! The schema of records (`proto/`), as types and as field numbers, with a writer that does not
//! allocate and a reader that does not copy. No I/O.
//!
//! Records are protobuf, so that any tool can read them; [`v1`] has prost's types. Code that writes
//! or reads many uses a [`MessageWriter`] or [`MessageReader`] with the numbers in [`fields`],
//! whose output equals prost's byte for byte.

pub mod fields;
mod gap;
mod kind;
mod lot;
mod plain;
mod publication;
mod reader;
mod schema;
mod settlements;
pub mod v1;
mod watermark;
mod writer;

pub use gap::Gap;
pub use kind::RecordKind;
pub use plain::{MessageFields, PlainFields, PlainValue};
pub use publication::Publication;
pub use reader::{
    Bytes, FieldValue, Fixed64, MalformedRecord, MessageReader, Varint, check_version,
};
pub use schema::{LENGTH, RECORD_BYTES_MAX, VERSION};
pub use settlements::{SettlementsReader, SettlementsWriter, WinRecord};
pub use watermark::Watermark;
pub use writer::MessageWriter;

//! What is recorded, and its bytes: the schema of `proto/`, as types and as numbers of fields, and
//! how records are written without an allocation and read without a copy.
//!
//! Knows no rule of an auction, and not where records are kept. Nothing here does I/O.
//!
//! Records are protobuf, so that anybody can read them; [`v1`] has them as prost does. Who writes or
//! reads many uses a [`Writer`] or a [`Reader`] with the numbers in [`fields`]: what it writes is,
//! byte for byte, what prost would.

pub mod fields;
mod gap;
mod kind;
mod plain;
mod reader;
mod schema;
pub mod v1;
mod watermark;
mod writer;

pub use gap::Gap;
pub use kind::Kind;
pub use plain::{MessageFields, PlainFields, PlainValue};
pub use reader::{Bytes, Fixed64, Malformed, Reader, Value, Varint, check_version};
pub use schema::{LENGTH, RECORD_BYTES_MAX, VERSION};
pub use watermark::Watermark;
pub use writer::Writer;

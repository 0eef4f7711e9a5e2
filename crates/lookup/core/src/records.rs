//! Records of providers: read from the bodies of answers, renamed to the fields of queries, and merged.

mod body;
mod csv;
mod error;
mod json;
mod limits;
mod merge;
mod schema;
mod set;
mod value;
mod xml;

#[cfg(test)]
mod tests;

pub use body::read;
pub use error::UnreadableRecords;
pub use limits::RecordLimits;
pub(crate) use merge::SourceUnions;
pub use merge::{MergedRecord, MergedRecords, merge};
pub(crate) use schema::primary_field;
pub use schema::{RecordSchema, primary_fields};
pub use set::{RecordRow, RecordSet, to_json, value_at};
pub use value::RecordValue;

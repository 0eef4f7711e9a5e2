//! Reads the records of an answer.

use crate::map::{RecordForm, RecordFormat};

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::schema::RecordSchema;
use super::set::RecordSet;
use super::{csv, json, xml};

/// Reads all records of a body.
///
/// # Errors
/// See [`UnreadableRecords`]. Nothing of the body counts then.
pub fn read(
    form: &RecordForm,
    schema: &RecordSchema,
    body: &[u8],
    limits: RecordLimits,
) -> Result<RecordSet, UnreadableRecords> {
    match form.format {
        RecordFormat::Json => json::read(form, schema, body, limits),
        RecordFormat::Ndjson => json::read_lines(schema, body, limits),
        RecordFormat::Csv => csv::read(schema, body, limits),
        RecordFormat::Xml => xml::read(form, schema, body, limits),
    }
}

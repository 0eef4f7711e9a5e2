//! Reads the records of an answer.

use crate::map::{RecordForm, RecordFormat};

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::schema::RecordSchema;
use super::set::{RecordRow, RecordSet, value_at};
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
    let set = match form.format {
        RecordFormat::Json => json::read(form, schema, body, limits),
        RecordFormat::Ndjson => json::read_lines(schema, body, limits),
        RecordFormat::Csv => csv::read(schema, body, limits),
        RecordFormat::Xml => xml::read(form, schema, body, limits),
    }?;
    // An object with a message, or a page of any kind, has the form of a record at times.
    let columns: Vec<_> = schema.primary.iter().filter_map(|field| set.field(field)).collect();
    let has_name = |row: &RecordRow| columns.iter().any(|at| value_at(row, *at).is_present());
    if !set.rows.is_empty() && !set.rows.iter().any(has_name) {
        return Err(UnreadableRecords::NoNames(schema.primary.join("` or `")));
    }
    Ok(set)
}

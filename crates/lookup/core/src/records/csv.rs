//! Records in comma-separated values (RFC 4180), with the names of members in the first line.

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::schema::RecordSchema;
use super::set::RecordSet;
use super::value::RecordValue;

/// Reads a body.
pub(super) fn read(
    schema: &RecordSchema,
    body: &[u8],
    limits: RecordLimits,
) -> Result<RecordSet, UnreadableRecords> {
    let malformed = |error: ::csv::Error| UnreadableRecords::Malformed("CSV", error.to_string());
    let mut csv = ::csv::Reader::from_reader(body);
    let mut set = RecordSet { fields: schema.fields.clone(), rows: Vec::new() };
    // For each column, the index of its field.
    let mut columns = Vec::new();
    let headers = csv.headers().map_err(malformed)?;
    if limits.fields_max < headers.len() {
        return Err(UnreadableRecords::TooManyFields(limits.fields_max));
    }
    let names_any = |name: &str| {
        let field = schema.others.as_ref().map(|key| format!("{key}.{name}"));
        schema.root.member(name).is_some() || field.is_some_and(|of| schema.primary.contains(&of))
    };
    if !headers.is_empty() && !headers.iter().any(names_any) {
        let problem = "the first line names no member that the map knows".to_owned();
        return Err(UnreadableRecords::Malformed("CSV", problem));
    }
    for name in headers {
        let node = schema.root.member(name);
        let known = node.and_then(|node| node.field);
        let other = schema.others.as_ref().filter(|_| node.is_none());
        let other = other.map(|key| format!("{key}.{name}"));
        let other = other.filter(|of| schema.may_keep(of, name) && set.field(of).is_none());
        columns.push(known.or_else(|| {
            set.fields.push(other?);
            Some(set.fields.len() - 1)
        }));
        if limits.fields_max < set.fields.len() {
            return Err(UnreadableRecords::TooManyFields(limits.fields_max));
        }
    }
    let records_max = limits.records_max.min(limits.values_max / set.fields.len().max(1));
    for record in csv.records() {
        let record = record.map_err(malformed)?;
        if set.rows.len() == limits.records_max {
            return Err(UnreadableRecords::TooManyRecords(limits.records_max));
        }
        if set.rows.len() == records_max {
            return Err(UnreadableRecords::TooManyValues(limits.values_max));
        }
        let mut row = vec![RecordValue::Absent; set.fields.len()];
        for (text, field) in record.iter().zip(&columns) {
            // An empty cell is no text.
            if let Some(field) = field.filter(|_| !text.is_empty()) {
                row[field] = RecordValue::of_text(text);
            }
        }
        set.rows.push(row.into());
    }
    Ok(set)
}

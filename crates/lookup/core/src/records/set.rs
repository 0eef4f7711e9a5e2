//! Records as rows of fields.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::value::RecordValue;

/// The values of one record, by the fields of its set. Those behind the last one are absent. Answers of
/// calls and of queries share them.
pub type RecordRow = Arc<[RecordValue]>;

/// Records with the same fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordSet {
    /// Names of the fields: a key and the names of its attribute.
    pub fields: Vec<String>,
    /// The records.
    pub rows: Vec<RecordRow>,
}

/// Bytes before the values of a row: who shares it.
pub(super) const ROW_BYTES: usize = 2 * size_of::<usize>();

/// What a row has beyond its end.
static ABSENT: RecordValue = RecordValue::Absent;

/// The value of a field in a row.
pub fn value_at(row: &RecordRow, at: usize) -> &RecordValue {
    row.get(at).unwrap_or(&ABSENT)
}

impl RecordSet {
    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let names: usize = self.fields.iter().map(|name| size_of::<String>() + name.len()).sum();
        let row = |row: &RecordRow| {
            let values: usize = row.iter().map(RecordValue::bytes).sum();
            size_of::<RecordRow>() + ROW_BYTES + values
        };
        names + self.rows.iter().map(row).sum::<usize>()
    }

    /// The texts of a field, each once, in the order of the records. Those that do not have it have none.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let Some(column) = self.field(name) else { return Vec::new() };
        let mut known = HashSet::new();
        let values = self.rows.iter().map(|row| value_at(row, column));
        let texts = values.filter(|value| value.is_present()).map(RecordValue::text);
        let texts = texts.filter(|text| known.insert(text.clone()));
        texts.map(Cow::into_owned).collect()
    }

    /// The index of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field == name)
    }
}

/// A record as JSON: attributes are nested below their keys.
pub fn to_json(fields: &[String], row: &RecordRow) -> Value {
    let mut record = Map::new();
    for (field, value) in fields.iter().zip(&**row) {
        if *value != RecordValue::Absent {
            insert(&mut record, field, value.to_json());
        }
    }
    Value::Object(record)
}

/// Inserts a value below the names of a field. What is already where an object must be makes room.
fn insert(object: &mut Map<String, Value>, field: &str, value: Value) {
    let Some((name, rest)) = field.split_once('.') else {
        object.insert(field.to_owned(), value);
        return;
    };
    let below = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    if let Value::Object(below) = below {
        insert(below, rest, value);
    }
}

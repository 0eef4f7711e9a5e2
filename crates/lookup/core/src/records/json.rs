//! Records in JSON, and in lines of JSON. What the map does not name is skipped without being kept.

use std::collections::HashMap;
use std::fmt::{self, Formatter};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::schema::{RecordSchema, SchemaNode};
use super::set::RecordSet;
use super::value::RecordValue;
use crate::map::RecordForm;

/// Reads a body that is one JSON value.
pub(super) fn read(
    form: &RecordForm,
    schema: &RecordSchema,
    body: &[u8],
    limits: RecordLimits,
) -> Result<RecordSet, UnreadableRecords> {
    let mut reader = JsonReader::new(schema, limits);
    reader.value(body, &form.path)?;
    if !reader.is_found {
        return Err(UnreadableRecords::NoRecords(form.path.join(".")));
    }
    Ok(reader.set)
}

/// Reads a body with a record on each line that is not blank.
pub(super) fn read_lines(
    schema: &RecordSchema,
    body: &[u8],
    limits: RecordLimits,
) -> Result<RecordSet, UnreadableRecords> {
    let mut reader = JsonReader::new(schema, limits);
    for line in body.split(|byte| *byte == b'\n') {
        if !line.iter().all(u8::is_ascii_whitespace) {
            reader.value(line, &[])?;
        }
    }
    Ok(reader.set)
}

struct JsonReader<'s> {
    schema: &'s RecordSchema,
    limits: RecordLimits,
    set: RecordSet,
    /// Of the last record, for the next one.
    room: Vec<RecordValue>,
    /// Fields of members that the map does not name.
    others: HashMap<String, usize>,
    /// Values of all records so far.
    values: usize,
    /// Whether the path of the records was met.
    is_found: bool,
    /// Why reading ended, if the text is not to blame.
    failure: Option<UnreadableRecords>,
}

impl<'s> JsonReader<'s> {
    fn new(schema: &'s RecordSchema, limits: RecordLimits) -> Self {
        let set = RecordSet { fields: schema.fields.clone(), rows: Vec::new() };
        Self {
            room: Vec::new(),
            schema,
            limits,
            set,
            others: HashMap::new(),
            values: 0,
            is_found: false,
            failure: None,
        }
    }

    fn value(&mut self, text: &[u8], path: &[String]) -> Result<(), UnreadableRecords> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let read = BodySeed { reader: self, path }.deserialize(&mut json).and_then(|()| json.end());
        read.map_err(|error| {
            let malformed = || UnreadableRecords::Malformed("JSON", error.to_string());
            self.failure.take().unwrap_or_else(malformed)
        })
    }

    /// Ends reading for this reason.
    fn fail<E: Error>(&mut self, failure: UnreadableRecords) -> E {
        let error = E::custom(&failure);
        self.failure = Some(failure);
        error
    }

    fn begin_record<E: Error>(&mut self) -> Result<Vec<RecordValue>, E> {
        if self.set.rows.len() == self.limits.records_max {
            return Err(self.fail(UnreadableRecords::TooManyRecords(self.limits.records_max)));
        }
        let mut row = std::mem::take(&mut self.room);
        row.clear();
        row.resize(self.schema.fields.len(), RecordValue::Absent);
        Ok(row)
    }

    fn end_record<E: Error>(&mut self, mut row: Vec<RecordValue>) -> Result<(), E> {
        self.values += row.len();
        if self.limits.values_max < self.values {
            return Err(self.fail(UnreadableRecords::TooManyValues(self.limits.values_max)));
        }
        self.set.rows.push(row.drain(..).collect());
        self.room = row;
        Ok(())
    }

    /// The index of the field of a member that the map does not name. None if it is not kept.
    fn other<E: Error>(&mut self, name: &str) -> Result<Option<usize>, E> {
        let Some(key) = &self.schema.others else { return Ok(None) };
        if let Some(at) = self.others.get(name) {
            return Ok(Some(*at));
        }
        let field = format!("{key}.{name}");
        if !self.schema.may_keep(&field, name) {
            return Ok(None);
        }
        if self.set.fields.len() == self.limits.fields_max {
            return Err(self.fail(UnreadableRecords::TooManyFields(self.limits.fields_max)));
        }
        let at = self.set.fields.len();
        self.set.fields.push(field);
        self.others.insert(name.to_owned(), at);
        Ok(Some(at))
    }
}

/// The body, of which a path leads to the records. Lists on the way are followed in all of their items.
struct BodySeed<'b, 's> {
    reader: &'b mut JsonReader<'s>,
    path: &'b [String],
}

impl<'de> DeserializeSeed<'de> for BodySeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a record, or a list of records")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.reader.is_found |= self.path.is_empty();
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.plain(RecordValue::Bool(value))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.plain(ValueVisitor.visit_i64(number)?)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.plain(ValueVisitor.visit_u64(number)?)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.plain(ValueVisitor.visit_f64(number)?)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.plain(ValueVisitor.visit_str(text)?)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { reader, path } = self;
        let mut is_empty = true;
        while let Some(()) = match path.is_empty() {
            true => items.next_element_seed(RecordSeed { reader })?,
            false => items.next_element_seed(BodySeed { reader, path })?,
        } {
            is_empty = false;
        }
        // Where there is nothing, nothing leads on.
        reader.is_found |= path.is_empty() || is_empty;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { reader, path } = self;
        let Some((name, rest)) = path.split_first() else {
            reader.is_found = true;
            let mut row = reader.begin_record()?;
            match reader.schema.root.field {
                Some(field) => row[field] = ValueVisitor.visit_map(members)?,
                None => NodeSeed::of_record(reader, &mut row).visit_map(members)?,
            }
            return reader.end_record(row);
        };
        while let Some(is_next) = members.next_key_seed(SameName(name))? {
            if is_next {
                members.next_value_seed(BodySeed { reader, path: rest })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl BodySeed<'_, '_> {
    /// A record that is a plain value, if the map knows such.
    fn plain<E: Error>(self, value: RecordValue) -> Result<(), E> {
        let Self { reader, path } = self;
        let Some(field) = reader.schema.root.field.filter(|_| path.is_empty()) else {
            return Err(E::custom("there is a plain value where records should be"));
        };
        reader.is_found = true;
        let mut row = reader.begin_record()?;
        row[field] = value;
        reader.end_record(row)
    }
}

/// A record of a list.
struct RecordSeed<'b, 's> {
    reader: &'b mut JsonReader<'s>,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let mut row = self.reader.begin_record()?;
        NodeSeed::of_record(self.reader, &mut row).deserialize(json)?;
        self.reader.end_record(row)
    }
}

/// Whether the name of a member is this.
struct SameName<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for SameName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for SameName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// A record, or a part of it.
struct NodeSeed<'b, 's> {
    reader: &'b mut JsonReader<'s>,
    row: &'b mut Vec<RecordValue>,
    node: &'s SchemaNode,
    is_record: bool,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self.node.field {
            Some(field) => {
                self.row[field] = json.deserialize_any(ValueVisitor)?;
                Ok(())
            }
            None => json.deserialize_any(self),
        }
    }
}

impl<'b, 's> NodeSeed<'b, 's> {
    fn of_record(reader: &'b mut JsonReader<'s>, row: &'b mut Vec<RecordValue>) -> Self {
        let schema = reader.schema;
        Self { reader, row, node: &schema.root, is_record: true }
    }

    /// A record is an object; what is expected within it may be something else, and is absent then.
    fn no_object<E: Error>(self) -> Result<(), E> {
        match self.is_record {
            true => Err(E::custom("a record is no object")),
            false => Ok(()),
        }
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.no_object()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.no_object()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.no_object()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.no_object()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.no_object()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.no_object()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.no_object()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { reader, row, node, is_record } = self;
        while let Some(member) = members.next_key_seed(MemberSeed { reader, node, is_record })? {
            match member {
                MemberRole::Ignored => drop(members.next_value::<IgnoredAny>()?),
                MemberRole::Known(node) => {
                    members.next_value_seed(NodeSeed { reader, row, node, is_record: false })?;
                }
                MemberRole::Other(at) => {
                    if row.len() <= at {
                        row.resize(at + 1, RecordValue::Absent);
                    }
                    row[at] = members.next_value_seed(ValueVisitor)?;
                }
            }
        }
        Ok(())
    }
}

/// What becomes of a member.
enum MemberRole<'s> {
    Ignored,
    Known(&'s SchemaNode),
    /// A field that the map does not name.
    Other(usize),
}

/// Finds out by its name.
struct MemberSeed<'b, 's> {
    reader: &'b mut JsonReader<'s>,
    node: &'s SchemaNode,
    is_record: bool,
}

impl<'de, 's> DeserializeSeed<'de> for MemberSeed<'_, 's> {
    type Value = MemberRole<'s>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<MemberRole<'s>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'s> Visitor<'_> for MemberSeed<'_, 's> {
    type Value = MemberRole<'s>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<MemberRole<'s>, E> {
        if let Some(node) = self.node.member(name) {
            return Ok(MemberRole::Known(node));
        }
        let other = if self.is_record { self.reader.other(name)? } else { None };
        Ok(other.map_or(MemberRole::Ignored, MemberRole::Other))
    }
}

/// The value of a field.
struct ValueVisitor;

impl<'de> DeserializeSeed<'de> for ValueVisitor {
    type Value = RecordValue;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<RecordValue, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = RecordValue;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RecordValue, E> {
        Ok(RecordValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RecordValue, E> {
        Ok(RecordValue::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RecordValue, E> {
        Ok(RecordValue::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RecordValue, E> {
        Ok(i64::try_from(number).map_or(RecordValue::Large(number), RecordValue::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RecordValue, E> {
        Ok(RecordValue::of_double(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<RecordValue, E> {
        Ok(RecordValue::Text(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<RecordValue, E> {
        Ok(RecordValue::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RecordValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RecordValue::Json(Box::new(Value::Array(list))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<RecordValue, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some((name, value)) = members.next_entry()? {
            object.insert(name, value);
        }
        Ok(RecordValue::Json(Box::new(Value::Object(object))))
    }
}

//! Records in XML. The path of the map leads through elements to those that are records; their
//! attributes and child elements are members, by name. A prefix is a part of a name. Entities but the
//! five of XML itself are refused, and document types are not read.

use quick_xml::events::{BytesStart, Event};
use std::collections::HashMap;

use quick_xml::{Reader, XmlVersion};

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::schema::{RecordSchema, SchemaNode};
use super::set::RecordSet;
use super::value::RecordValue;
use crate::map::RecordForm;

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 128;

/// Reads a body.
pub(super) fn read(
    form: &RecordForm,
    schema: &RecordSchema,
    body: &[u8],
    limits: RecordLimits,
) -> Result<RecordSet, UnreadableRecords> {
    let text = str::from_utf8(body).map_err(|error| malformed(&error))?;
    let set = RecordSet { fields: schema.fields.clone(), rows: Vec::new() };
    let mut reader = XmlReader {
        schema,
        limits,
        set,
        path: &form.path,
        open: Vec::new(),
        row: None,
        others: HashMap::new(),
        values: 0,
        followed: 0,
    };
    let mut xml = Reader::from_str(text);
    let mut has_root = false;
    loop {
        match xml.read_event().map_err(|error| malformed(&error))? {
            Event::Start(element) => {
                has_root = true;
                reader.begin(&element)?;
            }
            Event::Empty(element) => {
                has_root = true;
                reader.begin(&element)?;
                reader.end()?;
            }
            Event::End(_) => reader.end()?,
            Event::Text(text) => {
                reader.text(&text.xml10_content());
            }
            Event::CData(text) => {
                reader.text(&text.xml10_content());
            }
            Event::GeneralRef(entity) => {
                let name = &*entity;
                let character = entity.resolve_char_ref().map_err(|error| malformed(&error))?;
                let known =
                    || quick_xml::escape::resolve_predefined_entity(name).map(str::to_owned);
                let text = character.map(String::from).or_else(known);
                let unknown = || malformed(&format!("the entity `{name}` is unknown"));
                reader.text(&text.ok_or_else(unknown)?);
            }
            Event::Eof if !has_root => return Err(malformed(&"there is no element")),
            Event::Eof if !reader.open.is_empty() => return Err(malformed(&"an element is open")),
            // The last name may be missing where there are no records.
            Event::Eof if reader.followed < form.path.len().saturating_sub(1).max(1) => {
                return Err(UnreadableRecords::NoRecords(form.path.join(".")));
            }
            Event::Eof => return Ok(reader.set),
            Event::DocType(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) => (),
        }
    }
}

fn malformed(error: &impl ToString) -> UnreadableRecords {
    UnreadableRecords::Malformed("XML", error.to_string())
}

struct XmlReader<'s> {
    schema: &'s RecordSchema,
    limits: RecordLimits,
    set: RecordSet,
    path: &'s [String],
    /// The elements that are open.
    open: Vec<OpenElement<'s>>,
    /// The record that is open.
    row: Option<Vec<RecordValue>>,
    /// Fields of members that the map does not name.
    others: HashMap<String, usize>,
    /// Values of all records so far.
    values: usize,
    /// How many names of the path were met.
    followed: usize,
}

/// An element that is open.
struct OpenElement<'s> {
    role: ElementRole<'s>,
    /// Of the field that it becomes.
    text: String,
}

/// What an element is.
#[derive(Clone, Copy)]
enum ElementRole<'s> {
    /// It is on the way to the records, and follows so many names of the path.
    Way(usize),
    Record,
    /// It becomes a field, or has elements that do.
    Member(&'s SchemaNode),
    /// It becomes a field that the map does not name.
    Other(usize),
    Ignored,
}

impl<'s> XmlReader<'s> {
    fn begin(&mut self, element: &BytesStart<'_>) -> Result<(), UnreadableRecords> {
        if self.open.len() == DEPTH_MAX {
            return Err(malformed(&format!("it has more than {DEPTH_MAX} levels")));
        }
        let name = element.name();
        let name: &str = name.as_ref();
        let role = match self.open.last().map(|open| open.role) {
            // The document's own element is the first of the path.
            None => self.way(0, name),
            Some(ElementRole::Way(follows)) => self.way(follows, name),
            Some(ElementRole::Record) => self.member(&self.schema.root, name, true)?,
            Some(ElementRole::Member(node)) => self.member(node, name, false)?,
            Some(ElementRole::Other(_) | ElementRole::Ignored) => ElementRole::Ignored,
        };
        match role {
            // Without a path, any element of the document leads to the records.
            ElementRole::Way(follows) => self.followed = self.followed.max(follows.max(1)),
            ElementRole::Record => self.followed = self.path.len().max(1),
            _ => (),
        }
        let node = match role {
            ElementRole::Record => {
                if self.set.rows.len() == self.limits.records_max {
                    return Err(UnreadableRecords::TooManyRecords(self.limits.records_max));
                }
                self.row = Some(vec![RecordValue::Absent; self.schema.fields.len()]);
                Some(&self.schema.root)
            }
            ElementRole::Member(node) => Some(node),
            _ => None,
        };
        self.open.push(OpenElement { role, text: String::new() });
        let Some(node) = node else { return Ok(()) };
        for attribute in element.attributes() {
            let attribute = attribute.map_err(|error| malformed(&error))?;
            let is_record = matches!(role, ElementRole::Record);
            let field = match self.member(node, attribute.key.as_ref(), is_record)? {
                ElementRole::Member(node) => node.field,
                ElementRole::Other(at) => Some(at),
                _ => None,
            };
            if let Some(field) = field {
                let value = attribute
                    .normalized_value(XmlVersion::Implicit1_0)
                    .map_err(|error| malformed(&error))?;
                self.set_value(field, &value);
            }
        }
        Ok(())
    }

    /// An element that may be the next of the path.
    fn way(&self, follows: usize, name: &str) -> ElementRole<'s> {
        match self.path.get(follows) {
            Some(next) if next == name && follows + 1 == self.path.len() => ElementRole::Record,
            Some(next) if next == name => ElementRole::Way(follows + 1),
            // Without a path, the elements below the document's own are the records.
            None if self.open.is_empty() => ElementRole::Way(0),
            None => ElementRole::Record,
            Some(_) => ElementRole::Ignored,
        }
    }

    fn member(
        &mut self,
        node: &'s SchemaNode,
        name: &str,
        is_record: bool,
    ) -> Result<ElementRole<'s>, UnreadableRecords> {
        if let Some(node) = node.member(name) {
            return Ok(ElementRole::Member(node));
        }
        let Some(key) = self.schema.others.as_ref().filter(|_| is_record) else {
            return Ok(ElementRole::Ignored);
        };
        if let Some(at) = self.others.get(name) {
            return Ok(ElementRole::Other(*at));
        }
        let field = format!("{key}.{name}");
        if !self.schema.may_keep(&field, name) {
            return Ok(ElementRole::Ignored);
        }
        if self.set.fields.len() == self.limits.fields_max {
            return Err(UnreadableRecords::TooManyFields(self.limits.fields_max));
        }
        let at = self.set.fields.len();
        self.set.fields.push(field);
        self.others.insert(name.to_owned(), at);
        Ok(ElementRole::Other(at))
    }

    fn text(&mut self, text: &str) {
        if let Some(OpenElement { role, text: own }) = self.open.last_mut()
            && !matches!(role, ElementRole::Way(_) | ElementRole::Ignored)
        {
            own.push_str(text);
        }
    }

    fn end(&mut self) -> Result<(), UnreadableRecords> {
        let Some(OpenElement { role, text }) = self.open.pop() else { return Ok(()) };
        let field = match role {
            ElementRole::Record => self.schema.root.field,
            ElementRole::Member(node) => node.field,
            ElementRole::Other(at) => Some(at),
            ElementRole::Way(_) | ElementRole::Ignored => None,
        };
        if let Some(field) = field.filter(|_| !text.trim().is_empty()) {
            self.set_value(field, text.trim());
        }
        if let ElementRole::Record = role {
            self.values += self.row.as_ref().map_or(0, Vec::len);
            if self.limits.values_max < self.values {
                return Err(UnreadableRecords::TooManyValues(self.limits.values_max));
            }
            self.set.rows.extend(self.row.take().map(Into::into));
        }
        Ok(())
    }

    fn set_value(&mut self, field: usize, text: &str) {
        if let Some(row) = &mut self.row {
            if row.len() <= field {
                row.resize(field + 1, RecordValue::Absent);
            }
            row[field] = RecordValue::of_text(text);
        }
    }
}

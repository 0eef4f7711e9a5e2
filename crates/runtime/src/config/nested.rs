//! Tables within tables: sections, services, optional and repeated tables, and maps with names
//! of the reader's choice.
//!
//! It must not know any service's keys.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::describe::{KeyDoc, Nesting, Role};
use super::presence::Written;
use super::section::{Section, joined};
use super::source::key_text;

impl Section<'_> {
    /// A table that groups keys; absent, all of them have their defaults.
    pub fn section<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let (value, keys) = match self.single_table(key) {
            Some((line, table)) => self.visit(key, (Some(line), Some(table)), read),
            None => self.visit(key, (self.line, None), read),
        };
        self.declare(key, doc, Role::Tables { nesting: Nesting::Section, keys });
        value
    }

    /// A table that switches a service on by its presence; the default file has it.
    pub fn service<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        self.table_or_none((key, doc), Nesting::Service, read)
    }

    /// A table that may be absent; the default file has it commented out.
    pub fn table<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        self.table_or_none((key, doc), Nesting::Table, read)
    }

    /// Any number of tables, written `[[key]]` each.
    pub fn tables<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl Fn(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        let (mut values, mut keys) = (Vec::new(), Vec::new());
        for (index, (line, table)) in self.repeated_tables(key).into_iter().enumerate() {
            let name = format!("{key}[{index}]");
            let (value, found) = self.visit(&name, (Some(line), Some(table)), &read);
            values.push(value);
            keys = found;
        }
        if self.log.is_describing() {
            let (value, found) = self.visit(key, (None, None), &read);
            values.push(value);
            keys = found;
        }
        self.declare(key, doc, Role::Tables { nesting: Nesting::Tables, keys });
        values
    }

    /// Names of the reader's choice, each with a text: headers, or rates by currency. `parse`
    /// turns a name and its text into a value, or refuses them with a remedy. Absent, it is
    /// empty. Values come in the order of their names. `example` is for the documents.
    pub fn map<T>(
        &mut self,
        key: &'static str,
        example: &'static [(&'static str, &'static str)],
        parse: impl Fn(&str, &str) -> Result<T, String>,
        doc: &'static str,
    ) -> Vec<T> {
        for (name, text) in example {
            if let Err(remedy) = parse(name, text) {
                panic!("key `{key}` is declared with {name} = {text}, which is bad: {remedy}");
            }
        }
        let mut values = Vec::new();
        let entries = self.single_table(key).map(|(_, table)| table);
        for (name, value) in entries.into_iter().flat_map(DeTable::iter) {
            let parsed = match value.get_ref() {
                DeValue::String(text) => parse(name.get_ref(), text),
                _ => Err("expected text".to_owned()),
            };
            match parsed {
                Ok(value) => values.push(value),
                Err(remedy) => {
                    let line = self.source.line(name.span().start);
                    let shown = self.shown(value);
                    let path = joined(&self.path_of(key), &key_text(name.get_ref()));
                    self.note(Some(line), path, shown, || remedy);
                }
            }
        }
        self.declare(key, doc, Role::Map(Written::Pairs(example)));
        values
    }

    fn table_or_none<T>(
        &mut self,
        (key, doc): (&'static str, &'static str),
        nesting: Nesting,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        let found = match self.single_table(key) {
            Some((line, table)) => Some(self.visit(key, (Some(line), Some(table)), read)),
            None if self.log.is_describing() => Some(self.visit(key, (None, None), read)),
            None => None,
        };
        let (value, keys) = found.map_or((None, Vec::new()), |(value, keys)| (Some(value), keys));
        self.declare(key, doc, Role::Tables { nesting, keys });
        value
    }

    /// Reads a nested table as a section of its own.
    fn visit<T>(
        &mut self,
        name: &str,
        (line, table): (Option<usize>, Option<&DeTable<'_>>),
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> (T, Vec<KeyDoc>) {
        let path = joined(&self.path, name);
        let mut nested =
            Section { table, path, line, source: self.source, log: self.log, keys: Vec::new() };
        let value = read(&mut nested);
        (value, nested.finish())
    }
}

impl<'a> Section<'a> {
    /// The table under a key, and its line; anything else there is noted.
    fn single_table(&mut self, key: &'static str) -> Option<(usize, &'a DeTable<'a>)> {
        let (line, value) = self.given(key)?;
        if let DeValue::Table(table) = value.get_ref() {
            return Some((line, table));
        }
        let repeated = matches!(value.get_ref(), DeValue::Array(_));
        let (shown, path) = (self.shown(value), self.path_of(key));
        let header = header_of(&path);
        self.note(Some(line), path, shown, || match repeated {
            true => format!("may be given once only, as `[{header}]`"),
            false => format!("expected a table, under `[{header}]`"),
        });
        None
    }

    /// The tables under a key, and their lines; anything else there is noted.
    fn repeated_tables(&mut self, key: &'static str) -> Vec<(usize, &'a DeTable<'a>)> {
        let Some((line, value)) = self.given(key) else { return Vec::new() };
        let mut tables = Vec::new();
        if let DeValue::Array(array) = value.get_ref() {
            let as_table = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
                DeValue::Table(table) => Some((self.source.line(item.span().start), table)),
                _ => None,
            };
            tables = array.iter().map_while(as_table).collect();
            if tables.len() == array.len() {
                return tables;
            }
        }
        let (shown, path) = (self.shown(value), self.path_of(key));
        let header = header_of(&path);
        self.note(Some(line), path, shown, || {
            format!("expected tables, each under `[[{header}]]`")
        });
        tables
    }
}

/// The header of the table at a dotted key: headers hold no indices.
fn header_of(path: &str) -> String {
    let parts = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    parts.collect::<Vec<_>>().join(".")
}

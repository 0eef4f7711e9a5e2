//! Tables within tables, and maps. It must not know any service's keys.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::declaration::{Nesting, Role};
use crate::config::effective::EffectiveKey;
use crate::config::problem::KeyKind;
use crate::config::section::{DeclaredKeys, GivenKey, Section, TablePath, shown_secret};
use crate::config::source::SourcePlace;
use crate::config::toml_text::{joined, key_text};
use crate::config::values::secret::{self, MASK, Secret};
use crate::config::values::written::WrittenValue;

/// A table that the files give, and its place.
#[derive(Clone, Copy)]
struct GivenTable<'a> {
    place: SourcePlace,
    table: &'a DeTable<'a>,
}

impl Section<'_> {
    /// A table that groups keys; if it is absent, all of them have their defaults.
    pub fn section<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let table = self.single_table(key);
        let (value, DeclaredKeys { docs: keys, settings, .. }) = self.visit(key, None, table, read);
        let nesting = Nesting::Section;
        self.describe(key, doc, KeyKind::Plain, || Role::Tables { nesting, keys });
        self.record(key, EffectiveKey::Table(settings));
        value
    }

    /// A table whose presence enables a service; the default file has it.
    pub fn service<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        self.table_or_none(key, doc, Nesting::Service, read)
    }

    /// An optional table; the default file has it commented out.
    pub fn table<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        self.table_or_none(key, doc, Nesting::Table, read)
    }

    /// Any number of tables, each written `[[key]]`.
    pub fn tables<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        read: impl Fn(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        let (mut values, mut keys, mut settings) = (Vec::new(), Vec::new(), Vec::new());
        let merged = self.file;
        for (index, table) in self.repeated_tables(key).into_iter().enumerate() {
            // Repeated tables append, so each is entirely in one file.
            self.file = Some(table.place.file);
            let (value, within) = self.visit(key, Some(index), Some(table), &read);
            values.push(value);
            keys = within.docs;
            settings.push(EffectiveKey::Table(within.settings));
        }
        self.file = merged;
        if self.log.is_describing() {
            let (value, within) = self.visit(key, None, None, &read);
            values.push(value);
            keys = within.docs;
        }
        let nesting = Nesting::Tables;
        self.describe(key, doc, KeyKind::Plain, || Role::Tables { nesting, keys });
        self.record(key, EffectiveKey::Tables(settings));
        values
    }

    /// A map of names to texts, such as headers, or rates by currency. `parse` turns a name and its
    /// text into a value or refuses them with a remedy. Values are sorted by name; an absent map is
    /// empty. `example` is for the documents.
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
        let (mut values, mut settings) = (Vec::new(), Vec::new());
        let entries = self.single_table(key).map(|given| given.table);
        for (name, value) in entries.into_iter().flat_map(DeTable::iter) {
            let parsed = match value.get_ref() {
                DeValue::String(text) => parse(name.get_ref(), text),
                _ => Err("expected text".to_owned()),
            };
            match parsed {
                Ok(parsed) => {
                    values.push(parsed);
                    let value = value.get_ref().as_str().into();
                    let name = name.get_ref().clone().into_owned().into();
                    settings.push((name, EffectiveKey::Value { value, given: true }));
                }
                Err(remedy) => {
                    let place = self.source.place(name.span().start);
                    let path = joined(&self.path_of(key), &key_text(name.get_ref()));
                    self.note(Some(place), path, self.shown(value), || remedy);
                }
            }
        }
        self.describe(key, doc, KeyKind::Plain, || Role::Map(WrittenValue::Pairs(example)));
        self.record(key, EffectiveKey::Table(settings));
        values
    }

    /// A map of names to [`secret`](Self::secret)s, such as authorization headers. `parse` turns a
    /// name and its secret into a value or refuses them with a remedy. Values are sorted by name;
    /// an absent map is empty. `example` is for the documents and is not parsed.
    pub fn secret_map<T>(
        &mut self,
        key: &'static str,
        example: &'static [(&'static str, &'static str)],
        parse: impl Fn(&str, Secret) -> Result<T, String>,
        doc: &'static str,
    ) -> Vec<T> {
        let (mut values, mut settings) = (Vec::new(), Vec::new());
        let entries = self.single_table(key).map(|given| given.table);
        for (name, value) in entries.into_iter().flat_map(DeTable::iter) {
            let place = self.source.place(name.span().start);
            let folder = self.source.folder(place.file);
            let name = name.get_ref();
            let read = match value.get_ref() {
                DeValue::String(text) => secret::resolve(text, folder, self.inputs),
                _ => Err("expected a secret".to_owned()),
            };
            let parsed = read.and_then(|secret| match parse(name, secret.clone()) {
                Ok(value) => Ok((value, secret)),
                Err(remedy) => Err(remedy.replace(secret.expose(), MASK)),
            });
            match parsed {
                Ok((value, secret)) => {
                    values.push(value);
                    settings.push((name.clone().into_owned().into(), EffectiveKey::Secret(secret)));
                }
                Err(remedy) => {
                    let path = joined(&self.path_of(key), &key_text(name));
                    self.note(Some(place), path, shown_secret(value), || remedy);
                }
            }
        }
        self.describe(key, doc, KeyKind::Secret, || Role::Secrets(WrittenValue::Pairs(example)));
        self.record(key, EffectiveKey::Table(settings));
        values
    }

    fn table_or_none<T>(
        &mut self,
        key: &'static str,
        doc: &'static str,
        nesting: Nesting,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Option<T> {
        let table = self.single_table(key);
        let (value, keys, setting) = if table.is_some() || self.log.is_describing() {
            let (value, DeclaredKeys { docs, settings, .. }) = self.visit(key, None, table, read);
            (Some(value), docs, EffectiveKey::Table(settings))
        } else {
            (None, Vec::new(), EffectiveKey::Absent)
        };
        self.describe(key, doc, KeyKind::Plain, || Role::Tables { nesting, keys });
        self.record(key, setting);
        value
    }

    fn visit<T>(
        &mut self,
        key: &'static str,
        index: Option<usize>,
        given: Option<GivenTable<'_>>,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> (T, DeclaredKeys) {
        let path = match index {
            None => TablePath::Key(&self.path, key),
            Some(index) => TablePath::Item(&self.path, key, index),
        };
        let mut nested = Section {
            table: given.map(|given| given.table),
            path,
            place: given.map_or(self.place, |given| Some(given.place)),
            file: self.file,
            source: self.source,
            inputs: self.inputs,
            declared: DeclaredKeys::begin(self.log),
            log: self.log,
        };
        let value = read(&mut nested);
        (value, nested.finish())
    }
}

impl<'a> Section<'a> {
    /// The table under a key. Records a problem for any other type.
    fn single_table(&mut self, key: &'static str) -> Option<GivenTable<'a>> {
        let GivenKey { place, value } = self.given(key)?;
        if let DeValue::Table(table) = value.get_ref() {
            return Some(GivenTable { place, table });
        }
        let repeated = matches!(value.get_ref(), DeValue::Array(_));
        let (shown, path) = (self.shown_unread(value), self.path_of(key));
        let header = header_of(&path);
        self.note(Some(place), path, shown, || match repeated {
            true => format!("may be given once only, as `[{header}]`"),
            false => format!("expected a table, under `[{header}]`"),
        });
        None
    }

    /// The tables under a key. Records a problem for any other type.
    fn repeated_tables(&mut self, key: &'static str) -> Vec<GivenTable<'a>> {
        let Some(GivenKey { place, value }) = self.given(key) else { return Vec::new() };
        let mut tables = Vec::new();
        if let DeValue::Array(array) = value.get_ref() {
            let as_table = |item: &'a Spanned<DeValue<'a>>| match item.get_ref() {
                DeValue::Table(table) => {
                    Some(GivenTable { place: self.source.place(item.span().start), table })
                }
                _ => None,
            };
            tables = array.iter().map_while(as_table).collect();
            if tables.len() == array.len() {
                return tables;
            }
        }
        let (shown, path) = (self.shown_unread(value), self.path_of(key));
        let header = header_of(&path);
        self.note(Some(place), path, shown, || {
            format!("expected tables, each under `[[{header}]]`")
        });
        tables
    }
}

/// The header of the table at a dotted key: headers have no indices.
fn header_of(path: &str) -> String {
    let parts = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    parts.collect::<Vec<_>>().join(".")
}

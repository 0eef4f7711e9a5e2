//! One table of a configuration: hands out its values by the service's declarations, and notes
//! what is wrong.
//!
//! It must not know any service's keys, nor the forms of values, which are getters.rs's, nor how
//! many tables stand under a key, which is nested.rs's.

use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::describe::{Form, KeyDoc, Need, Role};
use super::given::{Fault, Given, Wrong};
use super::presence::{Presence, Written};
use super::problem::{Log, Problem};
use super::source::{Source, key_text};
use super::values;

/// One table of a configuration, in the hands of the service that declares its keys.
///
/// Each getter takes the key, what stands in where it is absent, often a range or a check, and
/// its documentation. A literal is a default (`"250ms"`, `64`, `true`); [`Optional`] makes the
/// getter return an `Option` and [`Required`] insists on the key, both holding an example. On a
/// bad value the getter notes the problem and returns the default, so that reading goes on and
/// every problem is found.
///
/// All getters panic when the declared literal itself is not accepted, which any test that reads
/// or describes the declaration finds.
///
/// [`Optional`]: super::Optional
/// [`Required`]: super::Required
pub struct Section<'a> {
    /// `None` where the file has no such table: all keys are absent.
    pub(super) table: Option<&'a DeTable<'a>>,
    /// Dotted key of the table, empty at the root.
    pub(super) path: String,
    /// Line of the table's header, where known.
    pub(super) line: Option<usize>,
    pub(super) source: &'a Source<'a>,
    pub(super) log: &'a mut Log,
    /// The keys asked for so far; all others are unknown.
    pub(super) keys: Vec<KeyDoc>,
}

impl<'a> Section<'a> {
    pub(super) fn root(
        source: &'a Source<'a>,
        table: Option<&'a DeTable<'a>>,
        log: &'a mut Log,
    ) -> Self {
        Self { table, path: String::new(), line: None, source, log, keys: Vec::new() }
    }

    /// A key of the past, which is refused with the name of its successor.
    pub fn renamed(&mut self, old: &'static str, new: &'static str) {
        self.declare(old, "", Role::Renamed(new));
        if let Some((line, value)) = self.given(old) {
            let value = self.shown(value);
            self.note(Some(line), self.path_of(old), value, || {
                format!("is now called `{new}`, rename it")
            });
        }
    }

    /// Notes a problem that only shows when several keys are read together. `value` is shown
    /// where the file does not give the key itself; `remedy` is a lower-case fragment.
    pub fn problem(&mut self, key: &str, value: impl Display, remedy: impl Into<String>) {
        let (line, value) = match self.given(key) {
            Some((line, given)) => (Some(line), self.shown(given)),
            None => (self.line, Some(value.to_string())),
        };
        self.note(line, self.path_of(key), value, || remedy.into());
    }

    /// Declares a key and reads it: every getter of values ends here.
    pub(super) fn value<T, P: Presence>(
        &mut self,
        key: &'static str,
        presence: P,
        (form, doc): (Form, &'static str),
        read: impl Fn(&Given<'_>) -> Result<T, Vec<Fault>>,
    ) -> P::Out<T> {
        let written = presence.written();
        let fallback = read(&written.into()).unwrap_or_else(|faults| {
            let wrong = faults.first().map(|fault| &fault.wrong);
            panic!("key `{key}` is declared with {}, which is bad: {wrong:?}", written.to_toml())
        });
        let out = match self.given(key) {
            Some((line, value)) => match read(&value.get_ref().into()) {
                Ok(value) => P::found(value),
                Err(faults) => {
                    for fault in faults {
                        self.note_fault((key, line), value, &fault, || {
                            remedy_of(&fault, &form, written)
                        });
                    }
                    P::absent(fallback)
                }
            },
            None => {
                if P::NEED == Need::Required && !self.log.is_doubtful(self.line, true) {
                    self.note(self.line, self.path_of(key), None, || {
                        format!("is missing, {}", expected(&form, written))
                    });
                }
                P::absent(fallback)
            }
        };
        self.declare(key, doc, Role::Value { form, need: P::NEED, written });
        out
    }

    fn note_fault(
        &mut self,
        (key, line): (&str, usize),
        value: &Spanned<DeValue<'_>>,
        fault: &Fault,
        remedy: impl FnOnce() -> String,
    ) {
        let (line, path, shown) = match &fault.element {
            None => (line, self.path_of(key), self.shown(value)),
            Some((index, span)) => (
                self.source.line(span.start),
                format!("{}[{index}]", self.path_of(key)),
                Some(self.source.excerpt(span.clone())),
            ),
        };
        self.note(Some(line), path, shown, remedy);
    }

    pub(super) fn declare(&mut self, name: &'static str, doc: &'static str, role: Role) {
        let fresh = self.keys.iter().all(|key| key.name != name);
        debug_assert!(fresh, "key `{name}` is declared twice");
        self.keys.push(KeyDoc { name, doc, role });
    }

    /// What the file gives for a key, and the key's line.
    pub(super) fn given(&self, key: &str) -> Option<(usize, &'a Spanned<DeValue<'a>>)> {
        let (name, value) = self.table?.get_key_value(key)?;
        Some((self.source.line(name.span().start), value))
    }

    /// A value as messages show it; tables are not shown.
    pub(super) fn shown(&self, value: &Spanned<DeValue<'_>>) -> Option<String> {
        let excerpt = || self.source.excerpt(value.span());
        let table = match value.get_ref() {
            DeValue::Table(_) => true,
            DeValue::Array(array) => array.iter().any(|item| item.get_ref().is_table()),
            _ => false,
        };
        (!table).then(excerpt)
    }

    /// The dotted key of a name in this table.
    pub(super) fn path_of(&self, name: &str) -> String {
        joined(&self.path, &key_text(name))
    }

    pub(super) fn note(
        &mut self,
        line: Option<usize>,
        key: String,
        value: Option<String>,
        remedy: impl FnOnce() -> String,
    ) {
        if self.log.is_doubtful(line, false) {
            return;
        }
        self.log.record(|| Problem { line, column: None, key, value, remedy: remedy() });
    }

    /// Notes the keys that were never asked for, and returns those that were.
    pub(super) fn finish(mut self) -> Vec<KeyDoc> {
        let keys = std::mem::take(&mut self.keys);
        for (name, value) in self.table.into_iter().flat_map(DeTable::iter) {
            let (name, line) = (name.get_ref(), self.source.line(name.span().start));
            if keys.iter().any(|key| key.name == name) {
                continue;
            }
            let shown = self.shown(value);
            self.note(Some(line), self.path_of(name), shown, || {
                let known = keys.iter().filter(|key| !matches!(key.role, Role::Renamed(_)));
                match values::nearest(name, known.map(|key| key.name)) {
                    Some(meant) => format!("unknown key, did you mean `{meant}`?"),
                    None => "unknown key, remove it".to_owned(),
                }
            });
        }
        keys
    }
}

/// A key below a table's dotted key, which is empty at the root.
pub(super) fn joined(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// What to write instead of a value of the wrong type.
fn expected(form: &Form, written: Written) -> String {
    format!("expected {}, for example {}", form.phrase(), written.to_toml())
}

fn remedy_of(fault: &Fault, form: &Form, written: Written) -> String {
    match &fault.wrong {
        Wrong::Value(remedy) => remedy.clone(),
        Wrong::Type if fault.element.is_some() => format!("expected {}", form.element().phrase()),
        Wrong::Type => expected(form, written),
    }
}

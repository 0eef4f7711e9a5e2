//! One table of a configuration: returns values as the service declares them, and records problems.
//! It must not know any service's keys, nor the forms of values (getters.rs), nor nested tables
//! (nested.rs).

mod getters;
mod nested;

use std::borrow::Cow;
use std::fmt::Display;

use diagnostics::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declaration::presence::Presence;
use super::declaration::{Form, KeyDoc, Need, Role};
use super::effective::EffectiveKey;
use super::inputs::ConfigInputs;
use super::problem::{KeyKind, KeyPlace, KnownKey, ProblemLog};
use super::source::{SourcePlace, SourceTexts};
use super::toml_text::{excerpt, joined, key_text};
use super::values;
use super::values::given::{GivenFault, GivenValue, WrongValue};
use super::values::quantity::Quantity;
use super::values::secret;
use super::values::written::WrittenValue;

/// One table of a configuration, for the service that declares its keys.
///
/// Each getter takes the key, its presence, often a range or a check, and its documentation. A
/// literal is a default (`"250ms"`, `64`, `true`); [`Optional`] makes the getter return an
/// `Option`; [`Required`] requires the key; both contain an example. For a bad value the getter
/// records the problem and returns the fallback, so that reading goes on and finds every problem.
///
/// All getters panic if the declared literal itself is invalid: when the declarations are
/// described, so that any test that describes them notices, and when the literal is the fallback.
///
/// [`Optional`]: super::Optional
/// [`Required`]: super::Required
pub struct Section<'a> {
    /// None if no file has the table: all keys are absent.
    pub(super) table: Option<&'a DeTable<'a>>,
    pub(super) path: TablePath<'a>,
    /// Where the table's header first occurs. None if it has none.
    pub(super) place: Option<SourcePlace>,
    /// The only file that can have keys of this table. None if tables of several files merge.
    pub(super) file: Option<usize>,
    pub(super) source: &'a SourceTexts<'a>,
    pub(super) inputs: &'a ConfigInputs<'a>,
    pub(super) log: &'a mut ProblemLog,
    pub(super) declared: DeclaredKeys,
}

/// The dotted key of a table, formatted only for messages.
#[derive(Clone, Copy)]
pub(super) enum TablePath<'a> {
    Root,
    Key(&'a Self, &'static str),
    Item(&'a Self, &'static str, usize),
}

impl TablePath<'_> {
    fn dotted(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(table, key) => joined(&table.dotted(), key),
            Self::Item(table, key, index) => joined(&table.dotted(), &format!("{key}[{index}]")),
        }
    }
}

#[derive(Default)]
pub(super) struct DeclaredKeys {
    /// Keys asked for so far; all others are unknown.
    known: Vec<KnownKey>,
    /// Their documentation; empty unless declarations are described.
    pub(super) docs: Vec<KeyDoc>,
    /// Their values in force, without former keys.
    pub(super) settings: Vec<(Cow<'static, str>, EffectiveKey)>,
}

impl DeclaredKeys {
    /// Reuses the buffer of an earlier table, if there is one.
    pub(super) fn begin(log: &mut ProblemLog) -> Self {
        Self { known: log.unused_keys.pop().unwrap_or_default(), ..Self::default() }
    }
}

/// The value that the files give for a key, and its place.
#[derive(Clone, Copy)]
pub(super) struct GivenKey<'a> {
    pub(super) place: SourcePlace,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

/// One key with a single value or a list of values, as a getter declares it.
pub(super) struct KeyDeclaration<P> {
    pub(super) key: &'static str,
    pub(super) presence: P,
    pub(super) form: Form,
    pub(super) doc: &'static str,
}

/// What a key accepts, with a default or an example.
#[derive(Clone, Copy)]
pub(super) struct ExpectedValue<'a> {
    pub(super) form: &'a Form,
    pub(super) written: WrittenValue,
}

impl<'a> Section<'a> {
    pub(super) fn root(
        source: &'a SourceTexts<'a>,
        inputs: &'a ConfigInputs<'a>,
        table: Option<&'a DeTable<'a>>,
        log: &'a mut ProblemLog,
    ) -> Self {
        let (declared, path) = (DeclaredKeys::begin(log), TablePath::Root);
        Self { table, path, place: None, file: None, source, inputs, log, declared }
    }

    /// A former key, refused with the name of its successor.
    pub fn renamed(&mut self, old: &'static str, new: &'static str) {
        self.describe(old, "", KeyKind::Renamed, || Role::Renamed(new));
        if let Some(GivenKey { place, value }) = self.given(old) {
            let shown = self.shown_unread(value);
            self.note(Some(place), self.path_of(old), shown, || {
                format!("is now called `{new}`, rename it")
            });
        }
    }

    /// The line of the table's header. None if it has none.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|place| place.line).filter(|&line| line != 0)
    }

    /// Whether the file has a key, right or wrong.
    pub fn has(&self, key: &str) -> bool {
        self.given(key).is_some()
    }

    /// Records a problem across several keys. Messages show `value` if no file gives the key, and
    /// never for a secret; `remedy` is a lower-case fragment. `key` may be dotted, if it names no
    /// secret.
    pub fn problem(&mut self, key: &str, value: impl Display, remedy: impl Into<String>) {
        if self.log.is_incomplete() {
            // The problem may concern keys in an unread part of a file.
            return;
        }
        let secret = is_secret(&self.declared.known, key);
        let (place, value) = match self.given_below(key) {
            Some(given) if secret => (Some(given.place), shown_secret(given.value)),
            Some(given) => (Some(given.place), self.shown(given.value)),
            None => (self.place, (!secret).then(|| value.to_string())),
        };
        self.note(place, joined(&self.path.dotted(), key), value, || remedy.into());
    }

    /// Declares a key and reads it. Every getter of values calls this.
    pub(super) fn value<T, P: Presence>(
        &mut self,
        KeyDeclaration { key, presence, form, doc }: KeyDeclaration<P>,
        read: impl Fn(&GivenValue<'_>) -> Result<T, Vec<GivenFault>>,
    ) -> P::Out<T> {
        let written = presence.written();
        let fallback = || {
            read(&written.into()).unwrap_or_else(|faults| {
                let (wrong, written) =
                    (faults.first().map(|fault| &fault.wrong), written.to_toml());
                panic!("key `{key}` is declared with {written}, which is bad: {wrong:?}")
            })
        };
        if self.log.is_describing() {
            drop(fallback());
        }
        let recorded =
            |given: &GivenValue<'_>| Ok((read(given)?, EffectiveKey::of(&form, given, true)));
        let found = self.read::<_, P>(key, ExpectedValue { form: &form, written }, recorded);
        let (found, setting) = found.unzip();
        let absent = || self.log.records_all().then(|| stand_in::<P>(&form, written));
        if let Some(setting) = setting.or_else(absent) {
            self.record(key, setting);
        }
        self.describe(key, doc, KeyKind::Plain, || Role::Value { form, need: P::NEED, written });
        P::out(found, fallback)
    }

    /// Reads a key. None if it is missing or wrong, which is recorded.
    pub(super) fn read<T, P: Presence>(
        &mut self,
        key: &'static str,
        expected: ExpectedValue<'_>,
        read: impl Fn(&GivenValue<'_>) -> Result<T, Vec<GivenFault>>,
    ) -> Option<T> {
        let Some(given) = self.given(key) else {
            if P::NEED == Need::Required && !self.log.may_be_lost(self.file) {
                let remedy = || format!("is missing, {}", expected.remedy());
                self.note(self.place, self.path_of(key), None, remedy);
            }
            return None;
        };
        match read(&given.value.get_ref().into()) {
            Ok(value) => Some(value),
            Err(faults) => {
                for fault in faults {
                    self.note_fault(key, given, expected, &fault);
                }
                None
            }
        }
    }

    fn note_fault(
        &mut self,
        key: &str,
        GivenKey { place, value }: GivenKey<'_>,
        expected: ExpectedValue<'_>,
        fault: &GivenFault,
    ) {
        let (place, path, shown) = match &fault.element {
            None if *expected.form == Form::Secret => {
                (place, self.path_of(key), shown_secret(value))
            }
            None => (place, self.path_of(key), self.shown(value)),
            Some((index, span)) => (
                self.source.place(span.start),
                format!("{}[{index}]", self.path_of(key)),
                value.get_ref().get(*index).map(|item| self.source.excerpt(item)),
            ),
        };
        self.note(Some(place), path, shown, || expected.remedy_of(fault));
    }

    /// Records a declaration; calls `role` only if declarations are described.
    pub(super) fn describe(
        &mut self,
        name: &'static str,
        doc: &'static str,
        kind: KeyKind,
        role: impl FnOnce() -> Role,
    ) {
        let declared = &mut self.declared;
        debug_assert!(
            declared.known.iter().all(|key| key.name != name),
            "key `{name}` is declared twice"
        );
        declared.known.push(KnownKey { name, kind });
        if self.log.is_describing() {
            declared.docs.push(KeyDoc { name, doc, role: role() });
        }
    }

    pub(super) fn record(&mut self, name: &'static str, setting: EffectiveKey) {
        if self.log.records_all() || !matches!(setting, EffectiveKey::Absent) {
            self.declared.settings.push((Cow::Borrowed(name), setting));
        }
    }

    pub(super) fn given(&self, key: &str) -> Option<GivenKey<'a>> {
        let (name, value) = self.table?.get_key_value(key)?;
        Some(GivenKey { place: self.source.place(name.span().start), value })
    }

    /// The value of a dotted key.
    fn given_below(&self, key: &str) -> Option<GivenKey<'a>> {
        let mut names = key.split('.');
        let mut given = self.given(names.next()?)?;
        for name in names {
            let DeValue::Table(table) = given.value.get_ref() else { return None };
            let (name, value) = table.get_key_value(name)?;
            given = GivenKey { place: self.source.place(name.span().start), value };
        }
        Some(given)
    }

    /// A value as messages show it. None if it is a table.
    pub(super) fn shown(&self, value: &Spanned<DeValue<'_>>) -> Option<String> {
        (!has_tables(value.get_ref())).then(|| self.source.excerpt(value))
    }

    /// A value that no declaration reads, as messages show it: it may be a misplaced secret.
    pub(super) fn shown_unread(&self, value: &Spanned<DeValue<'_>>) -> Option<String> {
        is_plain(value.get_ref()).then(|| self.source.excerpt(value))
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        joined(&self.path.dotted(), &key_text(name))
    }

    pub(super) fn note(
        &mut self,
        place: Option<SourcePlace>,
        key: String,
        value: Option<String>,
        remedy: impl FnOnce() -> String,
    ) {
        self.log.note(self.source, KeyPlace { place, key }, value, remedy);
    }

    /// Records problems for unknown keys, and returns the declared ones.
    pub(super) fn finish(mut self) -> DeclaredKeys {
        let mut declared = std::mem::take(&mut self.declared);
        let known = || {
            let current = declared.known.iter().filter(|key| key.kind != KeyKind::Renamed);
            current.map(|key| key.name)
        };
        for (name, value) in self.table.into_iter().flat_map(DeTable::iter) {
            let (name, at) = (name.get_ref(), name.span().start);
            if declared.known.iter().any(|key| key.name == name) {
                continue;
            }
            let place = self.source.place(at);
            let meant = nearest(name, known());
            let shown = match meant {
                Some(meant) if is_secret(&declared.known, meant) => None,
                _ => self.shown_unread(value),
            };
            self.note(Some(place), self.path_of(name), shown, || match meant {
                Some(meant) => format!("unknown key, did you mean `{meant}`?"),
                None => "unknown key, remove it".to_owned(),
            });
        }
        let mut unused = std::mem::take(&mut declared.known);
        unused.clear();
        self.log.unused_keys.push(unused);
        declared
    }
}

fn is_secret(keys: &[KnownKey], name: &str) -> bool {
    keys.iter().any(|key| key.name == name && key.kind == KeyKind::Secret)
}

/// The value in force of a key that is not given.
fn stand_in<P: Presence>(form: &Form, written: WrittenValue) -> EffectiveKey {
    match P::NEED {
        Need::Default => EffectiveKey::of(form, &written.into(), false),
        Need::Optional | Need::Required => EffectiveKey::Absent,
    }
}

/// A secret as messages show it: its reference, or nothing.
pub(super) fn shown_secret(value: &Spanned<DeValue<'_>>) -> Option<String> {
    let text = value.get_ref().as_str().filter(|text| secret::is_reference(text))?;
    Some(format!("\"{}\"", excerpt(text)))
}

fn has_tables(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => true,
        DeValue::Array(items) => items.iter().any(|item| has_tables(item.get_ref())),
        _ => false,
    }
}

/// Whether a value contains no text except amounts such as `"120ms"`, so that it is no secret.
fn is_plain(value: &DeValue<'_>) -> bool {
    const AMOUNTS: [Quantity; 3] = [Quantity::Duration, Quantity::Bytes, Quantity::Ratio];
    match value {
        DeValue::Table(_) => false,
        DeValue::Array(items) => items.iter().all(|item| is_plain(item.get_ref())),
        DeValue::String(text) => {
            AMOUNTS.iter().any(|amount| amount.amount(&GivenValue::Text(text)).is_some())
                || values::price(text).is_ok()
        }
        _ => true,
    }
}

impl ExpectedValue<'_> {
    /// The remedy for a value of the wrong type.
    fn remedy(self) -> String {
        format!("expected {}, for example {}", self.form.phrase(), self.written.to_toml())
    }

    fn remedy_of(self, fault: &GivenFault) -> String {
        match &fault.wrong {
            WrongValue::Value(remedy) => remedy.clone(),
            WrongValue::Type if fault.element.is_some() => {
                format!("expected {}", self.form.element().phrase())
            }
            WrongValue::Type => self.remedy(),
        }
    }
}

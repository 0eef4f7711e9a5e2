//! The configuration in force: every declared key with its value. It must not show a secret.

pub(super) mod difference;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::declaration::Form;
use super::toml_text::{joined, quoted, toml_key};
use super::values;
use super::values::given::GivenValue;
use super::values::quantity::Quantity;
use super::values::secret::{MASK, Secret};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EffectiveKey {
    /// No value, and no default.
    Absent,
    Value {
        value: Value,
        /// Whether a file gives it; otherwise it is the default.
        given: bool,
    },
    /// A URL, which is shown masked.
    Url {
        url: String,
        given: bool,
    },
    Secret(Secret),
    /// Keys in the order of their declarations, or the names of a map.
    Table(Vec<(Cow<'static, str>, EffectiveKey)>),
    Tables(Vec<EffectiveKey>),
}

impl EffectiveKey {
    /// An accepted value in its canonical form.
    pub(super) fn of(form: &Form, value: &GivenValue<'_>, given: bool) -> Self {
        match (form, value) {
            (Form::Url, GivenValue::Text(url)) => Self::Url { url: (*url).to_owned(), given },
            _ => Self::Value { value: canonical(form, value), given },
        }
    }

    /// The value as shown. None if it is a table or absent.
    pub(super) fn shown(&self) -> Option<Value> {
        match self {
            Self::Value { value, .. } => Some(value.clone()),
            Self::Url { url, .. } => Some(values::masked_url(url).into()),
            Self::Secret(_) => Some(MASK.into()),
            Self::Absent | Self::Table(_) | Self::Tables(_) => None,
        }
    }

    /// Writes what the files give as JSON, names sorted. False if they give nothing.
    fn write_given(&self, text: &mut Vec<u8>) -> bool {
        match self {
            Self::Absent | Self::Value { given: false, .. } | Self::Url { given: false, .. } => {
                return false;
            }
            Self::Value { value, .. } => write_json(text, value),
            Self::Url { url, .. } => write_json(text, &values::masked_url(url)),
            Self::Secret(_) => write_json(text, MASK),
            Self::Table(keys) => return write_table(text, keys),
            Self::Tables(tables) => {
                text.push(b'[');
                for (index, table) in tables.iter().enumerate() {
                    if index > 0 {
                        text.push(b',');
                    }
                    table.write_given(text);
                }
                text.push(b']');
                return !tables.is_empty();
            }
        }
        true
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Absent | Self::Value { .. } | Self::Url { .. } | Self::Secret(_) => {
                self.shown().unwrap_or_default()
            }
            Self::Table(keys) => keys
                .iter()
                .map(|(name, setting)| (name.clone().into_owned(), setting.to_json()))
                .collect::<Map<_, _>>()
                .into(),
            Self::Tables(tables) => tables.iter().map(Self::to_json).collect(),
        }
    }
}

fn write_table(text: &mut Vec<u8>, keys: &[(Cow<'static, str>, EffectiveKey)]) -> bool {
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    text.push(b'{');
    let first = text.len();
    for (name, setting) in sorted {
        let before = text.len();
        if before > first {
            text.push(b',');
        }
        write_json(text, name);
        text.push(b':');
        if !setting.write_given(text) {
            text.truncate(before);
        }
    }
    let is_any = text.len() > first;
    text.push(b'}');
    is_any
}

fn write_json(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(text, value).expect("a vector takes all of it");
}

fn canonical(form: &Form, given: &GivenValue<'_>) -> Value {
    match (form, given) {
        (Form::Number(bounds), GivenValue::Text(_)) => match bounds.quantity.amount(given) {
            Some(amount) => bounds.quantity.write(amount).into(),
            None => Value::Null,
        },
        (Form::Price, GivenValue::Text(text)) => {
            values::price(text).map_or(Value::Null, |price| price.to_string().into())
        }
        (_, GivenValue::Text(text)) => (*text).into(),
        (_, given @ GivenValue::Integer(_)) => Quantity::Integer.amount(given).into(),
        (_, GivenValue::Boolean(value)) => (*value).into(),
        (_, GivenValue::List(elements)) => {
            let element = form.element();
            elements.iter().map(|item| canonical(&element, &item.given)).collect()
        }
        (_, GivenValue::Other) => Value::Null,
    }
}

/// The configuration in force. It contains secrets for comparisons, but `Debug` hides them.
#[derive(Clone, Debug)]
pub struct Effective {
    pub(super) root: EffectiveKey,
}

impl Effective {
    /// As JSON, nested as in the file: repeated tables as arrays, `null` for absent values without
    /// default, `"***"` for secrets and queries of URLs. Included values replace `include`.
    pub fn to_json(&self) -> Value {
        self.root.to_json()
    }

    /// The same without defaults, in canonical form: reading it again gives the same configuration.
    pub fn given_json(&self) -> Value {
        let mut text = Vec::new();
        self.root.write_given(&mut text);
        serde_json::from_slice(&text).expect("it is written as JSON")
    }

    /// Calls `each` with the [`given_json`](Self::given_json) of every table under a key of the
    /// root.
    pub fn given_tables(&self, key: &str, mut each: impl FnMut(&str)) {
        let EffectiveKey::Table(keys) = &self.root else { return };
        let found = keys.iter().find(|(name, _)| name == key);
        let Some((_, EffectiveKey::Tables(tables))) = found else { return };
        let mut text = Vec::new();
        for table in tables {
            text.clear();
            table.write_given(&mut text);
            each(str::from_utf8(&text).expect("JSON is UTF-8"));
        }
    }

    /// As TOML, in the order of the declarations, without absent keys. Secrets are `"***"`.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        if let EffectiveKey::Table(keys) = &self.root {
            table(&mut text, "", keys);
        }
        text
    }
}

/// Writes the keys of a table, its own values before its tables (TOML requires it).
fn table(text: &mut String, path: &str, keys: &[(Cow<'static, str>, EffectiveKey)]) {
    for (name, setting) in keys {
        let Some(value) = setting.shown() else { continue };
        text.push_str(&format!("{} = {}\n", toml_key(name), toml_value(&value)));
    }
    for (name, setting) in keys {
        let path = joined(path, &toml_key(name));
        let (header, tables) = match setting {
            EffectiveKey::Table(_) => (format!("\n[{path}]\n"), std::slice::from_ref(setting)),
            EffectiveKey::Tables(tables) => (format!("\n[[{path}]]\n"), tables.as_slice()),
            _ => continue,
        };
        for each in tables {
            if let EffectiveKey::Table(keys) = each {
                // The file must not start with an empty line.
                text.push_str(if text.is_empty() { header.trim_start() } else { &header });
                table(text, &path, keys);
            }
        }
    }
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

//! Definitions in a file, TOML or JSON, in the API's form.
//!
//! Owns the selection of definitions. Only the exchange validates them.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

use pacer_serve::registry::read_json;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::DefinitionKind;
use crate::command::exit::CommandFailure;

const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The definitions of a file: the whole of it, or its tables `[[campaign]]` or `[[account]]`.
pub(super) fn read(kind: DefinitionKind, path: &Path) -> anyhow::Result<Vec<Map<String, Value>>> {
    let name = if path.as_os_str() == "-" {
        "what is piped in".to_owned()
    } else {
        path.display().to_string()
    };
    let wrong = |error: &dyn std::fmt::Display| CommandFailure::usage(format!("{name}: {error}"));
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(FILE_BYTES_MAX).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path);
        file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| wrong(&error))?;
    let is_json = text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[[");
    let value: Value = if is_json {
        read_json(text.as_bytes()).map_err(|error| wrong(&error))?
    } else {
        from_table(DeTable::parse(&text).map_err(|error| wrong(&error))?.get_ref())
    };
    definitions(kind, value).ok_or_else(|| {
        let (table, other) =
            (kind.name(), if kind == DefinitionKind::Account { "campaign" } else { "account" });
        wrong(&format!(
            "defines no {table}: write its keys, or tables under [[{table}]]; `vickrey {other} \
             create` takes those under [[{other}]]"
        ))
    })
}

fn definitions(kind: DefinitionKind, value: Value) -> Option<Vec<Map<String, Value>>> {
    let as_object = |value| match value {
        Value::Object(object) => Some(object),
        _ => None,
    };
    let mut found = match value {
        Value::Array(all) => all.into_iter().map(as_object).collect::<Option<Vec<_>>>()?,
        Value::Object(mut object) => match object.remove(kind.name()) {
            Some(Value::Array(all)) => all.into_iter().map(as_object).collect::<Option<_>>()?,
            Some(Value::Object(one)) if !object.contains_key("id") => vec![one],
            // A campaign names its account under the same key.
            Some(other) => {
                object.insert(kind.name().to_owned(), other);
                vec![object]
            }
            None => vec![object],
        },
        _ => return None,
    };
    found.retain(|definition| !definition.is_empty());
    let is_of_others = |it: &Map<String, Value>| {
        !it.contains_key("id") && it.values().all(|value| value.is_array() || value.is_object())
    };
    (!found.is_empty() && !found.iter().any(is_of_others)).then_some(found)
}

/// Dates and times become text. A decimal stays a number, which the exchange refuses with a remedy.
fn from_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => (**text).into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().into(), Value::from),
        DeValue::Float(number) => {
            number.as_str().parse::<f64>().map_or_else(|_| number.as_str().into(), Value::from)
        }
        DeValue::Boolean(is) => (*is).into(),
        DeValue::Datetime(at) => at.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| from_toml(item.get_ref())).collect(),
        DeValue::Table(table) => from_table(table),
    }
}

fn from_table(table: &DeTable<'_>) -> Value {
    let member = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        (key.get_ref().clone().into_owned(), from_toml(value.get_ref()))
    };
    table.iter().map(member).collect::<Map<_, _>>().into()
}

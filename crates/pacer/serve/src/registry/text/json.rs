//! JSON definitions as TOML, for one declaration of both. Refuses what TOML cannot express.

use runtime::config::ConfigProblem;
use serde_json::{Map, Value};

/// Deepest nesting: far more than any definition has.
const DEPTH_MAX: usize = 16;

/// Writes an object as TOML, one line for each key.
///
/// # Errors
/// Every value that TOML cannot express, by its path.
pub(in crate::registry) fn toml_of(
    object: &Map<String, Value>,
) -> Result<String, Vec<ConfigProblem>> {
    let mut writer = TomlWriter::default();
    for (name, value) in object {
        writer.key(name);
        writer.value(name, value, DEPTH_MAX);
        writer.text.push('\n');
    }
    if writer.problems.is_empty() { Ok(writer.text) } else { Err(writer.problems) }
}

pub(in crate::registry) fn problem(
    key: &str,
    value: Option<String>,
    remedy: impl Into<String>,
) -> ConfigProblem {
    let (key, remedy) = (key.to_owned(), remedy.into());
    ConfigProblem { file: None, line: None, column: None, key, value, remedy }
}

#[derive(Default)]
struct TomlWriter {
    text: String,
    problems: Vec<ConfigProblem>,
}

impl TomlWriter {
    fn key(&mut self, name: &str) {
        self.quoted(name);
        self.text.push_str(" = ");
    }

    /// JSON escapes like TOML, except for one character.
    fn quoted(&mut self, text: &str) {
        let quoted = Value::from(text).to_string();
        self.text.push_str(&quoted.replace('\u{7f}', "\\u007F"));
    }

    fn refuse(&mut self, path: &str, value: Option<String>, remedy: &str) {
        self.problems.push(problem(path, value, remedy));
    }

    fn value(&mut self, path: &str, value: &Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return self.refuse(path, None, "is nested too deep: no definition needs that");
        };
        match value {
            Value::Null => self.refuse(path, Some("null".to_owned()), "is null: leave the key out"),
            Value::Bool(is) => self.text.push_str(if *is { "true" } else { "false" }),
            Value::Number(number) if number.is_i64() => self.text.push_str(&number.to_string()),
            Value::Number(number) => {
                let remedy = format!("is no whole number: write it as text, \"{number}\"");
                self.refuse(path, Some(number.to_string()), &remedy);
            }
            Value::String(text) => self.quoted(text),
            Value::Array(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.value(&format!("{path}[{index}]"), item, depth);
                    self.text.push_str(", ");
                }
                self.text.push(']');
            }
            Value::Object(members) => {
                self.text.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    self.text.push_str(if index == 0 { " " } else { ", " });
                    self.key(name);
                    self.value(&format!("{path}.{name}"), member, depth);
                }
                self.text.push_str(" }");
            }
        }
    }
}

#[cfg(test)]
mod tests;

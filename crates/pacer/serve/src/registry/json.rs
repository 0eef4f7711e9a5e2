//! Definitions as JSON: as clients send them, on their way to the one declaration that reads both
//! forms.
//!
//! Owns what TOML has not, and is therefore refused. Knows no keys.

use runtime::config::ConfigProblem;
use serde_json::{Map, Value};

/// Tables and lists within each other, far more than any definition has.
const DEPTH_MAX: usize = 16;

/// Writes an object as TOML, a line for each key.
///
/// # Errors
///
/// Every value that TOML has not, by its path.
pub(super) fn toml_of(object: &Map<String, Value>) -> Result<String, Vec<ConfigProblem>> {
    let mut writer = TomlWriter::default();
    for (name, value) in object {
        writer.key(name);
        writer.value(name, value, DEPTH_MAX);
        writer.text.push('\n');
    }
    if writer.problems.is_empty() { Ok(writer.text) } else { Err(writer.problems) }
}

/// What is wrong at a path of a JSON document.
pub(super) fn problem(
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

    /// JSON escapes as TOML does, but for one character.
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
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: &Value, want: Result<&str, &[(&str, &str)]>) {
        let found = toml_of(value.as_object().expect("an object"));
        let found = found.map_err(|problems| {
            problems.into_iter().map(|it| (it.key, it.remedy)).collect::<Vec<_>>()
        });
        let owned = |all: &[(&str, &str)]| {
            all.iter().map(|(key, remedy)| ((*key).to_owned(), (*remedy).to_owned())).collect()
        };
        assert_eq!(found, want.map(str::to_owned).map_err(owned), "{value}");
    }

    #[test]
    fn what_toml_has() {
        check(&json!({ "a": "x" }), Ok("\"a\" = \"x\"\n"));
        check(&json!({ "a": -1, "b": true }), Ok("\"a\" = -1\n\"b\" = true\n"));
        check(&json!({ "a": [1, "2"] }), Ok("\"a\" = [1, \"2\", ]\n"));
        check(&json!({ "a": { "b c": [] } }), Ok("\"a\" = { \"b c\" = [] }\n"));
        check(&json!({ "a": "\u{7f}\u{1}\"\n" }), Ok("\"a\" = \"\\u007F\\u0001\\\"\\n\"\n"));
    }

    #[test]
    fn what_toml_has_not() {
        check(&json!({ "a": { "b": [null] } }), Err(&[("a.b[0]", "is null: leave the key out")]));
        check(
            &json!({ "a": 0.3, "b": u64::MAX }),
            Err(&[
                ("a", "is no whole number: write it as text, \"0.3\""),
                ("b", "is no whole number: write it as text, \"18446744073709551615\""),
            ]),
        );
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let path = format!("a{}", "[0]".repeat(16));
        check(
            &json!({ "a": deep }),
            Err(&[(&path, "is nested too deep: no definition needs that")]),
        );
    }
}

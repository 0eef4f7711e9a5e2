//! What a change has made of a definition: the keys that differ, each before and after.
//!
//! Owns how deep keys go: into tables and lists of tables; other lists are one value. Long values are
//! shortened, for the definition stands beside them.

use serde_json::{Map, Value, json};

/// Letters of a text that are shown.
const LETTERS_MAX: usize = 200;

/// The keys in which two definitions differ, in order; null for a key that is not there.
pub(super) fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Value {
    let mut found = Vec::new();
    tables("", (before, after), &mut found);
    found.into()
}

fn tables(
    path: &str,
    (before, after): (&Map<String, Value>, &Map<String, Value>),
    found: &mut Vec<Value>,
) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let of = |table: &Map<String, Value>| table.get(key).cloned().unwrap_or_default();
        values(&path, (&of(before), &of(after)), found);
    }
}

fn values(path: &str, (before, after): (&Value, &Value), found: &mut Vec<Value>) {
    let empty = Map::new();
    let table = |value: &Value| matches!(value, Value::Object(_));
    let tables_of = |value: &Value| match value {
        Value::Array(items) => !items.is_empty() && items.iter().all(table),
        _ => false,
    };
    if before == after {
        return;
    }
    if table(before) || table(after) {
        let of = |value: &'_ Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
        return tables(path, (&of(before), &of(after)), found);
    }
    if tables_of(before) || tables_of(after) {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (before, after) = (items(before), items(after));
        for index in 0..before.len().max(after.len()) {
            let of = |items: &[Value]| items.get(index).cloned().unwrap_or_default();
            values(&format!("{path}[{index}]"), (&of(&before), &of(&after)), found);
        }
        return;
    }
    found.push(json!({ "key": path, "before": shortened(before), "after": shortened(after) }));
}

fn shortened(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(_) => value.to_string(),
        other => return other.clone(),
    };
    if text.chars().count() <= LETTERS_MAX {
        return value.clone();
    }
    let kept: String = text.chars().take(LETTERS_MAX).collect();
    format!("{kept}…").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value, want: &Value) {
        let of = |value: Value| value.as_object().cloned().expect("a table");
        assert_eq!(differences(&of(before), &of(after)), *want);
    }

    #[test]
    fn each_key_that_differs_is_told_before_and_after() {
        let told = |key: &str, before: Value, after: Value| json!({ "key": key, "before": before, "after": after });
        check(json!({ "a": 1 }), json!({ "a": 1 }), &json!([]));
        check(
            json!({ "a": 1, "b": "x" }),
            json!({ "b": "y", "c": ["z"] }),
            &json!([
                told("a", json!(1), Value::Null),
                told("b", json!("x"), json!("y")),
                told("c", Value::Null, json!(["z"])),
            ]),
        );
        let creative = |id: &str| json!({ "id": id, "size": "1x1" });
        check(
            json!({ "bid": { "value": "1" }, "creative": [creative("a"), creative("b")] }),
            json!({ "bid": { "price": "1" }, "creative": [creative("c")] }),
            &json!([
                told("bid.value", json!("1"), Value::Null),
                told("bid.price", Value::Null, json!("1")),
                told("creative[0].id", json!("a"), json!("c")),
                told("creative[1].id", json!("b"), Value::Null),
                told("creative[1].size", json!("1x1"), Value::Null),
            ]),
        );
        let long = "x".repeat(300);
        let short = format!("{}…", "x".repeat(200));
        check(json!({}), json!({ "m": long }), &json!([told("m", Value::Null, json!(short))]));
    }
}

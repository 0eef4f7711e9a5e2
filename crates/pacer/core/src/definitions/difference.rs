//! The difference of two definitions: the keys that changed, each before and after.
//!
//! Looks into tables and lists of tables; other lists are one value. Shortens long values.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

const LETTERS_MAX: usize = 200;

/// A changed key; null for an absent value.
#[derive(Debug, PartialEq, Serialize)]
pub struct KeyDifference {
    after: Value,
    before: Value,
    key: String,
}

/// The changed keys, in order. Both definitions are objects as JSON text, in the form that equal
/// values share: only differing text is parsed.
pub fn differences(before: &str, after: &str) -> Vec<KeyDifference> {
    let mut found = Vec::new();
    if before != after {
        tables("", &members(before), &members(after), &mut found);
    }
    found
}

#[derive(Default)]
struct ObjectMembers<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

impl<'t> ObjectMembers<'t> {
    fn get(&self, key: &str) -> Option<&'t RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }
}

impl<'t> Deserialize<'t> for ObjectMembers<'t> {
    fn deserialize<D: Deserializer<'t>>(reader: D) -> Result<Self, D::Error> {
        struct MembersReader;

        impl<'t> Visitor<'t> for MembersReader {
            type Value = ObjectMembers<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(
                self,
                mut members: A,
            ) -> Result<ObjectMembers<'t>, A::Error> {
                let mut read = Vec::with_capacity(MEMBERS_LIKELY);
                while let Some((name, value)) = members.next_entry::<&RawValue, _>()? {
                    let name = text(name).ok_or_else(|| A::Error::custom("a name is text"))?;
                    read.push((name, value));
                }
                Ok(ObjectMembers(read))
            }
        }

        reader.deserialize_map(MembersReader)
    }
}

const MEMBERS_LIKELY: usize = 16;

/// A text, borrowed if it has no escapes.
fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let quoted = value.get().strip_prefix('"')?.strip_suffix('"')?;
    match quoted.contains('\\') {
        false => Some(Cow::Borrowed(quoted)),
        true => serde_json::from_str(value.get()).ok().map(Cow::Owned),
    }
}

fn members(object: &str) -> ObjectMembers<'_> {
    serde_json::from_str(object).expect("it was written as an object")
}

fn tables(
    path: &str,
    before: &ObjectMembers<'_>,
    after: &ObjectMembers<'_>,
    found: &mut Vec<KeyDifference>,
) {
    let added = after.0.iter().filter(|(key, _)| before.get(key).is_none());
    for (key, _) in before.0.iter().chain(added) {
        let (was, is) = (before.get(key), after.get(key));
        if was.map(RawValue::get) != is.map(RawValue::get) {
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            values(path, was, is, found);
        }
    }
}

fn values(
    path: String,
    before: Option<&RawValue>,
    after: Option<&RawValue>,
    found: &mut Vec<KeyDifference>,
) {
    let begins = |with: &str| [before, after].iter().flatten().any(|it| it.get().starts_with(with));
    if begins("{") {
        return tables(&path, &table(before), &table(after), found);
    }
    if begins("[{") {
        let (before, after) = (items(before), items(after));
        for index in 0..before.len().max(after.len()) {
            let (was, is) = (before.get(index).copied(), after.get(index).copied());
            if was.map(RawValue::get) != is.map(RawValue::get) {
                values(format!("{path}[{index}]"), was, is, found);
            }
        }
        return;
    }
    found.push(KeyDifference { after: shortened(after), before: shortened(before), key: path });
}

fn table(value: Option<&RawValue>) -> ObjectMembers<'_> {
    let value = value.map(RawValue::get).filter(|text| text.starts_with('{'));
    value.map(members).unwrap_or_default()
}

fn items(list: Option<&RawValue>) -> Vec<&RawValue> {
    let list = list.filter(|list| list.get().starts_with('['));
    list.map_or_else(Vec::new, |list| {
        serde_json::from_str(list.get()).expect("it was written as a list")
    })
}

fn shortened(value: Option<&RawValue>) -> Value {
    let Some(value) = value else { return Value::Null };
    let value: Value = serde_json::from_str(value.get()).expect("it was written as a value");
    let text = match &value {
        Value::String(text) => Cow::from(text),
        Value::Array(_) => Cow::from(value.to_string()),
        _ => return value,
    };
    let end = text.char_indices().nth(LETTERS_MAX).map(|(end, _)| end);
    let shortened = end.map(|end| format!("{}…", &text[..end]).into());
    drop(text);
    shortened.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, want: &Value) {
        let found = differences(&before.to_string(), &after.to_string());
        assert_eq!(serde_json::to_value(found).expect("JSON"), *want);
    }

    #[test]
    fn each_key_that_differs_is_told_before_and_after() {
        let told = |key: &str, before: Value, after: Value| json!({ "key": key, "before": before, "after": after });
        check(&json!({ "a": 1 }), &json!({ "a": 1 }), &json!([]));
        check(
            &json!({ "a": 1, "b": "x" }),
            &json!({ "b": "y", "c": ["z"] }),
            &json!([
                told("a", json!(1), Value::Null),
                told("b", json!("x"), json!("y")),
                told("c", Value::Null, json!(["z"])),
            ]),
        );
        let creative = |id: &str| json!({ "id": id, "size": "1x1" });
        check(
            &json!({ "bid": { "value": "1" }, "creative": [creative("a"), creative("b")] }),
            &json!({ "bid": { "price": "1" }, "creative": [creative("c")] }),
            &json!([
                told("bid.value", json!("1"), Value::Null),
                told("bid.price", Value::Null, json!("1")),
                told("creative[0].id", json!("a"), json!("c")),
                told("creative[1].id", json!("b"), Value::Null),
                told("creative[1].size", json!("1x1"), Value::Null),
            ]),
        );
        // Escapes in names and values, and lists of other things than tables.
        check(
            &json!({ "a\"b": { "\u{1}": 1 }, "l": [1, [2]], "t": [] }),
            &json!({ "a\"b": { "\u{1}": "\\" }, "l": [1, [3]], "t": [{}] }),
            &json!([
                told("a\"b.\u{1}", json!(1), json!("\\")),
                told("l", json!([1, [2]]), json!([1, [3]])),
            ]),
        );
        let long = "x".repeat(300);
        let short = format!("{}…", "x".repeat(200));
        check(&json!({}), &json!({ "m": long }), &json!([told("m", Value::Null, json!(short))]));
    }
}

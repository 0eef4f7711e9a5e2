//! A JSON object taken apart and a JSON string undone, for text that is put together anew. Which
//! members matter is the caller's to know.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::Text;
use crate::json::{DEPTH_MAX, deeper_than};

/// The members of the object `text`, in order: each key, and its value as JSON text.
///
/// `None` when it is no JSON object, or nested deeper than [`DEPTH_MAX`].
pub fn members(text: &str) -> Option<Vec<(Text<'_>, &str)>> {
    struct MembersVisitor;

    impl<'de> Visitor<'de> for MembersVisitor {
        type Value = Vec<(Text<'de>, &'de str)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut members = Vec::with_capacity(16);
            while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                members.push((key, value.get()));
            }
            Ok(members)
        }
    }

    if deeper_than(text.as_bytes(), DEPTH_MAX) {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(MembersVisitor).ok()?;
    deserializer.end().ok()?;
    Some(members)
}

/// The `id` of the bid request `text`, as JSON text: for an answer to a request that is not read
/// otherwise. `None` unless it is a string.
pub fn request_id(text: &str) -> Option<&str> {
    let (_, id) = members(text)?.into_iter().find(|(key, _)| &**key == "id")?;
    string(id).map(|_| id)
}

/// What the JSON string `text`, quotes included, says; `None` when it is none, or half of a
/// surrogate pair stands in it.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    if inside.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_come_apart() {
        let text = r#" { "a" : 1 , "n\u0075rl":"x\n", "c":[ {} ],"a":null } "#;
        let got = members(text).unwrap();
        let got: Vec<_> = got.iter().map(|(key, value)| (&**key, *value)).collect();
        assert_eq!(got, [("a", "1"), ("nurl", r#""x\n""#), ("c", "[ {} ]"), ("a", "null")]);
        assert_eq!(members("{}").map(|members| members.len()), Some(0));
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        for text in ["", "[]", "1", "null", "{", "{}x", "{\"a\":1,}", &deep] {
            assert!(members(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_id_of_a_request_is_found_alone() {
        for (text, want) in [
            (r#"{"imp":[{"id":"i"}],"id":"r\n","x":1}"#, Some(r#""r\n""#)),
            (r#"{"id":7}"#, None),
            (r#"{"imp":[{"id":"i"}]}"#, None),
            (r#"{"id":"r""#, None),
        ] {
            assert_eq!(request_id(text), want, "{text}");
        }
    }

    #[test]
    fn strings_are_undone() {
        for (text, want) in [
            (r#""""#, Some("")),
            (r#""a/b""#, Some("a/b")),
            (r#""a\/\u0026\ud83d\ude00\"""#, Some("a/&😀\"")),
            (r#""\ud83d""#, None),
            (r#""\""#, None),
            ("\"a\nb\"", None),
            ("7", None),
            (r#"""#, None),
        ] {
            assert_eq!(string(text).as_deref(), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_undone(text in any::<String>()) {
            let quoted = format!("\"{}\"", crate::escaped(&text));
            prop_assert!(crate::is_json(&quoted));
            let undone = string(&quoted);
            prop_assert_eq!(undone.as_deref(), Some(&*text));
        }
    }
}

//! JSON without repeated names: of two equal ones, other readers silently take the last. Owns how
//! repeated names are found, with their paths.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

const TWICE_MAX: usize = 20;

/// Why a text is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadJsonError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Paths of repeated names, and the value with the last of each.
    #[error("{}", .0.iter().map(|path| format!("{path}: is given twice, remove one")).collect::<Vec<_>>().join("; "))]
    Twice(Vec<String>, Value),
}

/// Reads any JSON value.
///
/// # Errors
/// The syntax error, or every repeated name.
pub fn read_json(text: &[u8]) -> Result<Value, ReadJsonError> {
    let twice = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = PathSeed { place: &JsonPath::Whole, twice: &twice }.deserialize(&mut reader)?;
    reader.end()?;
    let twice = twice.into_inner();
    if twice.is_empty() { Ok(value) } else { Err(ReadJsonError::Twice(twice, value)) }
}

enum JsonPath<'p> {
    Whole,
    Member(&'p JsonPath<'p>, &'p str),
    Item(&'p JsonPath<'p>, usize),
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Member(JsonPath::Whole, name) => f.write_str(name),
            Self::Member(of, name) => write!(f, "{of}.{name}"),
            Self::Item(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

struct PathSeed<'p> {
    place: &'p JsonPath<'p>,
    twice: &'p RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for PathSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PathSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(is.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(number).map(Value::from).ok_or_else(|| E::custom("no number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        loop {
            let place = JsonPath::Item(self.place, read.len());
            match items.next_element_seed(PathSeed { place: &place, twice: self.twice })? {
                Some(item) => read.push(item),
                None => return Ok(read.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let place = JsonPath::Member(self.place, &name);
            let value = members.next_value_seed(PathSeed { place: &place, twice: self.twice })?;
            if read.contains_key(&name) {
                let mut twice = self.twice.borrow_mut();
                if twice.len() >= TWICE_MAX {
                    return Err(A::Error::custom("too many names stand twice"));
                }
                twice.push(place.to_string());
            }
            read.insert(name, value);
        }
        Ok(read.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        match (read_json(text.as_bytes()), want) {
            (Ok(read), []) => assert_eq!(read, serde_json::from_str::<Value>(text).expect("JSON")),
            (Err(ReadJsonError::Twice(found, _)), [_, ..]) => assert_eq!(found, want, "{text}"),
            (read, _) => panic!("{text}: {read:?}"),
        }
    }

    #[test]
    fn names_that_stand_twice_are_told_with_their_paths() {
        check(r#"{"a": 1, "b": 2}"#, &[]);
        check(r#"{"a": {"x": 1}, "b": {"x": 1}, "c": [{"x": 1}, {"x": 1}]}"#, &[]);
        check(r#"{"a": 1, "b": 2, "a": 1}"#, &["a"]);
        check(r#"{"a": 1, "\u0061": 2}"#, &["a"]);
        check(r#"{"bid": {"value": "1", "value": "2"}}"#, &["bid.value"]);
        check(r#"{"c": [{}, {"id": 1, "id": 2, "id": 3}], "c": 0}"#, &["c[1].id", "c[1].id", "c"]);
        check(r#"[{"a": [[{"b": 1, "b": 2}]]}]"#, &["[0].a[0][0].b"]);
    }

    #[test]
    fn all_values_are_read_as_they_are() {
        for text in
            ["null", "true", "-1", "18446744073709551615", "0.25", r#""x\n\ud83d\ude00""#, "[]"]
        {
            check(text, &[]);
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let deep = "[".repeat(10_000);
        let many = format!("{{{}\"a\": 1}}", "\"a\": 1, ".repeat(100));
        for text in ["", "{", "{} x", "{\"a\": 1,}", "nul", "1e999", &deep, &many] {
            let read = read_json(text.as_bytes());
            assert!(matches!(read, Err(ReadJsonError::Json(_))), "{text}: {read:?}");
        }
        assert!(read_json(b"\"\xff\"").is_err());
    }
}

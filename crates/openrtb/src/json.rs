//! The only module that names a JSON parser: borrowed text, values with their place, a depth limit,
//! and errors with a path.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use serde::de::{
    Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Unexpected, Visitor,
};
use serde_json::value::RawValue;
use units::{Cpm, DecimalError, Rounding};

use crate::invalid::{InvalidReason, InvalidRequest};

/// Deepest nesting of arrays and objects that is read.
pub const DEPTH_MAX: usize = 64;

/// Separates path and problem in an error that passes from an inner parser to the outer one.
const PATH_MARK: char = '\u{1}';

/// A JSON string, borrowed unless it has escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// A value with the text it was read from, which can be replaced in place.
#[derive(Clone, Debug)]
pub struct Spanned<'a, T> {
    raw: &'a str,
    value: T,
}

impl<'a, T> Spanned<'a, T> {
    /// The JSON text of the value.
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// The value's place in `body`, the text it was parsed from.
    pub fn span(&self, body: &str) -> Range<usize> {
        span_of(self.raw, body)
    }
}

impl<T> Deref for Spanned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Spanned<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::<'de, T>::read(<&'de RawValue>::deserialize(deserializer)?.get())
    }
}

impl<'a, T: Deserialize<'a>> Spanned<'a, T> {
    fn read<E: serde::de::Error>(raw: &'a str) -> Result<Self, E> {
        let value = serde_json::from_str(raw).map_err(|_| {
            let inner = locate::<T>(raw);
            E::custom(format!("{PATH_MARK}{}{PATH_MARK}{}", inner.path, inner.problem))
        })?;
        Ok(Self { raw, value })
    }
}

/// Reads a string; an empty one counts as absent.
pub(crate) fn text_unless_empty<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Text<'a>>, D::Error> {
    let text = Option::<Text<'de>>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// Reads a list of strings, dropping empty ones. An empty string instead of the list is an empty
/// list.
pub(crate) fn texts_unless_empty<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<'a, Vec<Text<'a>>>>, D::Error> {
    let raw = Option::<&'de RawValue>::deserialize(deserializer)?.map(RawValue::get);
    let list = match raw {
        None => return Ok(None),
        Some(raw @ "\"\"") => Ok(Spanned { raw, value: Vec::new() }),
        Some(raw) => Spanned::<Vec<Text<'de>>>::read(raw),
    };
    list.map(|mut list| {
        list.value.retain(|text| !text.is_empty());
        Some(list)
    })
}

/// A whole number, which JSON may write as `300.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntegralNumber<T>(T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for IntegralNumber<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor<T>(PhantomData<T>);

        impl<T: TryFrom<u64>> Visitor<'_> for WholeVisitor<T> {
            type Value = IntegralNumber<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let max = u64::MAX >> (64 - 8 * size_of::<T>());
                write!(f, "a whole number from 0 to {max}")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
                let whole = T::try_from(number).map(IntegralNumber);
                whole.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
                // Decimal text has no point exactly if there is no fraction. Minus zero is zero.
                let text = number.to_string();
                match if text == "-0" { Ok(0) } else { text.parse() } {
                    Ok(whole) => self.visit_u64(whole),
                    Err(_) => Err(E::invalid_value(Unexpected::Float(number), &self)),
                }
            }
        }

        deserializer.deserialize_u64(WholeVisitor(PhantomData))
    }
}

/// Reads a whole number or null.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let number = Option::<IntegralNumber<T>>::deserialize(deserializer)?;
    Ok(number.map(|IntegralNumber(number)| number))
}

/// Reads a whole number or null; 0 counts as absent.
pub(crate) fn whole_unless_zero<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let number = whole(deserializer)?;
    Ok(number.filter(|number| *number > 0))
}

/// Reads a whole number, possibly negative, or null.
pub(crate) fn signed_whole<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let whole = || number.as_f64()?.to_string().parse().ok();
    let refused = || serde::de::Error::custom("expected a whole number");
    number.as_i64().or_else(whole).map(Some).ok_or_else(refused)
}

/// Reads a whole number with its place, or null.
pub(crate) fn spanned_whole<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<'a, u32>>, D::Error> {
    let number = Option::<Spanned<'de, IntegralNumber<u32>>>::deserialize(deserializer)?;
    Ok(number.map(|Spanned { raw, value: IntegralNumber(value) }| Spanned { raw, value }))
}

/// Reads whole numbers, at most `N` as [`at_most`] does, or null.
pub(crate) fn wholes<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<Option<Vec<u32>>, D::Error> {
    let list = at_most::<D, IntegralNumber<u32>, N>(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|IntegralNumber(number)| number).collect()))
}

/// Reads an array or null, and keeps at most `N` elements: `{}` may take hundreds of times the
/// memory of its text. A caller that must refuse longer lists passes its limit + 1.
pub(crate) fn at_most<'de, D, T, const N: usize>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Few<T, const N: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Few<T, N> {
        type Value = Option<Vec<T>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
            inner.deserialize_seq(self)
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
            let mut kept = Vec::new();
            while kept.len() < N {
                match seq.next_element()? {
                    Some(element) => kept.push(element),
                    None => return Ok(Some(kept)),
                }
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Some(kept))
        }
    }

    deserializer.deserialize_option(Few::<T, N>(PhantomData))
}

/// A floor in CPM, rounded up, with its place; its currency is a field of its own.
#[derive(Clone, Copy, Debug)]
pub struct FloorPrice<'a> {
    raw: &'a str,
    /// Micros per 1000 impressions.
    pub amount: Cpm,
}

impl FloorPrice<'_> {
    /// A price that was read from no text, and so has no place in any.
    pub(crate) const fn unplaced(amount: Cpm) -> Self {
        Self { raw: "", amount }
    }

    /// The number's place in `body`, the text it was parsed from.
    pub fn span(&self, body: &str) -> Range<usize> {
        span_of(self.raw, body)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FloorPrice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let amount = Cpm::parse(raw, Rounding::Up).map_err(|error| {
            D::Error::custom(match error {
                DecimalError::Malformed => {
                    format!("`{}` is not a price, expected a number", shown(raw))
                }
                DecimalError::Negative => format!("`{}` is a negative price", shown(raw)),
                DecimalError::TooLarge => format!("`{}` is above any price", shown(raw)),
            })
        })?;
        Ok(Self { raw, amount })
    }
}

/// Describes JSON text for a message.
pub(crate) fn described(raw: &str) -> String {
    let kind = match raw.as_bytes().first() {
        Some(b'{') => return "is an object".to_owned(),
        Some(b'[') => return "is an array".to_owned(),
        Some(b'n') => return "is null".to_owned(),
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        _ => "number",
    };
    format!("`{}` is a {kind}", shown(raw.trim_matches('"')))
}

/// The start of untrusted text, shortened for a message.
pub(crate) fn shown(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Whether `text` is one JSON value within [`DEPTH_MAX`].
pub fn is_json(text: &str) -> bool {
    !deeper_than(text.as_bytes(), DEPTH_MAX) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Parses `text`; an error has the path of the first problem.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, InvalidRequest> {
    if deeper_than(text.as_bytes(), DEPTH_MAX) {
        return Err(too_deep());
    }
    parse_of_any_depth(text)
}

/// As [`parse`], when the caller checks the depth afterwards. The parser is safe at any depth: it
/// limits the depth of what it reads, and skips the rest without recursion.
pub(crate) fn parse_of_any_depth<'a, T: Deserialize<'a>>(
    text: &'a str,
) -> Result<T, InvalidRequest> {
    // Tracking paths costs time, so a second parse does it after an error.
    serde_json::from_str(text).map_err(|_| match deeper_than(text.as_bytes(), DEPTH_MAX) {
        true => too_deep(),
        false => locate::<T>(text),
    })
}

pub(crate) fn too_deep() -> InvalidRequest {
    let problem = format!("nested deeper than {DEPTH_MAX} arrays and objects");
    InvalidRequest::at(InvalidReason::TooDeep, "", problem)
}

fn locate<'a, T: Deserialize<'a>>(text: &'a str) -> InvalidRequest {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut deserializer) else {
        let problem = deserializer.end().map_or_else(|error| error.to_string(), |()| String::new());
        return InvalidRequest::at(InvalidReason::NotJson, "", problem);
    };
    let path = error.path().to_string();
    // The tracker's names for the root, and for a key that broken text leaves unknown.
    let path = path.trim_end_matches(['?', '.']);
    let reason =
        if error.inner().is_data() { InvalidReason::WrongType } else { InvalidReason::NotJson };
    let message = error.into_inner().to_string();
    let Some(marked) = message.strip_prefix(PATH_MARK) else {
        let message = match reason {
            InvalidReason::NotJson => &message,
            // Line and column of an inner parser would mislead; the path is better.
            _ => without_place(&message),
        };
        return InvalidRequest::at(reason, path, in_json_terms(message));
    };
    let (inner_path, problem) = marked.split_once(PATH_MARK).unwrap_or(("", marked));
    InvalidRequest::at(reason, join(path, inner_path), in_json_terms(without_place(problem)))
}

fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(text, _)| text)
}

/// Translates the parser's message from Rust's types to JSON's. Other messages stay as they are.
fn in_json_terms(message: &str) -> String {
    let quoted =
        |prefix: &str| message.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('`'));
    if let Some(key) = quoted("duplicate field `") {
        return format!("`{key}` stands twice");
    }
    if let Some(key) = quoted("missing field `") {
        return format!("`{key}` is required");
    }
    let found = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = found.into_iter().find_map(|prefix| message.strip_prefix(prefix));
    let Some((found, expected)) = found.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let expected = match expected {
        "a sequence" => "an array",
        "a map" => "an object",
        struct_name if struct_name.starts_with("struct ") => "an object",
        other => other,
    };
    // The kind of value, with its text if that is short or shortened.
    let (kind, text) = found.split_once(' ').unwrap_or((found, ""));
    let text = shown(text.trim_start_matches("point ").trim_matches(['`', '"']));
    let found = match kind {
        "integer" | "floating" => format!("`{text}` is a number"),
        "boolean" => format!("`{text}` is a boolean"),
        "string" => format!("`{text}` is a string"),
        "null" => "is null".to_owned(),
        "map" => "is an object".to_owned(),
        // A sequence, or the length of one that was read as an object.
        _ => "is an array".to_owned(),
    };
    format!("{found}, expected {expected}")
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        (path, "") | ("", path) => path.to_owned(),
        (outer, inner) if inner.starts_with('[') => format!("{outer}{inner}"),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Whether arrays and objects are nested deeper than `limit`. Brackets in strings do not count.
pub(crate) fn deeper_than(text: &[u8], limit: usize) -> bool {
    // Usually there are fewer brackets than the limit, which is a fast check.
    if memchr::memchr2_iter(b'{', b'[', text).nth(limit).is_none() {
        return false;
    }
    let mut depth = 0usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => (),
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => (),
        }
    }
}

/// The place of `part`, a slice of `body`, in it.
pub(crate) fn span_of(part: &str, body: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize)
        .checked_sub(body.as_ptr() as usize)
        .filter(|start| start + part.len() <= body.len())
        .expect("a parsed value lies in the text it was parsed from");
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_strings() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_json(&nested(DEPTH_MAX)));
        assert!(!is_json(&nested(DEPTH_MAX + 1)));
        let wide = format!("[{}]", vec!["[]"; 200].join(","));
        assert!(is_json(&wide));
        let quoted = format!("[\"{}\\\"{}\"]", "[".repeat(70), "{".repeat(70));
        assert!(is_json(&quoted));
        assert!(!is_json("[1,"));
    }

    #[test]
    fn what_is_too_much_is_not_kept() {
        #[derive(serde::Deserialize)]
        struct Probe {
            #[serde(default, deserialize_with = "at_most::<_, _, 2>")]
            list: Option<Vec<u8>>,
        }
        for (text, want) in [
            ("{}", Ok(None)),
            (r#"{"list":null}"#, Ok(None)),
            (r#"{"list":[]}"#, Ok(Some(vec![]))),
            (r#"{"list":[1,2]}"#, Ok(Some(vec![1, 2]))),
            (r#"{"list":[1,2,3,"x"]}"#, Ok(Some(vec![1, 2]))),
            (r#"{"list":[1,"x"]}"#, Err("list[1]")),
            (r#"{"list":1}"#, Err("list")),
        ] {
            let got = parse::<Probe>(text).map(|probe| probe.list);
            assert_eq!(
                got.as_ref().map_err(|invalid| &*invalid.path),
                want.as_ref().map_err(|p| *p)
            );
        }
    }

    #[test]
    fn whole_numbers_are_read_however_json_writes_them() {
        #[derive(serde::Deserialize)]
        struct Probe {
            #[serde(default, deserialize_with = "whole")]
            plain: Option<u8>,
            #[serde(default, deserialize_with = "signed_whole")]
            signed: Option<i64>,
        }
        for (number, plain, signed) in [
            ("0", Some(0), Some(0)),
            ("-0", Some(0), Some(0)),
            ("-0.0", Some(0), Some(0)),
            ("-0e3", Some(0), Some(0)),
            ("255.0", Some(255), Some(255)),
            ("2.5e2", Some(250), Some(250)),
            ("-1", None, Some(-1)),
            ("-1.0", None, Some(-1)),
            ("-0.5", None, None),
            ("256", None, Some(256)),
        ] {
            let got = parse::<Probe>(&format!(r#"{{"plain":{number}}}"#));
            assert_eq!(got.ok().and_then(|probe| probe.plain), plain, "{number}");
            let got = parse::<Probe>(&format!(r#"{{"signed":{number}}}"#));
            assert_eq!(got.ok().and_then(|probe| probe.signed), signed, "{number}");
        }
    }

    #[test]
    fn spans_point_into_the_body() {
        let body = r#"{"a": 12 , "b":"x\u0041"}"#;
        #[derive(serde::Deserialize)]
        struct Probe<'a> {
            #[serde(borrow)]
            a: Spanned<'a, u32>,
            #[serde(borrow)]
            b: Spanned<'a, Text<'a>>,
        }
        let probe: Probe<'_> = parse(body).unwrap();
        assert_eq!((*probe.a, &body[probe.a.span(body)]), (12, "12"));
        assert_eq!((&**probe.b, probe.b.raw()), ("xA", r#""x\u0041""#));
    }
}

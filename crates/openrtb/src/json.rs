//! The one module that names a JSON parser: borrowed text, values that know where they stand,
//! a nesting limit, and errors with a path.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use units::{Cpm, DecimalError, Round};

use crate::{Invalid, Reason};

/// Deepest nesting of arrays and objects that is read.
pub const DEPTH_MAX: usize = 64;

/// Separates path and problem in an error that crosses from an inner parse to the outer one.
const PATH_MARK: char = '\u{1}';

/// A JSON string, borrowed unless it holds escapes.
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

/// A value and the text it was read from, so that the text can be replaced in place.
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

    /// Where the value stands in `body`, the text it was parsed from.
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
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let value = serde_json::from_str(raw).map_err(|_| {
            let inner = locate::<T>(raw);
            D::Error::custom(format!("{PATH_MARK}{}{PATH_MARK}{}", inner.path, inner.problem))
        })?;
        Ok(Self { raw, value })
    }
}

/// Reads an array or null, and keeps at most `N` elements: one may take hundreds of times the
/// memory of its text, `{}`. More are skipped, for whoever finds `N` of them to refuse.
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

/// A floor, in CPM of a currency that stands elsewhere; rounded up, and its place kept.
#[derive(Clone, Copy, Debug)]
pub struct FloorPrice<'a> {
    raw: &'a str,
    /// Micros per 1000 impressions.
    pub amount: Cpm,
}

impl FloorPrice<'_> {
    /// Where the number stands in `body`, the text it was parsed from.
    pub fn span(&self, body: &str) -> Range<usize> {
        span_of(self.raw, body)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FloorPrice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let amount = Cpm::parse(raw, Round::Up).map_err(|error| {
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

/// The start of hostile text, fit for a message.
pub(crate) fn shown(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Whether `text` is one JSON value within [`DEPTH_MAX`].
pub fn is_json(text: &str) -> bool {
    !deeper_than(text.as_bytes(), DEPTH_MAX) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// `text` as it stands between the quotes of a JSON string.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let quoted = serde_json::Value::from(text).to_string();
    Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
}

/// Parses `text`, with the path to the first problem.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Invalid> {
    if deeper_than(text.as_bytes(), DEPTH_MAX) {
        let problem = format!("nested deeper than {DEPTH_MAX} arrays and objects");
        return Err(Invalid::at(Reason::TooDeep, "", problem));
    }
    // Paths cost time: they are tracked in a second parse, once something is known to be wrong.
    serde_json::from_str(text).map_err(|_| locate::<T>(text))
}

fn locate<'a, T: Deserialize<'a>>(text: &'a str) -> Invalid {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut deserializer) else {
        let problem = deserializer.end().map_or_else(|error| error.to_string(), |()| String::new());
        return Invalid::at(Reason::NotJson, "", problem);
    };
    let path = error.path().to_string();
    // The tracker's words for the root, and for a key that broken text leaves unknown.
    let path = path.trim_end_matches(['?', '.']);
    let reason = if error.inner().is_data() { Reason::WrongType } else { Reason::NotJson };
    let message = error.into_inner().to_string();
    let Some(marked) = message.strip_prefix(PATH_MARK) else {
        let message = match reason {
            Reason::NotJson => &message,
            // The line and column of an inner parse would mislead; the path says more.
            _ => message.rsplit_once(" at line ").map_or(message.as_str(), |(text, _)| text),
        };
        return Invalid::at(reason, path, message);
    };
    let (inner_path, problem) = marked.split_once(PATH_MARK).unwrap_or(("", marked));
    let problem = problem.rsplit_once(" at line ").map_or(problem, |(text, _)| text);
    Invalid::at(reason, join(path, inner_path), problem)
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        (path, "") | ("", path) => path.to_owned(),
        (outer, inner) if inner.starts_with('[') => format!("{outer}{inner}"),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Whether arrays and objects nest deeper than `limit`. Brackets within strings do not count.
pub(crate) fn deeper_than(text: &[u8], limit: usize) -> bool {
    // Fewer brackets than the limit cannot nest deeper: the usual case, at memory speed.
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

/// Whether the JSON text is an object. Parsers take an array for a struct; edits cannot.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}

/// Where `part`, a slice of `body`, stands in it.
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
    fn strings_are_escaped_where_needed() {
        assert!(matches!(escaped("plain é"), Cow::Borrowed("plain é")));
        assert_eq!(escaped("a\"b\\c\n\u{1}"), r#"a\"b\\c\n\u0001"#);
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

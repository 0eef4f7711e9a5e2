//! Members of JSON objects and elements of arrays as text, and unescaped strings.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::Text;
use crate::json::{DEPTH_MAX, deeper_than};

/// The members of the object `text` in order, as key and JSON text of the value. None if it is not
/// an object, or nested deeper than [`DEPTH_MAX`].
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

/// The `id` of a bid request as JSON text, for a response to a request that is not parsed. None
/// unless it is a string.
pub fn request_id(text: &str) -> Option<&str> {
    let (_, id) = members(text)?.into_iter().find(|(key, _)| &**key == "id")?;
    string(id).map(|_| id)
}

/// The content of a JSON string, given with its quotes. None if it is not a string, or contains
/// half of a surrogate pair.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    if inside.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// The values of all members with this key in the object `text`, as JSON text.
pub(crate) fn named<'t>(text: Option<&'t str>, key: &str) -> impl Iterator<Item = &'t str> {
    entries(text, b'{').filter(move |(name, _)| is(name, key)).map(|(_, value)| value)
}

/// Whether the JSON string `raw` has the content `text`.
fn is(raw: &str, text: &str) -> bool {
    string(raw).is_some_and(|said| said == text)
}

/// The members of an object (`open` is a brace) with their keys, or the elements of an array
/// (`open` is a bracket) with empty keys, all as JSON text. Nothing for any other text.
///
/// For text that a parser has accepted. The parser itself would allocate for the values it skips.
pub(crate) fn entries(text: Option<&str>, open: u8) -> JsonEntries<'_> {
    let text = text.filter(|text| text.as_bytes().first() == Some(&open)).unwrap_or_default();
    JsonEntries { rest: text.get(1..).unwrap_or_default(), has_keys: open == b'{' }
}

pub(crate) struct JsonEntries<'t> {
    rest: &'t str,
    has_keys: bool,
}

impl<'t> Iterator for JsonEntries<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut key = "";
        if self.has_keys {
            key = self.take_value().filter(|key| key.starts_with('"'))?;
        }
        Some((key, self.take_value()?))
    }
}

impl<'t> JsonEntries<'t> {
    /// The next value, without what precedes it. None at the end.
    fn take_value(&mut self) -> Option<&'t str> {
        let is_between = |byte: char| byte.is_ascii_whitespace() || byte == ',' || byte == ':';
        let text = self.rest.trim_start_matches(is_between);
        let (value, rest) = text.split_at_checked(value_len(text.as_bytes()))?;
        self.rest = rest;
        (!value.is_empty()).then_some(value)
    }
}

/// Length of the value at the start of `text`; 0 if there is none.
#[inline]
pub(crate) fn value_len(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_len(text),
        Some(b'{' | b'[') => nested_len(text).0,
        _ => text.iter().position(|byte| is_behind_scalar(*byte)).unwrap_or(text.len()),
    }
}

/// Whether a number, a boolean or null ends before this byte.
#[inline]
pub(crate) const fn is_behind_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r')
}

/// Length of the object or array at the start of `text`, and its depth.
pub(crate) fn nested_len(text: &[u8]) -> (usize, usize) {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_len(&text[at..]);
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth -= 1,
            _ => (),
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    (at, deepest)
}

/// Length of the JSON string at the start of `text`, with its quotes.
#[inline]
pub(crate) fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    // Most strings are short, so a few words are checked before a search.
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()).filter(|_| at < 32) {
        let ends = places_of(u64::from_le_bytes(*word), b'"');
        if ends != 0 {
            let end = at + ends.trailing_zeros() as usize / 8;
            return if text[end - 1] == b'\\' { escaped_string_len(text) } else { end + 1 };
        }
        at += 8;
    }
    escaped_string_len(text)
}

/// As [`string_len`], for a long string or one with escapes.
pub(crate) fn escaped_string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(step) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += step;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Sets the high bit of each byte of `word` that equals `byte`; the lowest set bit is exact.
pub(crate) const fn places_of(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 255;
    let differences = word ^ (LOW * byte as u64);
    differences.wrapping_sub(LOW) & !differences & (LOW << 7)
}

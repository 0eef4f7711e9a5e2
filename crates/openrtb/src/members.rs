//! Members of JSON objects and elements of arrays as text, and strings with and without escapes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

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
    if plain_len(inside.as_bytes()) == inside.len() {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// `text` escaped for the inside of a JSON string (RFC 8259, section 7).
pub fn escaped(text: &str) -> Cow<'_, str> {
    let mut plain = plain_len(text.as_bytes());
    if plain == text.len() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(special) = rest.as_bytes().get(plain) {
        out.push_str(&rest[..plain]);
        match special {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => drop(write!(out, "\\u{control:04x}")),
        }
        rest = &rest[plain + 1..];
        plain = plain_len(rest.as_bytes());
    }
    out.push_str(rest);
    Cow::Owned(out)
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

/// Length of `text` before the first byte that no JSON string contains as it is: a quote, a
/// backslash or a control character.
#[inline]
pub(crate) fn plain_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let special = places_of(word, b'"') | places_of(word, b'\\') | controls_of(word);
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    text[at..].iter().position(is_special).map_or(text.len(), |step| at + step)
}

/// Sets the high bit of each byte of `word` below 0x20; the lowest set bit is exact.
const fn controls_of(word: u64) -> u64 {
    const LOW: u64 = u64::MAX / 255;
    word.wrapping_sub(LOW * 0x20) & !word & (LOW << 7)
}

/// Sets the high bit of each byte of `word` that equals `byte`; the lowest set bit is exact.
pub(crate) const fn places_of(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 255;
    let differences = word ^ (LOW * byte as u64);
    differences.wrapping_sub(LOW) & !differences & (LOW << 7)
}

//! What a request says of the place and its reader beyond the standard's own fields: keywords, and
//! the first-party data that Prebid sends under `ext.data`. Which of it matters is the caller's to
//! know.
//!
//! Nothing here makes a request invalid: what has another shape says nothing.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::members::string;
use crate::{BidRequest, Imp};

/// The key that keywords stand under.
const KEYWORDS: &str = "keywords";

/// Takes a key and one of its values.
type Each<'e> = dyn FnMut(&str, &str) + 'e;

impl BidRequest<'_> {
    /// What the request says of the property and the user, whatever the impression: each key with
    /// each of its values, in the order of the request.
    ///
    /// `site`, `app` or `dooh` with its `keywords` and `kwarray`, each a value of the key
    /// `keywords`; its `ext.data`; `user.ext.data`, unless the request is subject to COPPA. Of `ext.data` (Prebid's first-party data) each
    /// member is a key, its value a text, a number or a boolean, as it is written, or several of
    /// these in an array.
    pub fn key_values(&self, each: &mut Each<'_>) {
        if let Some(media) = self.media() {
            if let Some(text) = media.keywords.and_then(|raw| string(raw.get())) {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.for_each(|word| each(KEYWORDS, word));
            }
            let words = media.kwarray.map(RawValue::get);
            scalars(words, &mut |word| each(KEYWORDS, word));
            first_party_data(media.ext, each);
        }
        // Under COPPA, user data is not targeted.
        let user = self.user.as_ref().filter(|_| !self.is_coppa());
        let user = user.and_then(|user| user.ext.as_ref());
        members_of(user.and_then(|ext| ext.data).map(RawValue::get), each);
    }

    /// The property's domain, or where it has none, that of the page.
    pub fn domain(&self) -> Option<Cow<'_, str>> {
        let media = self.media()?;
        let own = media.domain.as_deref().filter(|domain| !domain.is_empty());
        own.map(Cow::Borrowed).or_else(|| match self.page()? {
            Cow::Borrowed(page) => host_of(page).map(Cow::Borrowed),
            Cow::Owned(page) => host_of(&page).map(|host| Cow::Owned(host.to_owned())),
        })
    }

    /// The application's store id.
    pub fn bundle(&self) -> Option<&str> {
        self.media()?.bundle.as_deref().filter(|bundle| !bundle.is_empty())
    }

    /// The URL of the page on which the ad is shown.
    pub fn page(&self) -> Option<Cow<'_, str>> {
        string(self.media()?.page?.get()).filter(|page| !page.is_empty())
    }
}

impl Imp<'_> {
    /// What the request says of this impression alone (`imp.ext.data`), as
    /// [`BidRequest::key_values`].
    pub fn key_values(&self, each: &mut Each<'_>) {
        first_party_data(self.ext, each);
    }
}

/// The host of an absolute URL, without its port.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split(':').next().unwrap_or_default();
    (!host.is_empty()).then_some(host)
}

/// The members of `data` in an `ext`.
fn first_party_data(ext: Option<&RawValue>, each: &mut Each<'_>) {
    named(ext.map(RawValue::get), "data").for_each(|data| members_of(Some(data), each));
}

fn members_of(data: Option<&str>, each: &mut Each<'_>) {
    for (key, value) in entries(data, b'{') {
        if let Some(key) = string(key) {
            scalars(Some(value), &mut |value| each(&key, value));
        }
    }
}

/// The members of the object `text` that have this key, as JSON text.
pub(crate) fn named<'t>(text: Option<&'t str>, key: &str) -> impl Iterator<Item = &'t str> {
    entries(text, b'{').filter(move |(name, _)| is(name, key)).map(|(_, value)| value)
}

/// Whether the JSON string `raw` says `text`.
fn is(raw: &str, text: &str) -> bool {
    string(raw).is_some_and(|said| said == text)
}

/// A text, a number or a boolean, or each of them in an array.
fn scalars(value: Option<&str>, each: &mut dyn FnMut(&str)) {
    let Some(text) = value else { return };
    if text.starts_with('[') {
        entries(value, b'[').for_each(|(_, value)| scalar(value, each));
    } else {
        scalar(text, each);
    }
}

fn scalar(text: &str, each: &mut dyn FnMut(&str)) {
    match text.bytes().next() {
        Some(b'"') => {
            if let Some(text) = string(text) {
                each(&text);
            }
        }
        Some(b'[' | b'{' | b'n') | None => (),
        Some(_) => each(text),
    }
}

/// The members of an object (`open` is a brace), each with its key, or the elements of an array
/// (`open` is a bracket), each with an empty one; all as JSON text. Of anything else none.
///
/// A parser of its own, for text that a parser has found to be JSON: that one would set memory aside
/// for what it skips.
pub(crate) fn entries(text: Option<&str>, open: u8) -> Entries<'_> {
    let text = text.filter(|text| text.as_bytes().first() == Some(&open)).unwrap_or_default();
    Entries { rest: text.get(1..).unwrap_or_default(), has_keys: open == b'{' }
}

pub(crate) struct Entries<'t> {
    rest: &'t str,
    has_keys: bool,
}

impl<'t> Iterator for Entries<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut key = "";
        if self.has_keys {
            key = self.take_value().filter(|key| key.starts_with('"'))?;
        }
        Some((key, self.take_value()?))
    }
}

impl<'t> Entries<'t> {
    /// The next value, without what stands before it; `None` at the end.
    fn take_value(&mut self) -> Option<&'t str> {
        let is_between = |byte: char| byte.is_ascii_whitespace() || byte == ',' || byte == ':';
        let text = self.rest.trim_start_matches(is_between);
        let (value, rest) = text.split_at_checked(value_len(text.as_bytes()))?;
        self.rest = rest;
        (!value.is_empty()).then_some(value)
    }
}

/// How long the value is that `text` begins with; 0 when it begins with none.
#[inline]
pub(crate) fn value_len(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_len(text),
        Some(b'{' | b'[') => nested_len(text).0,
        _ => text.iter().position(|byte| is_behind_scalar(*byte)).unwrap_or(text.len()),
    }
}

/// Whether a number, a boolean or a null ends before this byte.
#[inline]
pub(crate) const fn is_behind_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r')
}

/// The same, of an object or an array, and how many of them nest in it, itself included.
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

/// How long the JSON string is that `text` begins with, quotes included.
#[inline]
pub(crate) fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    // Most strings are short: a few words are looked at before a search is worth its start.
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

/// The same, of one that is long or has escapes.
fn escaped_string_len(text: &[u8]) -> usize {
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

/// The high bit of each byte of `word` that is `byte`, the lowest of them exact.
const fn places_of(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 255;
    let differences = word ^ (LOW * byte as u64);
    differences.wrapping_sub(LOW) & !differences & (LOW << 7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{entries, value_len};
    use crate::parse_request;

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            "[a\\[\\]{},:\"\\\\ \n\u{e9}]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let members = prop::collection::btree_map("[a-c\"\\\\]{0,3}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Into::into),
                members.prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        /// As a real parser does, however the text is laid out.
        #[test]
        fn entries_are_those_of_the_parser(value in json(), is_pretty: bool) {
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let members: Vec<_> =
                entries(Some(&text), b'{').map(|(key, value)| (read(key), read(value))).collect();
            let of = value.as_object().into_iter().flatten();
            let want: Vec<_> = of.map(|(key, value)| (key.as_str().into(), value.clone())).collect();
            prop_assert_eq!(members, want);
            let elements: Vec<_> = entries(Some(&text), b'[').map(|(_, value)| read(value)).collect();
            prop_assert_eq!(elements, value.as_array().cloned().unwrap_or_default());
        }

        /// What is no JSON comes to an end.
        #[test]
        fn no_text_is_too_odd(text in "[a{}\\[\\],:\"\\\\ \u{e9}]{0,40}") {
            for open in [b'{', b'['] {
                let longest = text.len() + 1;
                prop_assert!(entries(Some(&text), open).take(longest + 1).count() <= longest);
            }
            prop_assert!(value_len(text.as_bytes()) <= text.len());
        }
    }

    #[track_caller]
    fn check(more: &str, of_imp: &str, want: &[&str]) {
        let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}{of_imp}}}]{more}}}"#);
        let request = parse_request(&body).unwrap_or_else(|invalid| panic!("{body}: {invalid}"));
        let mut got = Vec::new();
        let mut each = |key: &str, value: &str| got.push(format!("{key}={value}"));
        request.key_values(&mut each);
        request.imps()[0].key_values(&mut each);
        assert_eq!(got, want, "{body}");
    }

    #[test]
    fn key_values_come_from_first_party_data_and_keywords() {
        check("", "", &[]);
        check(
            r#","site":{"keywords":"a, b c,,d","kwarray":["e","f\u0067"]}"#,
            "",
            &["keywords=a", "keywords=b c", "keywords=d", "keywords=e", "keywords=fg"],
        );
        check(
            r#","app":{"ext":{"x":1,"data":{"k":"v","n":7,"b":true,"l":["x",2,null,["y"],{"z":1}],"o":{"p":1}}}}"#,
            "",
            &["k=v", "n=7", "b=true", "l=x", "l=2"],
        );
        check(
            r#","user":{"ext":{"data":{"s":["1"]}}}"#,
            r#","ext":{"data":{"pbadslot":"/1/home","\u006b":"v"},"gpid":"x"}"#,
            &["s=1", "pbadslot=/1/home", "k=v"],
        );
        // A child's data is nobody's target.
        check(
            r#","site":{"keywords":"a"},"user":{"ext":{"data":{"s":["1"]}}},"regs":{"coppa":1}"#,
            "",
            &["keywords=a"],
        );
    }

    /// What passed before passes.
    #[test]
    fn no_shape_makes_a_request_invalid() {
        for odd in ["7", "null", "\"x\"", "[]", "[[1]]", "{}", "{\"data\":7}", "{\"data\":[1]}"] {
            let site = format!(r#","site":{{"page":{odd},"ext":{odd}}}"#);
            check(&site, &format!(r#","ext":{odd}"#), &[]);
        }
        check(r#","site":{"keywords":7,"kwarray":{"a":1}}"#, "", &[]);
        check(r#","site":{"keywords":["a"],"kwarray":"a"}"#, "", &["keywords=a"]);
    }

    #[test]
    fn a_place_has_a_domain_a_page_and_a_bundle() {
        let page = |page: &str| format!(r#","site":{{"page":"{page}"}}"#);
        for (more, domain, bundle, page) in [
            (String::new(), None, None, None),
            (r#","site":{"domain":"","bundle":""}"#.to_owned(), None, None, None),
            (
                r#","app":{"domain":"a.example","bundle":"b"}"#.to_owned(),
                Some("a.example"),
                Some("b"),
                None,
            ),
            (page("https://b.example/x?y"), Some("b.example"), None, Some("https://b.example/x?y")),
            (
                page(r"https:\/\/b.example:8\/x"),
                Some("b.example"),
                None,
                Some("https://b.example:8/x"),
            ),
            (page("https://u@b.example?y"), Some("b.example"), None, Some("https://u@b.example?y")),
            (page("about:blank"), None, None, Some("about:blank")),
            (page("https:///x"), None, None, Some("https:///x")),
        ] {
            let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}]{more}}}"#);
            let request =
                parse_request(&body).unwrap_or_else(|invalid| panic!("{body}: {invalid}"));
            let got = (request.domain(), request.bundle(), request.page());
            assert_eq!(
                (got.0.as_deref(), got.1, got.2.as_deref()),
                (domain, bundle, page),
                "{body}"
            );
        }
    }
}

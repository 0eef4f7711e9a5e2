//! The list of directives in `Cache-Control` (RFC 9111, section 5.2), read tolerantly: a malformed
//! element does not hide the others.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::AsHeaderName;

use crate::fields::dates::Seconds;
use crate::fields::lists::{Quoting, elements};

/// The largest delta-seconds; larger ones count as this (RFC 9111, section 1.2.2).
pub(super) const DELTA_MAX: u64 = 1 << 31;

/// A directive as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive<'v> {
    /// Compared without regard to case.
    pub(super) name: &'v str,
    pub(super) argument: Argument<'v>,
}

/// What follows a directive's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument<'v> {
    Absent,
    /// Of a token, or of a quoted string without its quotes and escapes.
    Value(Cow<'v, str>),
    /// Anything else up to the next comma.
    Malformed,
}

impl Directive<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Calls `visit` with each directive of all lines of a field.
pub(super) fn each_of(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    mut visit: impl FnMut(Directive<'_>),
) {
    for line in headers.get_all(name) {
        match line.to_str() {
            Ok(text) => each(text, &mut visit),
            // The directives of a line that is not ASCII are read as far as they are.
            Err(_) => each(&String::from_utf8_lossy(line.as_bytes()), &mut visit),
        }
    }
}

/// Reads delta-seconds, as a token or a quoted string. None if the text is not a number.
pub(super) fn delta(argument: &Argument<'_>) -> Option<Seconds> {
    let Argument::Value(text) = argument else { return None };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Seconds(text.parse::<u64>().unwrap_or(DELTA_MAX).min(DELTA_MAX)))
}

/// Sets what the first occurrence of a directive says (RFC 9111, section 4.2.1).
pub(super) fn set_first(place: &mut Option<Seconds>, value: Seconds) {
    place.get_or_insert(value);
}

/// Calls `visit` with each directive of a field's value.
fn each<'v>(value: &'v str, visit: impl FnMut(Directive<'v>)) {
    let elements = elements(value.as_bytes(), Quoting::Escapes).map(str::from_utf8);
    // Elements begin and end at ASCII bytes.
    elements.flatten().filter_map(directive).for_each(visit);
}

/// None if the element has no name.
fn directive(element: &str) -> Option<Directive<'_>> {
    let end = element.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(element.len());
    let (name, rest) = element.split_at(end);
    if name.is_empty() {
        return None;
    }
    let argument = match rest.strip_prefix('=') {
        None if rest.is_empty() => Argument::Absent,
        None => Argument::Malformed,
        Some(value) => argument(value),
    };
    Some(Directive { name, argument })
}

fn argument(value: &str) -> Argument<'_> {
    if let Some(quoted) = value.strip_prefix('"') {
        return unquoted(quoted).map_or(Argument::Malformed, Argument::Value);
    }
    match !value.is_empty() && value.bytes().all(is_token_byte) {
        true => Argument::Value(value.into()),
        false => Argument::Malformed,
    }
}

/// The content of a quoted string, of which the text begins behind the first quote. None unless it
/// ends with its text.
fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let mut content = Cow::Borrowed("");
    let mut chars = text.char_indices();
    let mut begin = 0;
    while let Some((at, char)) = chars.next() {
        match char {
            '"' if chars.as_str().is_empty() => {
                content += &text[begin..at];
                return Some(content);
            }
            '"' => return None,
            '\\' => {
                content += &text[begin..at];
                (begin, _) = chars.next()?;
            }
            _ => (),
        }
    }
    None
}

/// RFC 9110, section 5.6.2.
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(value: &str, want: &[(&str, Argument<'_>)]) {
        let mut found = Vec::new();
        each(value, |directive| found.push((directive.name, directive.argument)));
        assert_eq!(found, want, "{value}");
    }

    #[test]
    fn lists_are_read_around_what_is_malformed() {
        use Argument::{Absent, Malformed};
        let value = |text: &'static str| Argument::Value(text.into());
        check("", &[]);
        check(" , ,\t", &[]);
        check("no-store", &[("no-store", Absent)]);
        check("Max-Age=60 ,public", &[("Max-Age", value("60")), ("public", Absent)]);
        check(r#"max-age="60""#, &[("max-age", value("60"))]);
        check(r#"no-cache="a, b\"c", x"#, &[("no-cache", value("a, b\"c")), ("x", Absent)]);
        check(r#"private="", y"#, &[("private", value("")), ("y", Absent)]);
        check("max-age =60", &[("max-age", Malformed)]);
        check("max-age= 60", &[("max-age", Malformed)]);
        check("max-age=, public", &[("max-age", Malformed), ("public", Absent)]);
        check("max-age=6 0", &[("max-age", Malformed)]);
        check("=60, public", &[("public", Absent)]);
        check(r#"a="b"c, d"#, &[("a", Malformed), ("d", Absent)]);
        // An open quote hides the rest.
        check(r#"a="b, no-store"#, &[("a", Malformed)]);
        check(r#"a="b\"#, &[("a", Malformed)]);
        check("max-age=6é, b", &[("max-age", Malformed), ("b", Absent)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(value in r#"[a-z="\\, é]{0,30}"#) {
            each(&value, |_| ());
        }

        #[test]
        fn what_is_quoted_is_read(content in "[ -~]{0,20}") {
            let quoted = content.replace('\\', r"\\").replace('"', "\\\"");
            check(&format!("a=\"{quoted}\", b"), &[
                ("a", Argument::Value(content.into())),
                ("b", Argument::Absent),
            ]);
        }
    }
}

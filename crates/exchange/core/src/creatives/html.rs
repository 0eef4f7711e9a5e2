//! The tokens of HTML, as far as tags and attributes depend on them.

use memchr::memmem;

pub(crate) const TEXT_ELEMENTS: [&str; 10] = [
    "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript",
    "template",
];

pub(crate) fn comment_len(comment: &[u8]) -> Option<usize> {
    for (start, length) in [(&b">"[..], 1), (b"->", 2)] {
        if comment.starts_with(start) {
            return Some(length);
        }
    }
    let ends = memmem::find_iter(comment, b"--");
    ends.into_iter().find_map(|at| match &comment[at + 2..] {
        [b'>', ..] => Some(at + 3),
        [b'!', b'>', ..] => Some(at + 4),
        // Of three dashes the last two may be the end.
        [b'-', b'>', ..] => Some(at + 4),
        _ => None,
    })
}

pub(crate) fn is_named(rest: &[u8], name: &str) -> bool {
    tag_name(rest).eq_ignore_ascii_case(name.as_bytes())
}

pub(crate) fn tag_name(rest: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"/>".contains(byte);
    &rest[..rest.iter().position(is_end).unwrap_or(rest.len())]
}

/// End of the tag whose name starts at `at`, after its `>`. Only quoted attribute values may
/// contain a `>`. Calls `each` with each attribute's name and value.
pub(crate) fn tag_end(
    html: &[u8],
    mut at: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Option<usize> {
    let is_in = |at: usize, set: &[u8]| html.get(at).is_some_and(|byte| set.contains(byte));
    let is_space = |at: usize| html.get(at).is_some_and(u8::is_ascii_whitespace);
    at += tag_name(&html[at..]).len();
    loop {
        while is_space(at) || is_in(at, b"/") {
            at += 1;
        }
        if is_in(at, b">") {
            return Some(at + 1);
        }
        html.get(at)?;
        let start = at;
        at += 1; // Any character starts a name, even an equals sign.
        while html.get(at).is_some() && !is_space(at) && !is_in(at, b"/>=") {
            at += 1;
        }
        let name = &html[start..at];
        while is_space(at) {
            at += 1;
        }
        if !is_in(at, b"=") {
            continue;
        }
        at += 1;
        while is_space(at) {
            at += 1;
        }
        let start = at;
        match html.get(at)? {
            quote @ (b'"' | b'\'') => {
                at += 1 + memchr::memchr(*quote, &html[at + 1..])? + 1;
                each(name, &html[start + 1..at - 1]);
            }
            _ => {
                while html.get(at).is_some() && !is_space(at) && !is_in(at, b">") {
                    at += 1;
                }
                each(name, &html[start..at]);
            }
        }
    }
}

pub(crate) fn text_end(html: &[u8], start: usize, name: &str) -> Option<usize> {
    let ends = memmem::find_iter(&html[start..], b"</");
    let is_end = |at: &usize| is_named(&html[start + at + 2..], name);
    ends.into_iter().find(is_end).map(|at| start + at)
}

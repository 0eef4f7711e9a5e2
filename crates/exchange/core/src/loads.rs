//! Whether markup loads anything over plain HTTP: HTML, VAST and native markup, each by what it says
//! of a URL. What a user follows, names of XML namespaces and mere text load nothing, and a URL is
//! what its own scheme says, whatever stands in its query.

use std::borrow::Cow;

use crate::format::Syntax;
use crate::html::{comment_len, is_named, tag_end, tag_name, text_end};

/// Attributes whose value is a URL that is loaded; `href` is too, unless a user follows it.
const LOADED: [&[u8]; 12] = [
    b"src",
    b"data",
    b"poster",
    b"background",
    b"code",
    b"codebase",
    b"archive",
    b"lowsrc",
    b"dynsrc",
    b"manifest",
    b"ping",
    b"data-src",
];

/// Elements of HTML whose content is neither markup nor code.
const MERE_TEXT: [&str; 6] = ["textarea", "title", "xmp", "iframe", "noembed", "noframes"];

/// Elements whose content is code; `AdParameters` is that of a player's script.
const CODE: [&str; 3] = ["script", "style", "AdParameters"];

/// Elements of VAST whose content is text for people.
const VAST_TEXT: [&[u8]; 5] =
    [b"AdTitle", b"Description", b"Advertiser", b"AdSystem", b"UniversalAdId"];

/// How far back code is looked at for the tag that a link stands in.
const LINK_BYTES_MAX: usize = 1024;

/// Whether `markup`, as it is or as JSON text, loads anything over plain HTTP.
pub(crate) fn is_insecure(markup: &str) -> bool {
    if !urls(markup.as_bytes()).any(|_| true) {
        return false; // As nearly all markup.
    }
    let is_json = markup.starts_with('"');
    let text = if is_json { openrtb::string(markup) } else { None };
    let text = text.unwrap_or(Cow::Borrowed(markup));
    match Syntax::of(&text) {
        Syntax::Json => native_loads(&text),
        syntax => tags_load(text.as_bytes(), matches!(syntax, Syntax::Vast | Syntax::Daast)),
    }
}

/// Where `http:` and two slashes stand.
fn urls(text: &[u8]) -> impl Iterator<Item = usize> {
    let colons = memchr::memchr_iter(b':', text);
    colons.filter_map(|colon| colon.checked_sub(4)).filter(|start| is_url(&text[*start..]))
}

fn is_url(text: &[u8]) -> bool {
    let after = text.split_first_chunk().filter(|(scheme, _)| {
        let scheme: &[u8; 5] = scheme;
        scheme.eq_ignore_ascii_case(b"http:")
    });
    after.and_then(|(_, rest)| after_slash(rest)).and_then(after_slash).is_some()
}

/// What follows a slash, which JSON may escape, and JSON within JSON twice.
fn after_slash(text: &[u8]) -> Option<&[u8]> {
    let escapes = text.iter().take_while(|byte| **byte == b'\\').count();
    text[escapes..].strip_prefix(b"/")
}

/// Whether `value` is a URL of plain HTTP, and not the name of a namespace.
fn is_insecure_url(value: &[u8]) -> bool {
    let start = value.iter().position(|byte| *byte > b' ' && !b"\\\"'".contains(byte));
    let url = start.map_or(&[][..], |start| &value[start..]);
    is_url(url) && !is_namespace(url)
}

fn is_namespace(url: &[u8]) -> bool {
    url.starts_with(b"http://www.w3.org/")
}

/// Whether any tag, its content where that is code, or in VAST the URL that is its content, loads
/// something.
fn tags_load(markup: &[u8], is_vast: bool) -> bool {
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'<', &markup[at..]) {
        let open = at + offset;
        at = match &markup[open + 1..] {
            [b'!', b'-', b'-', comment @ ..] => match comment_len(comment) {
                Some(length) => open + 4 + length,
                None => return false,
            },
            [byte, ..] if byte.is_ascii_alphabetic() => {
                match element_end(markup, open + 1, is_vast) {
                    Some(end) => end,
                    None => return true,
                }
            }
            _ => open + 1,
        };
    }
    false
}

/// Where to go on after the tag whose name starts at `at`. `None` if it loads something.
fn element_end(markup: &[u8], at: usize, is_vast: bool) -> Option<usize> {
    let rest = &markup[at..];
    let element = tag_name(rest);
    let (mut loads, mut is_data) = (false, false);
    let end = tag_end(markup, at, |name, value| {
        loads |= attribute_loads(element, name, value);
        let is_type = name.eq_ignore_ascii_case(b"type");
        is_data |= is_type && memchr::memmem::find(value, b"json").is_some();
    });
    let Some(end) = end else { return Some(markup.len()) }; // What is never closed is no tag.
    if loads || (is_vast && content_loads(element, &markup[end..])) {
        return None;
    }
    if let Some(name) = CODE.into_iter().find(|name| is_named(rest, name)) {
        let close = text_end(markup, end, name).unwrap_or(markup.len());
        let loads = !is_data && code_loads(&markup[end..close]);
        return (!loads).then_some(close);
    }
    match MERE_TEXT.into_iter().find(|name| !is_vast && is_named(rest, name)) {
        Some(name) => Some(text_end(markup, end, name).unwrap_or(markup.len())),
        None => Some(end),
    }
}

fn attribute_loads(element: &[u8], name: &[u8], value: &[u8]) -> bool {
    let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
    let of = |own: &[u8]| element.eq_ignore_ascii_case(own);
    if is(b"href") || is(b"xlink:href") {
        return !of(b"a") && !of(b"area") && is_insecure_url(value);
    }
    if is(b"srcset") || is(b"imagesrcset") || is(b"data-srcset") {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
        return value.split(is_end).any(is_insecure_url);
    }
    if is(b"style") || name.get(..2).is_some_and(|on| on.eq_ignore_ascii_case(b"on")) {
        return code_loads(value);
    }
    if is(b"srcdoc") {
        return urls(value).any(|_| true); // With its quotes escaped in many ways.
    }
    if is(b"content") && of(b"meta") {
        let is_target = |at: usize| value[..at].trim_ascii_end().ends_with(b"=");
        return urls(value).any(is_target); // A refresh.
    }
    LOADED.into_iter().any(is) && is_insecure_url(value)
}

/// Whether the content of an element of VAST is a URL that a player loads.
fn content_loads(element: &[u8], content: &[u8]) -> bool {
    let local = element.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    let content = content.trim_ascii_start();
    let content = content.strip_prefix(b"<![CDATA[").unwrap_or(content);
    let is_loaded = !local.ends_with(b"ClickThrough") && !VAST_TEXT.contains(&local);
    is_loaded && is_insecure_url(content)
}

/// Whether code names a URL of plain HTTP where a string, a `url(…)` or an attribute begins.
fn code_loads(code: &[u8]) -> bool {
    urls(code).any(|at| {
        let before = code[..at].trim_ascii_end();
        let is_start = match before {
            [before @ .., b'"' | b'\'' | b'`'] => !is_link(before),
            [before @ .., b'('] => ends_with(before, b"url"),
            [before @ .., b'='] => ends_with(before, b" src"),
            _ => false,
        };
        is_start && !is_namespace(&code[at..])
    })
}

/// Whether `before`, in code, ends with the attribute of a link that a user follows.
fn is_link(before: &[u8]) -> bool {
    let before = &before[before.len().saturating_sub(LINK_BYTES_MAX)..];
    let end = before.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1);
    let before = &before[..end];
    let tag = memchr::memrchr(b'<', before).map(|open| tag_name(&before[open + 1..]));
    ends_with(before, b"href=") && tag.is_some_and(|tag| tag.eq_ignore_ascii_case(b"a"))
}

fn ends_with(text: &[u8], end: &[u8]) -> bool {
    let start = text.len().checked_sub(end.len());
    start.is_some_and(|start| text[start..].eq_ignore_ascii_case(end))
}

/// Whether a string of native markup is a URL that is loaded, or markup that loads something.
fn native_loads(markup: &str) -> bool {
    let mut loads = false;
    let is_json = openrtb::native_strings(markup, &mut |parent, key, value| {
        let is_followed = match key {
            "url" | "fallback" => parent == "link",
            "text" | "value" | "privacy" => true,
            _ => false,
        };
        if value.starts_with('<') {
            loads |= tags_load(value.as_bytes(), Syntax::of(value) == Syntax::Vast);
        } else if !is_followed {
            loads |= is_insecure_url(value.as_bytes());
        }
    });
    // Text in braces, or JSON that nobody can read.
    if is_json { loads } else { tags_load(markup.as_bytes(), false) }
}

#[cfg(test)]
mod tests;

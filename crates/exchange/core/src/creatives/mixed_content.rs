//! Detects markup (HTML, VAST, native) that loads anything over plain HTTP. Links, namespace names
//! and plain text load nothing. A URL's scheme counts, not its query.

use std::borrow::Cow;

use memchr::memmem;

use super::format::Syntax;
use super::html::{comment_len, is_named, tag_end, tag_name, text_end};

/// Attributes whose URL is loaded; so is `href`, unless a user follows it.
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

/// HTML elements with content that is neither markup nor code.
const MERE_TEXT: [&str; 6] = ["textarea", "title", "xmp", "iframe", "noembed", "noframes"];

const CODE: [&str; 2] = ["script", "style"];

/// VAST elements that contain text for people.
const VAST_TEXT: [&[u8]; 5] =
    [b"AdTitle", b"Description", b"Advertiser", b"AdSystem", b"UniversalAdId"];

/// How far back to read code to tell whether a URL is a link.
const LINK_BYTES_MAX: usize = 1024;

const NAMESPACE: &[u8] = b"http://www.w3.org/";

pub(crate) fn is_insecure(markup: &str) -> bool {
    let bytes = markup.as_bytes();
    if urls(bytes).next().is_none() && memmem::find(bytes, b"&#").is_none() {
        return false; // Nearly all markup.
    }
    let is_json = markup.starts_with('"');
    let text = if is_json { openrtb::string(markup) } else { None };
    let text = text.unwrap_or(Cow::Borrowed(markup));
    if Syntax::of(&text) == Syntax::Json { native_loads(&text) } else { markup_loads(&text) }
}

fn markup_loads(markup: &str) -> bool {
    match Syntax::of(markup) {
        Syntax::Vast | Syntax::Daast => vast_loads(markup.as_bytes()),
        _ => html_loads(markup.as_bytes()),
    }
}

/// Positions of plain-HTTP URLs. As in browsers, tabs and line ends within the scheme are ignored,
/// and any slash or backslash may follow it. JSON may escape all of these.
fn urls(text: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b':', text).filter_map(|colon| {
        let is_break = |byte: &&u8| is_break(**byte);
        let next = text[colon + 1..].iter().find(|byte| !is_break(byte));
        if next.is_some_and(is_slash) { scheme_start(&text[..colon]) } else { None }
    })
}

fn scheme_start(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    for letter in b"ptth" {
        while let [before @ .., b'\t' | b'\n' | b'\r'] | [before @ .., b'\\', b't' | b'n' | b'r'] =
            rest
        {
            rest = before;
        }
        let (last, before) = rest.split_last()?;
        if !last.eq_ignore_ascii_case(letter) {
            return None;
        }
        rest = before;
    }
    Some(rest.len())
}

const fn is_break(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r')
}

const fn is_slash(byte: &u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// Whether `value`, unescaped, is a plain-HTTP URL and not a namespace name.
fn is_insecure_url(value: &[u8]) -> bool {
    let is_before = |byte: &u8| *byte <= b' ' || b"\\\"'".contains(byte);
    let bytes = UnescapedText(value).skip_while(is_before).filter(|byte| !is_break(*byte));
    let mut head = [0; NAMESPACE.len()];
    head.iter_mut().zip(bytes).for_each(|(own, byte)| *own = byte);
    head[..5].eq_ignore_ascii_case(b"http:") && is_slash(&head[5]) && !is_namespace(&head)
}

fn is_namespace(url: &[u8]) -> bool {
    url.starts_with(NAMESPACE)
}

/// Text with numeric and XML's five character references resolved; non-ASCII becomes `?`.
struct UnescapedText<'t>(&'t [u8]);

impl Iterator for UnescapedText<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        let reference = if *first == b'&' { reference(rest) } else { None };
        let (byte, rest) = reference.unwrap_or((*first, rest));
        self.0 = rest;
        Some(byte)
    }
}

fn reference(text: &[u8]) -> Option<(u8, &[u8])> {
    const NAMED: [(&[u8], u8); 5] =
        [(b"amp;", b'&'), (b"lt;", b'<'), (b"gt;", b'>'), (b"quot;", b'"'), (b"apos;", b'\'')];
    let named = NAMED.iter().find_map(|(name, byte)| Some((*byte, text.strip_prefix(*name)?)));
    if named.is_some() {
        return named;
    }
    let number = text.strip_prefix(b"#")?;
    let (radix, digits) = match number {
        [b'x' | b'X', digits @ ..] => (16, digits),
        digits => (10, digits),
    };
    let length = digits.iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
    let (digits, rest) = digits.split_at_checked(length).filter(|_| length > 0)?;
    let code =
        std::str::from_utf8(digits).ok().and_then(|text| u8::from_str_radix(text, radix).ok());
    Some((code.filter(u8::is_ascii).unwrap_or(b'?'), rest.strip_prefix(b";").unwrap_or(rest)))
}

fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memchr(b'&', text) {
        Some(_) => Cow::Owned(UnescapedText(text).collect()),
        None => Cow::Borrowed(text),
    }
}

fn html_loads(html: &[u8]) -> bool {
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'<', &html[at..]) {
        let open = at + offset;
        at = match &html[open + 1..] {
            [b'!', b'-', b'-', comment @ ..] => match comment_len(comment) {
                Some(length) => open + 4 + length,
                None => return false,
            },
            [byte, ..] if byte.is_ascii_alphabetic() => match element_end(html, open + 1) {
                Some(end) => end,
                None => return true,
            },
            _ => open + 1,
        };
    }
    false
}

fn element_end(html: &[u8], at: usize) -> Option<usize> {
    let rest = &html[at..];
    let element = tag_name(rest);
    let (mut loads, mut is_data) = (false, false);
    let end = tag_end(html, at, |name, value| {
        loads |= attribute_loads(element, name, value);
        let is_type = name.eq_ignore_ascii_case(b"type");
        is_data |= is_type && memmem::find(value, b"json").is_some();
    });
    let Some(end) = end else { return Some(html.len()) }; // An unclosed tag ends the text.
    if loads {
        return None;
    }
    let is_code = CODE.into_iter().any(|name| is_named(rest, name));
    match CODE.into_iter().chain(MERE_TEXT).find(|name| is_named(rest, name)) {
        Some(name) => {
            let close = text_end(html, end, name).unwrap_or(html.len());
            let loads = is_code && !is_data && code_loads(&html[end..close]);
            (!loads).then_some(close)
        }
        None => Some(end),
    }
}

fn vast_loads(vast: &[u8]) -> bool {
    const CDATA: &[u8] = b"![CDATA[";
    let mut at = 0;
    // The element whose content comes next. Empty if it has ended.
    let mut element = &b""[..];
    loop {
        let open = memchr::memchr(b'<', &vast[at..]).map_or(vast.len(), |offset| at + offset);
        if !element.is_empty() && content_loads(element, &unescaped(&vast[at..open])) {
            return true;
        }
        let Some(rest) = vast.get(open + 1..) else { return false };
        at = match rest {
            [b'!', b'-', b'-', comment @ ..] => match comment_len(comment) {
                Some(length) => open + 4 + length,
                None => return false,
            },
            [b'/', ..] => {
                element = b"";
                open + 1
            }
            [byte, ..] if byte.is_ascii_alphabetic() => {
                let name = tag_name(rest);
                let mut loads = false;
                let end = tag_end(vast, open + 1, |attribute, value| {
                    loads |= attribute_loads(name, attribute, value);
                });
                let Some(end) = end else { return false }; // An unclosed tag loads nothing.
                if loads {
                    return true;
                }
                element = if vast[..end].ends_with(b"/>") { b"" } else { name };
                end
            }
            _ => match rest.strip_prefix(CDATA) {
                Some(text) => {
                    let length = memmem::find(text, b"]]>").unwrap_or(text.len());
                    if content_loads(element, &text[..length]) {
                        return true;
                    }
                    open + 1 + CDATA.len() + length
                }
                None => open + 1,
            },
        };
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
        return unescaped(value).split(is_end).any(is_insecure_url);
    }
    if is(b"style") || name.get(..2).is_some_and(|on| on.eq_ignore_ascii_case(b"on")) {
        return code_loads(&unescaped(value));
    }
    if is(b"srcdoc") {
        // Quotes may be escaped in many ways, so any plain-HTTP URL counts.
        return urls(&unescaped(value)).next().is_some();
    }
    if is(b"content") && of(b"meta") {
        let value = unescaped(value);
        let is_target = |at: usize| value[..at].trim_ascii_end().ends_with(b"=");
        return urls(&value).any(is_target); // `<meta http-equiv="refresh">`
    }
    LOADED.into_iter().any(is) && is_insecure_url(value)
}

/// Whether a player loads the content of a VAST element: a URL, HTML, code, or script parameters.
fn content_loads(element: &[u8], content: &[u8]) -> bool {
    if element.is_empty() || !is_loaded(element) {
        return false;
    }
    let loads = match local_name(element) {
        b"AdParameters" => parameters_load,
        local if CODE.into_iter().any(|name| is_named(local, name)) => code_loads,
        _ => html_loads,
    };
    is_insecure_url(content) || loads(content)
}

fn is_loaded(element: &[u8]) -> bool {
    let local = local_name(element);
    !local.ends_with(b"ClickThrough") && !VAST_TEXT.contains(&local)
}

fn local_name(element: &[u8]) -> &[u8] {
    element.rsplit(|byte| *byte == b':').next().unwrap_or_default()
}

/// Whether parameters name a plain-HTTP URL: as code, as an element's content, or as a pair's
/// value.
fn parameters_load(text: &[u8]) -> bool {
    let mut elements = text.split(|byte| *byte == b'<');
    let mut words =
        text.split(|byte| byte.is_ascii_whitespace() || b"\"'`<>(){}[],;|".contains(byte));
    code_loads(text) || elements.any(element_loads) || words.any(pair_loads)
}

fn element_loads(element: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'>', element) else { return false };
    is_loaded(tag_name(element)) && is_insecure_url(&element[end + 1..])
}

/// Whether a value in `pairs` is a URL that is loaded. The pairs of a URL are its query.
fn pair_loads(pairs: &[u8]) -> bool {
    let first = pairs.iter().find(|byte| b":/=".contains(byte));
    first == Some(&b'=') && urls(pairs).any(|at| pairs[..at].ends_with(b"="))
}

/// Whether code has a plain-HTTP URL at the start of a string, a `url(…)` or an attribute.
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

/// Whether a string after `before`, in code, is a link: opened, or assigned to a click tag, the
/// location or an `a`.
fn is_link(before: &[u8]) -> bool {
    let before = &before[before.len().saturating_sub(LINK_BYTES_MAX)..];
    let end = before.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1);
    let Some((mark, before)) = before[..end].trim_ascii_end().split_last() else { return false };
    let mut names = path(before.trim_ascii_end()).rsplit(|byte| *byte == b'.');
    let name = names.next().unwrap_or_default();
    match mark {
        b'(' => name == b"open",
        b'=' if name.eq_ignore_ascii_case(b"href") => {
            let tag = memchr::memrchr(b'<', before).map(|open| tag_name(&before[open + 1..]));
            names.next() == Some(b"location")
                || tag.is_some_and(|tag| tag.eq_ignore_ascii_case(b"a"))
        }
        b'=' => name == b"location" || is_click_tag(name),
        _ => false,
    }
}

fn is_click_tag(name: &[u8]) -> bool {
    let last = name.iter().rposition(|byte| !byte.is_ascii_digit());
    last.is_some_and(|last| name[..=last].eq_ignore_ascii_case(b"clickTag"))
}

fn path(code: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
    let start = code.iter().rposition(|byte| !is_part(byte)).map_or(0, |last| last + 1);
    &code[start..]
}

fn ends_with(text: &[u8], end: &[u8]) -> bool {
    let start = text.len().checked_sub(end.len());
    start.is_some_and(|start| text[start..].eq_ignore_ascii_case(end))
}

/// Whether a string of native markup is a loaded URL, or markup that loads something.
fn native_loads(markup: &str) -> bool {
    let mut loads = false;
    let is_json = openrtb::native_strings(markup, &mut |parent, key, value| {
        let is_followed = match key {
            "url" | "fallback" => parent == "link",
            "text" | "value" | "privacy" => true,
            _ => false,
        };
        let value = value.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if value.starts_with('<') {
            loads |= markup_loads(value);
        } else if !is_followed {
            loads |= is_insecure_url(value.as_bytes());
        }
    });
    if is_json {
        return loads;
    }
    // Text in braces, or JSON that we cannot parse but others may.
    html_loads(markup.as_bytes()) || code_loads(markup.as_bytes())
}

#[cfg(test)]
mod tests;

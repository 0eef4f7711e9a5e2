//! Where a pixel goes in the HTML of a banner: the tokens of HTML as far as they decide what is a
//! tag and what only looks like one. Knows no element but those whose content is text.

use memchr::memmem;

/// Elements whose content is text up to their end tag, in which a tag is none.
const TEXT_ELEMENTS: [&str; 10] = [
    "script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript",
    "template",
];

/// `html` with an invisible image before the last `</body>`, else at its end; before what is never
/// closed, for after it nothing is a tag any more.
pub(super) fn add_pixel(html: &str, url: &str) -> String {
    let place = place(html.as_bytes());
    // Closed as XHTML wants it. An image that is not displayed would be loaded late, or never.
    let pixel = format!(
        "<img src=\"{url}\" width=\"1\" height=\"1\" alt=\"\" \
         style=\"position:absolute;border:0;opacity:0;pointer-events:none\"/>"
    );
    [&html[..place], &pixel, &html[place..]].concat()
}

fn place(html: &[u8]) -> usize {
    let mut body_end = None;
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'<', &html[at..]) {
        let open = at + offset;
        let Some(end) = token_end(html, open) else { return body_end.unwrap_or(open) };
        if html[open + 1..].first() == Some(&b'/') && is_named(&html[open + 2..], "body") {
            body_end = Some(open);
        }
        at = end;
    }
    body_end.unwrap_or(html.len())
}

/// Where what starts with the `<` at `open` ends, an element of text with its content; `None` when
/// it does not end.
fn token_end(html: &[u8], open: usize) -> Option<usize> {
    let rest = &html[open + 1..];
    if let Some(comment) = rest.strip_prefix(b"!--") {
        return Some(open + 4 + comment_len(comment)?);
    }
    match rest {
        [b'!' | b'?', ..] => Some(open + 1 + memchr::memchr(b'>', rest)? + 1),
        [b'/', byte, ..] if byte.is_ascii_alphabetic() => tag_end(html, open + 2),
        [b'/', ..] => Some(open + 1 + memchr::memchr(b'>', rest)? + 1),
        [byte, ..] if byte.is_ascii_alphabetic() => {
            let end = tag_end(html, open + 1)?;
            if is_named(rest, "plaintext") {
                return None;
            }
            match TEXT_ELEMENTS.into_iter().find(|name| is_named(rest, name)) {
                Some(name) => text_end(html, end, name),
                None => Some(end),
            }
        }
        _ => Some(open + 1), // A bracket that opens nothing.
    }
}

/// Length of a comment from after its `<!--`, its end included.
fn comment_len(comment: &[u8]) -> Option<usize> {
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

/// Whether a tag whose name starts `rest` is called `name`.
fn is_named(rest: &[u8], name: &str) -> bool {
    let Some((own, after)) = rest.split_at_checked(name.len()) else { return false };
    own.eq_ignore_ascii_case(name.as_bytes())
        && after.first().is_none_or(|byte| byte.is_ascii_whitespace() || b"/>".contains(byte))
}

/// Where the tag whose name starts at `at` ends, its `>` included. Only the value of an attribute
/// can hold a `>`, between quotes.
fn tag_end(html: &[u8], mut at: usize) -> Option<usize> {
    let is_in = |at: usize, set: &[u8]| html.get(at).is_some_and(|byte| set.contains(byte));
    let is_space = |at: usize| html.get(at).is_some_and(u8::is_ascii_whitespace);
    // The name; then each round is one attribute.
    while html.get(at).is_some() && !is_space(at) && !is_in(at, b"/>") {
        at += 1;
    }
    loop {
        while is_space(at) || is_in(at, b"/") {
            at += 1;
        }
        if is_in(at, b">") {
            return Some(at + 1);
        }
        html.get(at)?;
        at += 1; // Whatever it is, an equals sign included, it starts a name.
        while html.get(at).is_some() && !is_space(at) && !is_in(at, b"/>=") {
            at += 1;
        }
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
        match html.get(at)? {
            quote @ (b'"' | b'\'') => at += 1 + memchr::memchr(*quote, &html[at + 1..])? + 1,
            _ => {
                while html.get(at).is_some() && !is_space(at) && !is_in(at, b">") {
                    at += 1;
                }
            }
        }
    }
}

/// Where the end tag of the text element `name`, whose content starts at `start`, begins.
fn text_end(html: &[u8], start: usize, name: &str) -> Option<usize> {
    let ends = memmem::find_iter(&html[start..], b"</");
    let is_end = |at: &usize| is_named(&html[start + at + 2..], name);
    ends.into_iter().find(is_end).map(|at| start + at)
}

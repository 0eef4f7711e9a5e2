//! Inserts a pixel in the HTML of a banner.

use crate::creatives::html::{TEXT_ELEMENTS, comment_len, is_named, tag_end, text_end};

/// `html` with an invisible image before the last `</body>` or an unclosed tag, else at its end.
pub(super) fn add_pixel(html: &str, url: &str) -> String {
    let place = place(html.as_bytes());
    // Closed as in XHTML. An image that is not displayed would load late, or never.
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

/// End of the token that starts with the `<` at `open`. A text element includes its content.
fn token_end(html: &[u8], open: usize) -> Option<usize> {
    let rest = &html[open + 1..];
    if let Some(comment) = rest.strip_prefix(b"!--") {
        return Some(open + 4 + comment_len(comment)?);
    }
    match rest {
        [b'!' | b'?', ..] => Some(open + 1 + memchr::memchr(b'>', rest)? + 1),
        [b'/', byte, ..] if byte.is_ascii_alphabetic() => tag_end(html, open + 2, |_, _| ()),
        [b'/', ..] => Some(open + 1 + memchr::memchr(b'>', rest)? + 1),
        [byte, ..] if byte.is_ascii_alphabetic() => {
            let end = tag_end(html, open + 1, |_, _| ())?;
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

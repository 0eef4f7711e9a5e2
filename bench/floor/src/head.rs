//! Finds the end of an HTTP/1.1 head, and the length of the body.
//!
//! Nothing else is parsed: a chunked answer is malformed here, and so is one with neither a length
//! nor a status that forbids a body.

use std::ops::Range;

use memchr::memchr;

/// Longest head; a peer that sends more is disconnected.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;

/// The state of a buffer that begins with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// The message is incomplete.
    Partial,
    /// The range of the body, whose end is the end of the message.
    Whole(Range<usize>),
    /// The end of the message is unknown or beyond the limit.
    Malformed,
}

/// Scans a request; without a length it has no body.
pub(crate) fn request(bytes: &[u8], body_max: usize) -> Scan {
    match fields(bytes) {
        Fields::Partial => Scan::Partial,
        Fields::Malformed => Scan::Malformed,
        Fields::End { body_at, length } => body(bytes, body_at, length.unwrap_or(0), body_max),
    }
}

/// Scans an answer; 204 is the only status that may go without a length.
pub(crate) fn answer(bytes: &[u8], body_max: usize) -> Scan {
    match (fields(bytes), bytes.get(9..12)) {
        (Fields::Partial, _) => Scan::Partial,
        (Fields::End { body_at, .. }, Some(b"204")) => Scan::Whole(body_at..body_at),
        (Fields::End { body_at, length: Some(length) }, Some(b"200")) => {
            body(bytes, body_at, length, body_max)
        }
        _ => Scan::Malformed,
    }
}

fn body(bytes: &[u8], at: usize, length: usize, max: usize) -> Scan {
    if length > max {
        Scan::Malformed
    } else if bytes.len() - at < length {
        Scan::Partial
    } else {
        Scan::Whole(at..at + length)
    }
}

enum Fields {
    Partial,
    Malformed,
    End { body_at: usize, length: Option<usize> },
}

/// One pass over the lines, up to the empty one.
fn fields(bytes: &[u8]) -> Fields {
    let (mut at, mut length) = (0, None);
    while let Some(newline) = memchr(b'\n', &bytes[at..]) {
        let line = bytes[at..at + newline].trim_ascii_end();
        at += newline + 1;
        if at > HEAD_BYTES_MAX {
            return Fields::Malformed;
        }
        if line.is_empty() {
            return Fields::End { body_at: at, length };
        }
        if let Some(value) = content_length(line) {
            let digits = std::str::from_utf8(value.trim_ascii()).ok();
            let Some(value) = digits.and_then(|d| d.parse().ok()) else {
                return Fields::Malformed;
            };
            length = Some(value);
        }
    }
    if bytes.len() < HEAD_BYTES_MAX { Fields::Partial } else { Fields::Malformed }
}

fn content_length(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"content-length:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then_some(value)
}

#[cfg(test)]
mod tests;

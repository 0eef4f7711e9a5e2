//! Byte ranges of a stored response (RFC 9110, section 14).

use std::fmt::Write as _;

/// Ranges of a request; more are answered with the whole response.
pub const RANGES_MAX: usize = 16;

/// Bytes from `start` on, before `end`; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub start: u64,
    /// Position behind the last byte.
    pub end: u64,
}

/// What a request's `Range` asks of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedRanges {
    /// All of it: the field is absent, of another unit, malformed, or asks for too much.
    Whole,
    /// Nothing that it has: 416.
    Unsatisfiable,
    /// These parts, in the order of the request. Neighbours that touch or overlap are one.
    Parts(Vec<ByteRange>),
}

impl ByteRange {
    /// Number of bytes.
    pub const fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// As `Content-Range` of a response of this length.
    pub fn content_range(self, length: u64) -> String {
        format!("bytes {}-{}/{length}", self.start, self.end - 1)
    }

    fn touches(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// Reads `Content-Range` of a 206: the range, and the length of the whole. None if it is malformed, or
/// does not say.
pub fn parse_content_range(line: &str) -> Option<(ByteRange, u64)> {
    let (unit, range) = line.split_once(' ')?;
    let (range, length) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let length = number(length)?;
    let is_sound = unit.eq_ignore_ascii_case("bytes") && start < end && end <= length;
    is_sound.then_some((ByteRange { start, end }, length))
}

/// `Content-Range` of a 416.
pub fn unsatisfied_range(length: u64) -> String {
    format!("bytes */{length}")
}

impl RequestedRanges {
    /// Reads the value of `Range` for a response of this length.
    pub fn parse(range: &str, length: u64) -> Self {
        let set = range.split_once('=').filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"));
        let Some((_, set)) = set else { return Self::Whole };
        let mut parts: Vec<ByteRange> = Vec::new();
        let mut count = 0;
        let specs = set.split(',').map(|spec| spec.trim_matches([' ', '\t']));
        for spec in specs.filter(|spec| !spec.is_empty()) {
            count += 1;
            match parse_spec(spec, length) {
                None => return Self::Whole,
                Some(None) => (),
                Some(Some(part)) => match parts.last_mut().filter(|last| last.touches(part)) {
                    Some(last) => {
                        (last.start, last.end) =
                            (last.start.min(part.start), last.end.max(part.end));
                    }
                    None => parts.push(part),
                },
            }
        }
        let asked = parts.iter().map(|part| u128::from(part.bytes())).sum::<u128>();
        match parts.is_empty() {
            // A client that asks for bytes over and over gets each once.
            _ if count == 0 || count > RANGES_MAX || asked > u128::from(length) => Self::Whole,
            true => Self::Unsatisfiable,
            false => Self::Parts(parts),
        }
    }
}

/// None if it is malformed; no range if the response has none of it.
fn parse_spec(spec: &str, length: u64) -> Option<Option<ByteRange>> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let suffix = number(last)?.min(length);
        return Some((suffix > 0).then_some(ByteRange { start: length - suffix, end: length }));
    }
    let start = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < start {
        return None;
    }
    let end = last.saturating_add(1).min(length);
    Some((start < length).then_some(ByteRange { start, end }))
}

/// A number of digits alone; the largest if it does not fit.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// The parts of a `multipart/byteranges` response (section 14.6).
#[derive(Clone, Debug)]
pub struct MultipartRanges {
    /// The text before each part's bytes.
    heads: Vec<String>,
    /// The text behind the last part's.
    end: String,
    parts: Vec<ByteRange>,
}

impl MultipartRanges {
    /// Of a response with this `Content-Type` and length. The boundary must not be in its bytes: let
    /// it be long and random.
    pub fn new(
        parts: Vec<ByteRange>,
        content_type: Option<&str>,
        length: u64,
        boundary: &str,
    ) -> Self {
        let head = |(number, part): (usize, &ByteRange)| {
            let mut head = if number == 0 { String::new() } else { "\r\n".to_owned() };
            let _infallible = write!(head, "--{boundary}\r\n");
            if let Some(content_type) = content_type {
                let _infallible = write!(head, "content-type: {content_type}\r\n");
            }
            head + "content-range: " + &part.content_range(length) + "\r\n\r\n"
        };
        let heads = parts.iter().enumerate().map(head).collect();
        Self { heads, end: format!("\r\n--{boundary}--\r\n"), parts }
    }

    /// Each part: the text before it, and its bytes' range.
    pub fn parts(&self) -> impl Iterator<Item = (&str, ByteRange)> {
        self.heads.iter().map(String::as_str).zip(self.parts.iter().copied())
    }

    /// The text behind the last part.
    pub fn end(&self) -> &str {
        &self.end
    }

    /// Length of the whole.
    pub fn content_length(&self) -> u64 {
        let parts = self.parts().map(|(head, part)| head.len() as u64 + part.bytes());
        parts.sum::<u64>() + self.end.len() as u64
    }
}

#[cfg(test)]
mod tests;

//! What the origin has: a body for every path, and its answers to GET.

use std::io::Write as _;

use crate::draws::Draws;
use crate::server::ServerRequest;

use super::options::{OBJECT_BYTES_MAX, OriginOptions};

/// The body of a path, whatever its query: a line with the path, and the variant if there are any,
/// again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectBody {
    line: Vec<u8>,
    bytes: usize,
}

impl ObjectBody {
    /// Of so many bytes.
    pub fn new(path: &str, variant: Option<&str>, bytes: usize) -> Self {
        let line = match variant {
            Some(variant) => format!("{path} {variant}\n"),
            None => format!("{path}\n"),
        };
        Self { line: line.into_bytes(), bytes }
    }

    /// Appends the bytes from `start` to `end`.
    fn write(&self, start: usize, end: usize, out: &mut Vec<u8>) {
        let mut at = start % self.line.len();
        let mut left = end - start;
        while left > 0 {
            let piece = left.min(self.line.len() - at);
            out.extend_from_slice(&self.line[at..at + piece]);
            (at, left) = (0, left - piece);
        }
    }

    /// All its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes);
        self.write(0, self.bytes, &mut bytes);
        bytes
    }

    /// Whether these are its bytes, all of them.
    pub fn is(&self, body: &[u8]) -> bool {
        let mut lines = body.chunks(self.line.len());
        body.len() == self.bytes && lines.all(|line| self.line.starts_with(line))
    }
}

/// What the origin has at a path.
#[derive(Clone, Debug)]
pub(super) struct OriginObject {
    body: ObjectBody,
    etag: String,
    surrogate_key: Option<usize>,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginAnswer {
    Whole,
    NotModified,
    Part,
}

impl OriginObject {
    /// What a request asks for. The query may say `bytes=N`.
    pub(super) fn of(request: &ServerRequest<'_>, options: &OriginOptions) -> Self {
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let asked = query.split('&').find_map(|part| part.strip_prefix("bytes=")?.parse().ok());
        let bytes: usize = asked.unwrap_or(options.bytes).min(OBJECT_BYTES_MAX);
        let variant = options.vary.as_deref().map(|name| request.field(name).unwrap_or_default());
        let mut draws = Draws::keyed(options.seed, path.as_bytes());
        let etag = format!("\"{:016x}-{bytes}\"", draws.bits());
        let surrogate_key =
            (options.surrogate_keys > 0).then(|| draws.below(options.surrogate_keys));
        Self { body: ObjectBody::new(path, variant, bytes), etag, surrogate_key }
    }

    /// Appends the answer to a request.
    pub(super) fn answer(
        &self,
        request: &ServerRequest<'_>,
        options: &OriginOptions,
        out: &mut Vec<u8>,
    ) -> OriginAnswer {
        if options.is_validated
            && request.field("if-none-match").is_some_and(|tags| tags.contains(&self.etag))
        {
            self.write_head("304 Not Modified", options, out);
            out.extend_from_slice(b"\r\n");
            return OriginAnswer::NotModified;
        }
        let ObjectBody { bytes, .. } = self.body;
        if let Some((start, end)) = request.field("range").and_then(|range| part_of(range, bytes)) {
            self.write_head("206 Partial Content", options, out);
            let length = end - start;
            let last = end - 1;
            write!(out, "Content-Range: bytes {start}-{last}/{bytes}\r\n").expect("memory");
            write!(out, "Content-Length: {length}\r\n\r\n").expect("memory");
            self.body.write(start, end, out);
            return OriginAnswer::Part;
        }
        self.write_head("200 OK", options, out);
        write!(out, "Content-Length: {bytes}\r\n\r\n").expect("memory");
        self.write_body(out);
        OriginAnswer::Whole
    }

    pub(super) fn write_body(&self, out: &mut Vec<u8>) {
        self.body.write(0, self.body.bytes, out);
    }

    /// Appends the head without the fields that frame the body, and without its end.
    pub(super) fn write_head(&self, status: &str, options: &OriginOptions, out: &mut Vec<u8>) {
        write!(out, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n").expect("memory");
        write!(out, "Cache-Control: {}\r\n", options.cache_control).expect("memory");
        if options.is_validated {
            write!(out, "ETag: {}\r\n", self.etag).expect("memory");
        }
        if let Some(name) = &options.vary {
            write!(out, "Vary: {name}\r\n").expect("memory");
        }
        if let Some(group) = self.surrogate_key {
            write!(out, "Surrogate-Key: group-{group}\r\n").expect("memory");
        }
    }
}

/// The first and the last but one of a single range. None if the whole body is to be sent.
fn part_of(range: &str, bytes: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (first, last.saturating_add(1).min(bytes)),
        (Ok(first), Err(_)) if last.is_empty() => (first, bytes),
        (Err(_), Ok(count)) if first.is_empty() => (bytes.saturating_sub(count), bytes),
        _ => return None,
    };
    (start < end).then_some((start, end))
}

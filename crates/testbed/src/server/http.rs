//! The server's side of HTTP/1.1: finds where requests end, and writes answers. Knows no socket and
//! no content.

use std::io::Write as _;

/// Most bytes of a request's head; more is refused with 431.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request; more is refused with 431.
const FIELDS_MAX: usize = 48;

/// An answer without content.
pub(crate) const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A request whose content is wrong.
pub(crate) const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

/// An unknown path.
pub(crate) const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// The beginning of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestFrame<'a> {
    /// An incomplete request.
    Partial {
        /// Bytes required before another attempt can succeed.
        needed: usize,
    },
    /// A whole request.
    Whole(ServerRequest<'a>),
    /// A request that is refused, after which the connection closes.
    Refused(HttpRefusal),
}

/// A whole request at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerRequest<'a> {
    /// Its method.
    pub method: HttpMethod,
    /// Path and query, as written.
    pub target: &'a str,
    /// Its header fields, as lines of HTTP/1.1 with their ends. Over HTTP/2, without pseudo-header
    /// fields, except that `:authority` is `host`.
    pub fields: &'a [u8],
    /// What follows the head.
    pub body: &'a [u8],
    /// Bytes of head and body together. Over HTTP/2, of the fields and the body.
    pub length: usize,
    /// Whether another request may follow on the connection. Always true over HTTP/2.
    pub keep_alive: bool,
    /// Whether it says `accept-encoding: gzip`.
    pub accepts_gzip: bool,
}

impl<'a> ServerRequest<'a> {
    /// The value of the first field of this name, which is in lower case. None if it is absent or not
    /// text.
    pub fn field(&self, name: &str) -> Option<&'a str> {
        let line = |line: &'a [u8]| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let (own, value) = line.split_at(colon);
            own.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
        };
        let value = self.fields.split(|&byte| byte == b'\n').find_map(line)?;
        str::from_utf8(value).ok()
    }
}

/// The methods that servers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`
    Get,
    /// `POST`, which needs a length.
    Post,
}

/// Why a request is refused, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpRefusal {
    /// 431
    HeadTooLarge,
    /// 400
    BadRequest,
    /// 405
    MethodNotAllowed,
    /// 411: no length, or a chunked body.
    LengthRequired,
    /// 413
    TooLarge,
}

impl HttpRefusal {
    /// The whole answer.
    pub(crate) const fn answer(self) -> &'static [u8] {
        match self {
            Self::HeadTooLarge => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::BadRequest => {
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::MethodNotAllowed => {
                b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, POST\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::LengthRequired => {
                b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
            Self::TooLarge => {
                b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            }
        }
    }
}

/// Reads the request at the start of `bytes`. A body may have up to `body_bytes_max` bytes.
pub(crate) fn frame(bytes: &[u8], body_bytes_max: usize) -> RequestFrame<'_> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let head_length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => {
            return RequestFrame::Partial { needed: bytes.len() + 1 };
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return RequestFrame::Refused(HttpRefusal::HeadTooLarge);
        }
        Err(_) => return RequestFrame::Refused(HttpRefusal::BadRequest),
    };
    let Some(fields) = HeaderFields::read(&head) else {
        return RequestFrame::Refused(HttpRefusal::BadRequest);
    };
    let method = match head.method {
        Some("POST") => HttpMethod::Post,
        Some("GET") => HttpMethod::Get,
        _ => return RequestFrame::Refused(HttpRefusal::MethodNotAllowed),
    };
    let body_length = match fields.content_length {
        _ if fields.transfer_coded => return RequestFrame::Refused(HttpRefusal::LengthRequired),
        None if method == HttpMethod::Post => {
            return RequestFrame::Refused(HttpRefusal::LengthRequired);
        }
        None => 0,
        Some(length) if length > body_bytes_max => {
            return RequestFrame::Refused(HttpRefusal::TooLarge);
        }
        Some(length) => length,
    };
    let length = head_length + body_length;
    let target = head.path.unwrap_or_default();
    // Behind the request line, which is there.
    let line = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let head_fields = &bytes[line.min(head_length)..head_length];
    let HeaderFields { keep_alive, accepts_gzip, .. } = fields;
    match bytes.get(head_length..length) {
        Some(body) => RequestFrame::Whole(ServerRequest {
            method,
            target,
            fields: head_fields,
            body,
            length,
            keep_alive,
            accepts_gzip,
        }),
        None => RequestFrame::Partial { needed: length },
    }
}

/// The header fields that servers use.
struct HeaderFields {
    content_length: Option<usize>,
    transfer_coded: bool,
    keep_alive: bool,
    accepts_gzip: bool,
}

impl HeaderFields {
    /// None if the length is not a number, or two lengths differ.
    fn read(head: &httparse::Request<'_, '_>) -> Option<Self> {
        let mut read = Self {
            content_length: None,
            transfer_coded: false,
            keep_alive: head.version == Some(1),
            accepts_gzip: false,
        };
        for field in head.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let length = decimal(field.value)?;
                if read.content_length.is_some_and(|earlier| earlier != length) {
                    return None;
                }
                read.content_length = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                read.transfer_coded = true;
            } else if field.name.eq_ignore_ascii_case("accept-encoding") {
                read.accepts_gzip |= says_gzip(field.value);
            } else if field.name.eq_ignore_ascii_case("connection") {
                for option in field.value.split(|&byte| byte == b',') {
                    let option = option.trim_ascii();
                    if option.eq_ignore_ascii_case(b"close") {
                        read.keep_alive = false;
                    }
                }
            }
        }
        Some(read)
    }
}

/// Whether the value of `accept-encoding` names gzip.
pub(super) fn says_gzip(value: &[u8]) -> bool {
    let mut options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    options.any(|option| option.eq_ignore_ascii_case(b"gzip"))
}

/// ASCII digits only: `str::parse` also accepts a plus sign.
pub(super) fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Appends `parts` one after another.
pub(crate) fn append(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The head of an answer. 204 and 304 go without fields and length.
pub(crate) fn head(code: u16, fields: &[(&str, &str)], length: Option<usize>) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {code} Status\r\n");
    let bare = matches!(code, 204 | 304);
    for (name, value) in fields.iter().filter(|_| !bare) {
        out.extend([name, ": ", value, "\r\n"]);
    }
    if let Some(length) = length.filter(|_| !bare) {
        out.push_str(&format!("content-length: {length}\r\n"));
    }
    out.push_str("\r\n");
    out.into_bytes()
}

const OK_JSON: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

/// Appends an answer with `body` and its length.
pub(crate) fn write_whole(body: &[u8], out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    append(out, &[OK_JSON, b"Content-Length: ", number.format(body.len()).as_bytes()]);
    append(out, &[b"\r\n\r\n", body]);
}

/// An answer with `body` and its length.
pub fn whole_answer(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_whole(body, &mut out);
    out
}

/// Appends an answer with a chunk for each of `chunks` that is not empty.
pub(crate) fn write_chunks<'a>(chunks: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    append(out, &[OK_JSON, b"Transfer-Encoding: chunked\r\n\r\n"]);
    for chunk in chunks {
        if !chunk.is_empty() {
            write!(out, "{:x}\r\n", chunk.len()).expect("a vector takes every write");
            append(out, &[chunk, b"\r\n"]);
        }
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

#[cfg(test)]
mod tests;

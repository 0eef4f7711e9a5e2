//! A request that arrives in frames: its fields, checked, and its body so far. Knows no frame and no
//! stream.

use http2::hpack::ENTRY_OVERHEAD;

use crate::server::http::{
    HEAD_BYTES_MAX, HttpMethod, HttpRefusal, ServerRequest, decimal, says_gzip,
};

/// A body's buffer beyond this is not kept for another request.
const BODY_KEPT_BYTES: usize = 64 * 1024;

/// Why a request gets no answer of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestProblem {
    /// It violates HTTP/2, which ends its stream.
    Malformed,
    /// It is answered with a refusal.
    Refused(HttpRefusal),
}

/// The method, if the request has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestMethod {
    #[default]
    Missing,
    Known(HttpMethod),
    Unknown,
}

/// A request whose head, or more, has arrived.
#[derive(Debug, Default)]
pub(super) struct PartialRequest {
    method: RequestMethod,
    target: String,
    /// Lines, as in HTTP/1.1.
    fields: Vec<u8>,
    /// Size of the head as RFC 9113, section 6.5.2, counts it.
    head_bytes: usize,
    content_length: Option<usize>,
    accepts_gzip: bool,
    has_scheme: bool,
    has_regular: bool,
    is_malformed: bool,
    body: Vec<u8>,
}

impl PartialRequest {
    /// Empties it, so that it can hold another request.
    pub(super) fn clear(&mut self) {
        let Self { target, fields, body, .. } = std::mem::take(self);
        (self.target, self.fields, self.body) = (target, fields, body);
        self.target.clear();
        self.fields.clear();
        self.body.clear();
        self.body.shrink_to(BODY_KEPT_BYTES);
    }

    /// Adds a field of the head.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.head_bytes += name.len() + value.len() + ENTRY_OVERHEAD;
        if self.head_bytes > HEAD_BYTES_MAX {
            return;
        }
        if name.starts_with(b":") {
            self.is_malformed |= self.has_regular || !self.add_pseudo(name, value);
            return;
        }
        self.has_regular = true;
        match name {
            b"content-length" => match decimal(value) {
                Some(length) if self.content_length.is_none_or(|earlier| earlier == length) => {
                    self.content_length = Some(length);
                }
                _ => self.is_malformed = true,
            },
            b"accept-encoding" => self.accepts_gzip |= says_gzip(value),
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => self.is_malformed = true,
            b"te" => self.is_malformed |= value != b"trailers",
            name if name.is_empty() || name.iter().any(u8::is_ascii_uppercase) => {
                self.is_malformed = true;
            }
            _ => (),
        }
        self.write_line(name, value);
    }

    /// Returns whether the field is a sound one of a request.
    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b":method" => {
                let is_first = self.method == RequestMethod::Missing;
                self.method = match value {
                    b"POST" => RequestMethod::Known(HttpMethod::Post),
                    b"GET" => RequestMethod::Known(HttpMethod::Get),
                    _ => RequestMethod::Unknown,
                };
                is_first
            }
            b":path" => {
                let (is_first, text) = (self.target.is_empty(), str::from_utf8(value));
                self.target.push_str(text.unwrap_or_default());
                is_first && !self.target.is_empty()
            }
            b":scheme" => !std::mem::replace(&mut self.has_scheme, true),
            b":authority" => {
                self.write_line(b"host", value);
                true
            }
            _ => false,
        }
    }

    fn write_line(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
    }

    /// Checks the whole head, which ends the request if `is_last`.
    pub(super) fn check_head(&self, body_bytes_max: usize) -> Result<(), RequestProblem> {
        if self.head_bytes > HEAD_BYTES_MAX {
            return Err(RequestProblem::Refused(HttpRefusal::HeadTooLarge));
        }
        let is_missing = self.method == RequestMethod::Missing;
        if self.is_malformed || is_missing || self.target.is_empty() || !self.has_scheme {
            return Err(RequestProblem::Malformed);
        }
        if self.method == RequestMethod::Unknown {
            return Err(RequestProblem::Refused(HttpRefusal::MethodNotAllowed));
        }
        if self.content_length.is_some_and(|length| length > body_bytes_max) {
            return Err(RequestProblem::Refused(HttpRefusal::TooLarge));
        }
        Ok(())
    }

    /// Adds to the body, up to `body_bytes_max`.
    pub(super) fn add_data(
        &mut self,
        data: &[u8],
        body_bytes_max: usize,
    ) -> Result<(), RequestProblem> {
        if self.body.len() + data.len() > body_bytes_max {
            return Err(RequestProblem::Refused(HttpRefusal::TooLarge));
        }
        self.body.extend_from_slice(data);
        Ok(())
    }

    /// Whether the body has not begun.
    pub(super) const fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// The whole request. Its body is `data`, or what was added before. Borrows everything.
    pub(super) fn request<'a>(
        &'a self,
        data: Option<&'a [u8]>,
        body_bytes_max: usize,
    ) -> Result<ServerRequest<'a>, RequestProblem> {
        let RequestMethod::Known(method) = self.method else {
            return Err(RequestProblem::Refused(HttpRefusal::MethodNotAllowed));
        };
        let body = data.unwrap_or(&self.body);
        if body.len() > body_bytes_max {
            return Err(RequestProblem::Refused(HttpRefusal::TooLarge));
        }
        if self.content_length.is_some_and(|length| length != body.len()) {
            return Err(RequestProblem::Malformed);
        }
        Ok(ServerRequest {
            method,
            target: &self.target,
            fields: &self.fields,
            body,
            length: self.fields.len() + body.len(),
            keep_alive: true,
            accepts_gzip: self.accepts_gzip,
        })
    }
}

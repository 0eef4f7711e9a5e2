//! One response, assembled from its frames (RFC 9113, section 8.1).

use super::options::Http2ClientOptions;
use crate::error::Http2ErrorCode;

/// Largest head once decoded, and largest header block.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most header fields of a head.
pub const HEAD_FIELDS_MAX: usize = 64;
/// Most interim responses (1xx) before the final one.
pub const INTERIM_MAX: u32 = 4;
/// A DATA frame of fewer bytes that does not end the body counts as small.
const SMALL_FRAME_BYTES: usize = 256;

/// What a stream is for.
pub trait StreamCall {
    /// Takes a field of the final response's head. Names are in lower case; neither pseudo-header
    /// fields nor `content-length` are passed.
    fn on_field(&mut self, name: &[u8], value: &[u8]);

    /// The final response's head is valid; its body may still fail.
    fn on_status(&mut self, _status: u16) {}
}

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd<'b> {
    /// A whole response.
    Response {
        /// 200 to 999.
        status: u16,
        /// The body.
        body: &'b [u8],
    },
    /// The server has not seen the request, or says that it has not processed it, so that it can be
    /// repeated.
    Unprocessed,
    /// The server has reset the stream.
    Reset(Http2ErrorCode),
    /// The connection has ended before the response.
    Lost {
        /// Whether part of the response has arrived.
        has_begun: bool,
    },
    /// The response violates HTTP.
    Malformed(&'static str),
    /// Beyond [`HEAD_BYTES_MAX`], [`HEAD_FIELDS_MAX`] or [`INTERIM_MAX`].
    HeadTooLarge,
    /// Beyond the limit for bodies.
    BodyTooLarge,
    /// The body comes in too many small frames.
    Trickle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePhase {
    /// Before the final head.
    Head,
    Body,
}

#[derive(Debug)]
pub(super) struct Response<C> {
    pub(super) call: C,
    phase: ResponsePhase,
    status: u16,
    length: Option<usize>,
    interim: u32,
    small_frames: u32,
    body: Vec<u8>,
}

/// What a header block has achieved.
pub(super) enum HeadProgress {
    Partial,
    Whole,
    Failed(StreamEnd<'static>),
}

/// What a DATA frame has achieved.
pub(super) enum DataProgress {
    Partial,
    /// The body is what the response holds. If it holds nothing, the body is the frame's data.
    Whole,
    Failed(StreamEnd<'static>),
}

impl<C: StreamCall> Response<C> {
    pub(super) const fn new(call: C) -> Self {
        Self {
            call,
            phase: ResponsePhase::Head,
            status: 0,
            length: None,
            interim: 0,
            small_frames: 0,
            body: Vec::new(),
        }
    }

    pub(super) const fn status(&self) -> u16 {
        self.status
    }

    /// Whether any part of it has arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.phase == ResponsePhase::Body || self.interim > 0
    }

    /// Bytes of the body that it holds.
    pub(super) fn held(&self) -> u32 {
        u32::try_from(self.body.len()).expect("a body fits its window")
    }

    pub(super) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Handles a whole header block: an interim head, the final one, or trailers.
    pub(super) fn on_head(
        &mut self,
        fields: &HeadFields,
        end_stream: bool,
        options: &Http2ClientOptions,
    ) -> HeadProgress {
        use HeadProgress::{Failed, Partial, Whole};
        if fields.is_too_large() {
            return Failed(StreamEnd::HeadTooLarge);
        }
        if let Some(problem) = fields.problem {
            return Failed(StreamEnd::Malformed(problem));
        }
        if self.phase == ResponsePhase::Body {
            return match (fields.status, end_stream) {
                (None, true) if self.has_length(0) => Whole,
                (None, true) => Failed(LENGTH_DIFFERS),
                _ => Failed(StreamEnd::Malformed("its trailers do not end it")),
            };
        }
        match fields.status {
            Some(100 | 102..200) if !end_stream => {
                self.interim += 1;
                if self.interim > INTERIM_MAX { Failed(StreamEnd::HeadTooLarge) } else { Partial }
            }
            Some(status) if status >= 200 => {
                self.phase = ResponsePhase::Body;
                self.status = status;
                self.call.on_status(status);
                self.length = fields.length.filter(|_| !matches!(status, 204 | 304));
                match end_stream {
                    true if self.has_length(0) => Whole,
                    true => Failed(LENGTH_DIFFERS),
                    false if self.length.is_some_and(|it| it > options.body_bytes_max) => {
                        Failed(StreamEnd::BodyTooLarge)
                    }
                    false => Partial,
                }
            }
            _ => Failed(StreamEnd::Malformed("its status is missing or unusable")),
        }
    }

    /// Handles a DATA frame. Keeps the data, unless the frame is the whole body.
    pub(super) fn on_data(
        &mut self,
        data: &[u8],
        end_stream: bool,
        options: &Http2ClientOptions,
    ) -> DataProgress {
        use DataProgress::{Failed, Partial, Whole};
        if self.phase == ResponsePhase::Head {
            return Failed(StreamEnd::Malformed("its body comes before its head"));
        }
        if self.body.len() + data.len() > options.body_bytes_max {
            return Failed(StreamEnd::BodyTooLarge);
        }
        if end_stream {
            if !self.has_length(data.len()) {
                return Failed(LENGTH_DIFFERS);
            }
            if !self.body.is_empty() {
                self.body.extend_from_slice(data);
            }
            return Whole;
        }
        self.small_frames += u32::from(data.len() < SMALL_FRAME_BYTES);
        if self.small_frames > options.small_frames_max {
            return Failed(StreamEnd::Trickle);
        }
        self.body.extend_from_slice(data);
        Partial
    }

    /// Whether the body is as long as announced, with `more` bytes.
    fn has_length(&self, more: usize) -> bool {
        self.length.is_none_or(|length| length == self.body.len() + more)
    }
}

const LENGTH_DIFFERS: StreamEnd<'static> =
    StreamEnd::Malformed("its content-length is not that of its body");

/// What a header block says, field by field.
#[derive(Debug, Default)]
pub(super) struct HeadFields {
    status: Option<u16>,
    length: Option<usize>,
    has_regular: bool,
    problem: Option<&'static str>,
    count: usize,
    bytes: usize,
}

impl HeadFields {
    /// Takes a field; `response` receives those of the final head.
    pub(super) fn add<C: StreamCall>(
        &mut self,
        name: &[u8],
        value: &[u8],
        response: Option<&mut Response<C>>,
    ) {
        self.count += 1;
        self.bytes += name.len() + value.len() + crate::hpack::ENTRY_OVERHEAD;
        if self.is_too_large() || self.problem.is_some() {
            return;
        }
        if name.starts_with(b":") {
            self.add_pseudo(name, value);
            return;
        }
        self.has_regular = true;
        match name {
            b"content-length" => match length(value) {
                Some(length) if self.length.is_none_or(|earlier| earlier == length) => {
                    self.length = Some(length);
                }
                _ => self.problem = Some("its content-length is unusable"),
            },
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => {
                self.problem = Some("it has a field that HTTP/2 forbids");
            }
            name if name.is_empty() || name.iter().any(u8::is_ascii_uppercase) => {
                self.problem = Some("it has a malformed field name");
            }
            name => {
                let is_final = self.status.is_some_and(|status| status >= 200);
                if let Some(response) = response.filter(|_| is_final) {
                    response.call.on_field(name, value);
                }
            }
        }
    }

    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) {
        let status = match value {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                Some(100 * u16::from(a - b'0') + 10 * u16::from(b - b'0') + u16::from(c - b'0'))
            }
            _ => None,
        };
        if name != b":status" || status.is_none() || self.status.is_some() || self.has_regular {
            self.problem = Some("its pseudo-header fields are malformed");
        }
        self.status = status;
    }

    fn is_too_large(&self) -> bool {
        self.count > HEAD_FIELDS_MAX || self.bytes > HEAD_BYTES_MAX
    }
}

fn length(value: &[u8]) -> Option<usize> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A length beyond `usize` exceeds every limit.
    Some(str::from_utf8(value).ok()?.parse().unwrap_or(usize::MAX))
}

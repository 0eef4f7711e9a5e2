//! Reads one HTTP/1.1 answer in whatever pieces it arrives (RFC 9112).
//!
//! Most answers arrive in one piece and are not copied. Every length is bounded. Knows nothing of
//! sockets or auctions.

use std::mem::MaybeUninit;

use memchr::memmem;

/// Largest head, status line included.
pub const HEAD_MAX: usize = 16 * 1024;
/// Most header fields.
pub const HEADERS_MAX: usize = 64;
/// Most interim answers (1xx) before the final one.
pub const INTERIM_MAX: usize = 4;
/// Longest chunk-size line, extensions included.
const CHUNK_LINE_MAX: usize = 256;

/// Why an answer and its connection are unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Not HTTP/1.1.
    #[error("the answer is not HTTP/1.1: {0}")]
    Malformed(&'static str),
    /// Beyond [`HEAD_MAX`], [`HEADERS_MAX`] or [`INTERIM_MAX`].
    #[error("the answer's head is too large")]
    HeadTooLarge,
    /// Beyond the DSP's configured limit.
    #[error("the answer's body is too large")]
    BodyTooLarge,
    /// The connection ended within the answer.
    #[error("the connection ended within the answer")]
    Truncated,
}

/// Number of the exchange's node, in beacons passed on to another node and in their answers.
pub const NODE_HEADER: &str = "x-vickrey-node";

/// Fields of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// Status code.
    pub status: u16,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// Those that matter over either version of HTTP.
    pub fields: AnswerFields,
}

/// Header fields of an answer that matter over either version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerFields {
    /// How the body is compressed.
    pub coding: Coding,
    /// The answering node, from [`NODE_HEADER`].
    pub node: Option<u32>,
}

impl AnswerFields {
    const NONE: Self = Self { coding: Coding::Identity, node: None };

    /// Takes a field; names are compared without regard to case.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-encoding") {
            self.coding = Coding::of(value);
        } else if name.eq_ignore_ascii_case(NODE_HEADER.as_bytes()) {
            self.node = std::str::from_utf8(value).ok().and_then(|node| node.parse().ok());
        }
    }
}

/// How a body is compressed (RFC 9110, section 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// None.
    #[default]
    Identity,
    /// gzip.
    Gzip,
    /// Any coding that was not requested.
    Other,
}

impl Coding {
    fn of(value: &[u8]) -> Self {
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        if is("") || is("identity") {
            Self::Identity
        } else if is("gzip") || is("x-gzip") {
            Self::Gzip
        } else {
            Self::Other
        }
    }
}

/// State of the reading.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerProgress<'b> {
    /// More bytes are needed.
    Partial,
    /// The whole answer.
    Done {
        /// The head.
        head: AnswerHead,
        /// The body, chunks joined.
        body: &'b [u8],
        /// Bytes of the last input that follow the answer.
        surplus: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerState {
    Head,
    /// Body bytes still missing.
    Sized(usize),
    Chunked(Chunk),
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    SizeLine,
    Data(usize),
    DataEnd,
    Trailer,
}

#[derive(Clone, Copy)]
enum Framing {
    Sized(usize),
    Chunked,
    UntilClose,
}

/// Reads one answer; [`AnswerReader::reset`] prepares it for the next.
#[derive(Debug)]
pub struct AnswerReader {
    state: AnswerState,
    head: AnswerHead,
    interim: usize,
    /// Unparsed bytes of the head or framing.
    pending: Vec<u8>,
    body: Vec<u8>,
    body_max: usize,
}

impl AnswerReader {
    /// Refuses bodies beyond `body_max` bytes.
    pub const fn new(body_max: usize) -> Self {
        Self {
            state: AnswerState::Head,
            head: AnswerHead { status: 0, keep_alive: false, fields: AnswerFields::NONE },
            interim: 0,
            pending: Vec::new(),
            body: Vec::new(),
            body_max,
        }
    }

    /// Forgets the answer and frees its memory.
    pub fn reset(&mut self) {
        *self = Self::new(self.body_max);
    }

    /// Whether a byte of the answer has arrived.
    pub fn has_begun(&self) -> bool {
        self.state != AnswerState::Head || !self.pending.is_empty() || self.interim > 0
    }

    /// Status of the final head, once it has arrived, also if the rest is unusable.
    pub fn status(&self) -> Option<u16> {
        Some(self.head.status).filter(|status| *status > 0)
    }

    /// Reads more. Requires a [`AnswerReader::reset`] after an error or [`AnswerProgress::Done`].
    pub fn read<'b>(&'b mut self, input: &'b [u8]) -> Result<AnswerProgress<'b>, AnswerError> {
        if self.state != AnswerState::Head {
            return self.read_body(input);
        }
        if self.pending.is_empty() {
            return self.read_head(input);
        }
        let searched = self.pending.len().saturating_sub(3);
        let room = (HEAD_MAX + 1).saturating_sub(self.pending.len());
        let (taken, rest) = input.split_at(input.len().min(room));
        self.pending.extend_from_slice(taken);
        if !holds_blank_line(&self.pending[searched..]) {
            return self.within_head_max();
        }
        let mut whole = std::mem::take(&mut self.pending);
        whole.extend_from_slice(rest);
        self.read_kept(&whole)
    }

    /// Handles the end of the connection.
    pub fn end(&mut self) -> Result<AnswerProgress<'_>, AnswerError> {
        match self.state {
            AnswerState::UntilClose => {
                Ok(AnswerProgress::Done { head: self.head, body: &self.body, surplus: 0 })
            }
            _ => Err(AnswerError::Truncated),
        }
    }

    fn within_head_max(&self) -> Result<AnswerProgress<'_>, AnswerError> {
        if self.pending.len() > HEAD_MAX {
            Err(AnswerError::HeadTooLarge)
        } else {
            Ok(AnswerProgress::Partial)
        }
    }

    /// Copies the body, because `input` is gone after the call.
    fn read_kept(&mut self, input: &[u8]) -> Result<AnswerProgress<'_>, AnswerError> {
        let Some((start, framing)) = self.parse_heads(input)? else {
            return self.within_head_max();
        };
        self.begin_body(framing)?;
        self.read_body(&input[start..])
    }

    fn read_head<'b>(&'b mut self, input: &'b [u8]) -> Result<AnswerProgress<'b>, AnswerError> {
        let Some((start, framing)) = self.parse_heads(input)? else {
            return self.within_head_max();
        };
        let rest = &input[start..];
        if let Framing::Sized(length) = framing
            && length <= self.body_max
            && length <= rest.len()
        {
            // Usual case: complete, nothing copied.
            let (body, surplus) = rest.split_at(length);
            return Ok(AnswerProgress::Done { head: self.head, body, surplus: surplus.len() });
        }
        self.begin_body(framing)?;
        self.read_body(rest)
    }

    /// Parses heads; returns where the final one's body starts. None if more bytes are needed.
    fn parse_heads(&mut self, input: &[u8]) -> Result<Option<(usize, Framing)>, AnswerError> {
        let mut start = 0;
        loop {
            let Some((length, framing)) = self.parse_head(&input[start..])? else {
                self.pending.extend_from_slice(&input[start..]);
                return Ok(None);
            };
            start += length;
            if let Some(framing) = framing {
                return Ok(Some((start, framing)));
            }
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(AnswerError::HeadTooLarge);
            }
        }
    }

    fn parse_head(
        &mut self,
        input: &[u8],
    ) -> Result<Option<(usize, Option<Framing>)>, AnswerError> {
        // Uninitialised: zeroing would cost 2 KiB for every answer.
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            input,
            &mut headers,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(AnswerError::HeadTooLarge),
            Err(_) => return Err(AnswerError::Malformed("its head cannot be read")),
        };
        if length > HEAD_MAX {
            return Err(AnswerError::HeadTooLarge);
        }
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) {
            return match status {
                101 => Err(AnswerError::Malformed("it switches protocols")),
                _ => Ok(Some((length, None))),
            };
        }
        let framed = Framed::of(response.headers)?;
        let keep_alive = match response.version {
            Some(1) => !framed.close,
            _ => false,
        };
        let framing = match (status, framed.chunked, framed.length) {
            (204 | 304, _, _) => Framing::Sized(0),
            (_, true, Some(_)) => return Err(AnswerError::Malformed("two body lengths")),
            (_, true, None) => Framing::Chunked,
            (_, false, Some(length)) => Framing::Sized(length),
            (_, false, None) => Framing::UntilClose,
        };
        let keep_alive = keep_alive && !matches!(framing, Framing::UntilClose);
        self.head = AnswerHead { status, keep_alive, fields: framed.fields };
        Ok(Some((length, Some(framing))))
    }

    fn begin_body(&mut self, framing: Framing) -> Result<(), AnswerError> {
        self.state = match framing {
            Framing::Sized(length) if length > self.body_max => {
                return Err(AnswerError::BodyTooLarge);
            }
            Framing::Sized(length) => AnswerState::Sized(length),
            Framing::Chunked => AnswerState::Chunked(Chunk::SizeLine),
            Framing::UntilClose => AnswerState::UntilClose,
        };
        Ok(())
    }

    fn read_body(&mut self, mut input: &[u8]) -> Result<AnswerProgress<'_>, AnswerError> {
        let done = match self.state {
            AnswerState::Head => unreachable!("the head has been read"),
            AnswerState::Sized(left) => {
                let (taken, rest) = input.split_at(left.min(input.len()));
                self.keep(taken)?;
                input = rest;
                self.state = AnswerState::Sized(left - taken.len());
                left == taken.len()
            }
            AnswerState::UntilClose => {
                self.keep(input)?;
                false
            }
            AnswerState::Chunked(_) => self.read_chunks(&mut input)?,
        };
        if !done {
            return Ok(AnswerProgress::Partial);
        }
        Ok(AnswerProgress::Done { head: self.head, body: &self.body, surplus: input.len() })
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), AnswerError> {
        if self.body.len() + bytes.len() > self.body_max {
            return Err(AnswerError::BodyTooLarge);
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// Whether the last chunk and its trailers are read.
    fn read_chunks(&mut self, input: &mut &[u8]) -> Result<bool, AnswerError> {
        while let AnswerState::Chunked(chunk) = self.state {
            let next = match chunk {
                Chunk::Data(left) => {
                    let (taken, rest) = input.split_at(left.min(input.len()));
                    self.keep(taken)?;
                    *input = rest;
                    match left - taken.len() {
                        0 => Chunk::DataEnd,
                        left => {
                            self.state = AnswerState::Chunked(Chunk::Data(left));
                            return Ok(false);
                        }
                    }
                }
                Chunk::SizeLine | Chunk::DataEnd | Chunk::Trailer => {
                    let Some(line) = self.take_line(input)? else { return Ok(false) };
                    match (chunk, line.as_slice()) {
                        (Chunk::DataEnd, b"") => Chunk::SizeLine,
                        (Chunk::DataEnd, _) => {
                            return Err(AnswerError::Malformed("a chunk overruns its size"));
                        }
                        (Chunk::SizeLine, line) => match chunk_size(line)? {
                            0 => Chunk::Trailer,
                            size => Chunk::Data(size),
                        },
                        (_, b"") => return Ok(true),
                        (_, _) => Chunk::Trailer,
                    }
                }
            };
            if chunk == Chunk::Trailer {
                // Skips trailers; they count as head.
                self.interim += 1;
                if self.interim > HEADERS_MAX {
                    return Err(AnswerError::HeadTooLarge);
                }
            }
            self.state = AnswerState::Chunked(next);
        }
        Ok(false)
    }

    /// The next line without its end, including earlier pieces. None if incomplete.
    fn take_line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, AnswerError> {
        let (taken, complete) = match memchr::memchr(b'\n', input) {
            Some(end) => (&input[..=end], true),
            None => (*input, false),
        };
        if self.pending.len() + taken.len() > CHUNK_LINE_MAX {
            return Err(AnswerError::Malformed("a chunk's size line is too long"));
        }
        self.pending.extend_from_slice(taken);
        *input = &input[taken.len()..];
        if !complete {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.pending);
        line.pop();
        match line.pop() {
            Some(b'\r') => Ok(Some(line)),
            _ => Err(AnswerError::Malformed("a chunk's line ends without CR LF")),
        }
    }
}

/// Whether a head may end here. A lone LF ends a line too (RFC 9112, section 2.2).
fn holds_blank_line(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"\n\r\n").is_some() || memmem::find(bytes, b"\n\n").is_some()
}

fn chunk_size(line: &[u8]) -> Result<usize, AnswerError> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let malformed = AnswerError::Malformed("a chunk has no size");
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(malformed);
    }
    let text = std::str::from_utf8(digits).map_err(|_| malformed)?;
    usize::from_str_radix(text, 16).map_err(|_| AnswerError::BodyTooLarge)
}

/// What a head says.
#[derive(Default)]
struct Framed {
    length: Option<usize>,
    chunked: bool,
    close: bool,
    fields: AnswerFields,
}

impl Framed {
    fn of(headers: &[httparse::Header<'_>]) -> Result<Self, AnswerError> {
        let mut framed = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = header.value.trim_ascii();
            if is("content-length") {
                let length = parse_length(value)?;
                if framed.length.is_some_and(|earlier| earlier != length) {
                    return Err(AnswerError::Malformed("two body lengths"));
                }
                framed.length = Some(length);
            } else if is("transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") || framed.chunked {
                    return Err(AnswerError::Malformed("a transfer coding other than chunked"));
                }
                framed.chunked = true;
            } else if is("connection") {
                let mut options = value.split(|byte| *byte == b',');
                framed.close |=
                    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
            } else {
                framed.fields.add(header.name.as_bytes(), value);
            }
        }
        Ok(framed)
    }
}

fn parse_length(value: &[u8]) -> Result<usize, AnswerError> {
    let malformed = AnswerError::Malformed("its content-length is no number");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(malformed);
    }
    let text = std::str::from_utf8(value).map_err(|_| malformed)?;
    // A length beyond `usize` exceeds every limit.
    Ok(text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;

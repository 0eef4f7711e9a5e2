//! Translates an answer in HTTP/1.1, which may come in pieces, into the parts of an answer in
//! HTTP/2. Pure: knows neither frames nor windows.

mod chunks;

use http2::hpack::{self, Indexing};

use self::chunks::{ChunkDecoder, ChunkPart};

/// Most header fields of an answer; one with more is no HTTP.
const FIELDS_MAX: usize = 64;

/// One part of an answer. The last one ends the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerPart<'a> {
    /// [`AnswerTranslator::block`] is the header block of an interim answer.
    Interim,
    /// [`AnswerTranslator::block`] is the header block of the answer.
    Head { is_last: bool },
    /// Some of the body.
    Data { bytes: &'a [u8], is_last: bool },
    /// The body has ended before.
    End,
    /// Bytes that are not HTTP.
    Raw(Vec<u8>),
}

/// Where the translation is.
#[derive(Debug)]
enum TranslationPhase {
    Head,
    /// A body with this many bytes left.
    Length(u64),
    Chunks(ChunkDecoder),
    /// A body that ends with the answer's bytes.
    UntilEnd,
    /// The answer is complete; further bytes belong to nothing and are ignored.
    Complete,
    /// What was sent is not HTTP.
    Raw,
}

#[derive(Debug)]
pub(super) struct AnswerTranslator {
    phase: TranslationPhase,
    /// The beginning of an incomplete head.
    partial: Vec<u8>,
    block: Vec<u8>,
    /// Whether the head says `connection: close`.
    is_closing: bool,
}

impl AnswerTranslator {
    pub(super) const fn new() -> Self {
        Self {
            phase: TranslationPhase::Head,
            partial: Vec::new(),
            block: Vec::new(),
            is_closing: false,
        }
    }

    /// Begins another answer.
    pub(super) fn restart(&mut self) {
        self.phase = TranslationPhase::Head;
        self.partial.clear();
        self.is_closing = false;
    }

    /// The latest header block. Its fields are indexed in the static table only.
    pub(super) fn block(&self) -> &[u8] {
        &self.block
    }

    /// Whether the answer asks for its connection to be closed.
    pub(super) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Whether bytes that are not HTTP have come.
    pub(super) const fn is_raw(&self) -> bool {
        matches!(self.phase, TranslationPhase::Raw)
    }

    /// Takes the next part off the front of `bytes`. None if all of them are taken.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<AnswerPart<'a>> {
        match &mut self.phase {
            TranslationPhase::Head if bytes.is_empty() => None,
            TranslationPhase::Head => self.next_head(bytes),
            TranslationPhase::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let data = bytes.split_off(..count).filter(|data| !data.is_empty())?;
                *left -= count as u64;
                let is_last = *left == 0;
                if is_last {
                    self.phase = TranslationPhase::Complete;
                }
                Some(AnswerPart::Data { bytes: data, is_last })
            }
            TranslationPhase::Chunks(decoder) => match decoder.next(bytes)? {
                ChunkPart::Data(data) => Some(AnswerPart::Data { bytes: data, is_last: false }),
                ChunkPart::End => {
                    self.phase = TranslationPhase::Complete;
                    Some(AnswerPart::End)
                }
                ChunkPart::Malformed => {
                    self.phase = TranslationPhase::Raw;
                    Some(AnswerPart::Raw(std::mem::take(bytes).to_vec()))
                }
            },
            TranslationPhase::UntilEnd if bytes.is_empty() => None,
            TranslationPhase::UntilEnd => {
                Some(AnswerPart::Data { bytes: std::mem::take(bytes), is_last: false })
            }
            TranslationPhase::Complete => {
                *bytes = &[];
                None
            }
            TranslationPhase::Raw if bytes.is_empty() => None,
            TranslationPhase::Raw => Some(AnswerPart::Raw(std::mem::take(bytes).to_vec())),
        }
    }

    /// The answer has no more bytes. Returns its last part, unless that came before. None too if the
    /// answer is truncated; [`is_complete`](Self::is_complete) tells.
    pub(super) fn finish(&mut self) -> Option<AnswerPart<'static>> {
        if matches!(self.phase, TranslationPhase::UntilEnd) {
            self.phase = TranslationPhase::Complete;
            return Some(AnswerPart::End);
        }
        None
    }

    /// Whether the last part has come.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.phase, TranslationPhase::Complete)
    }

    /// Reads a head at the front of `bytes`, or the rest of one.
    fn next_head<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<AnswerPart<'a>> {
        if self.partial.is_empty() {
            return match Http1Head::translate(bytes, &mut self.block) {
                HeadTranslation::Whole(head) => {
                    *bytes = &bytes[head.length..];
                    Some(self.begin(&head))
                }
                HeadTranslation::Partial => {
                    self.partial.extend_from_slice(std::mem::take(bytes));
                    None
                }
                HeadTranslation::Malformed => {
                    self.phase = TranslationPhase::Raw;
                    Some(AnswerPart::Raw(std::mem::take(bytes).to_vec()))
                }
            };
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(bytes);
        match Http1Head::translate(&self.partial, &mut self.block) {
            HeadTranslation::Whole(head) => {
                // The head was incomplete before, so it ends within the new bytes.
                *bytes = &bytes[head.length - before..];
                self.partial.clear();
                Some(self.begin(&head))
            }
            HeadTranslation::Partial => {
                *bytes = &[];
                None
            }
            HeadTranslation::Malformed => {
                *bytes = &[];
                self.phase = TranslationPhase::Raw;
                Some(AnswerPart::Raw(std::mem::take(&mut self.partial)))
            }
        }
    }

    fn begin(&mut self, head: &Http1Head) -> AnswerPart<'static> {
        if head.status < 200 {
            return AnswerPart::Interim;
        }
        self.is_closing = head.is_closing;
        self.phase = match head.body {
            BodyLength::Known(0) => TranslationPhase::Complete,
            BodyLength::Known(length) => TranslationPhase::Length(length),
            BodyLength::Chunked => TranslationPhase::Chunks(ChunkDecoder::default()),
            BodyLength::UntilEnd => TranslationPhase::UntilEnd,
        };
        AnswerPart::Head { is_last: self.is_complete() }
    }
}

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyLength {
    Known(u64),
    Chunked,
    UntilEnd,
}

/// What the head of an answer says.
#[derive(Debug)]
struct Http1Head {
    /// Its bytes in HTTP/1.1.
    length: usize,
    status: u16,
    body: BodyLength,
    is_closing: bool,
}

enum HeadTranslation {
    Whole(Http1Head),
    Partial,
    Malformed,
}

impl Http1Head {
    /// Reads the head at the start of `bytes`, and makes `block` its header block.
    fn translate(bytes: &[u8], block: &mut Vec<u8>) -> HeadTranslation {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let (length, status) = match (response.parse(bytes), response.code) {
            (Ok(httparse::Status::Complete(length)), Some(status)) => (length, status),
            (Ok(httparse::Status::Partial), _) => return HeadTranslation::Partial,
            _ => return HeadTranslation::Malformed,
        };
        block.clear();
        write_status(block, status);
        let mut head = Self { length, status, body: BodyLength::UntilEnd, is_closing: false };
        for field in response.headers.iter() {
            head.add(field, block);
        }
        if matches!(status, 204 | 304) {
            head.body = BodyLength::Known(0);
        }
        HeadTranslation::Whole(head)
    }

    fn add(&mut self, field: &httparse::Header<'_>, block: &mut Vec<u8>) {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("connection") {
            self.is_closing |= field.value.eq_ignore_ascii_case(b"close");
            return;
        }
        if is("keep-alive") {
            return;
        }
        if is("transfer-encoding") {
            self.body = BodyLength::Chunked;
            return;
        }
        if is("content-length") && self.body == BodyLength::UntilEnd {
            let text = str::from_utf8(field.value).ok();
            if let Some(length) = text.and_then(|text| text.trim().parse().ok()) {
                self.body = BodyLength::Known(length);
            }
        }
        let mut short = [0; 32];
        match short.get_mut(..field.name.len()) {
            Some(name) => {
                name.copy_from_slice(field.name.as_bytes());
                name.make_ascii_lowercase();
                hpack::write_literal(block, name, field.value, Indexing::Without);
            }
            None => {
                let name = field.name.to_ascii_lowercase();
                hpack::write_literal(block, name.as_bytes(), field.value, Indexing::Without);
            }
        }
    }
}

fn write_status(block: &mut Vec<u8>, status: u16) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(status).as_bytes();
    match hpack::static_index(b":status", digits) {
        Some(index) => hpack::write_indexed(block, index),
        None => hpack::write_literal(block, b":status", digits, Indexing::Without),
    }
}

#[cfg(test)]
mod tests;

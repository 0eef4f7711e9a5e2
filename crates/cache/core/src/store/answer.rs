//! What a stored resource says to a request: the answer itself, as far as it needs no origin.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    EXPIRES, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::purges::KeyPurges;
use super::response::{Resource, StoredBody, StoredResponse};
use crate::cache_status::append_hit;
use crate::fields::dates::UnixSeconds;
use crate::rules::control::RequestControl;
use crate::rules::ranges::{ByteRange, MultipartRanges, RequestedRanges, unsatisfied_range};
use crate::rules::reuse::{Reuse, ReuseRules, ServedFreshness};
use crate::rules::validation::validators::{Condition, Validators, evaluate, range_applies};

/// A request for a resource.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'r> {
    /// GET or HEAD.
    pub method: &'r Method,
    /// Its header fields.
    pub headers: &'r HeaderMap,
    /// What they say to caches.
    pub control: &'r RequestControl,
}

impl ClientRequest<'_> {
    /// What it asks of a response of status 200 with a body of this length.
    pub fn ranges(
        &self,
        validators: &Validators<'_>,
        length: u64,
        now: UnixSeconds,
    ) -> RequestedRanges {
        let range = self.headers.get(RANGE).and_then(|line| line.to_str().ok());
        let Some(range) = range else { return RequestedRanges::Whole };
        match *self.method == Method::GET && range_applies(self.headers, validators, now) {
            true => RequestedRanges::parse(range, length),
            false => RequestedRanges::Whole,
        }
    }
}

/// What the store says to a request.
#[derive(Debug)]
pub enum CacheAnswer {
    /// The answer.
    Ready(ReadyAnswer),
    /// Nothing that is stored matches its header fields.
    NoVariant,
    /// What matched them is purged.
    Purged,
    /// The origin must say whether what is stored is valid.
    Validate(ValidatorLines),
    /// Only the origin can tell whether its conditions hold.
    AskOrigin,
    /// 504: it wants nothing that must be fetched.
    Unavailable,
}

/// The fields of a conditional request to the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatorLines {
    /// For `If-None-Match`.
    pub etag: Option<HeaderValue>,
    /// For `If-Modified-Since`.
    pub last_modified: Option<HeaderValue>,
}

/// An answer from the store.
#[derive(Debug)]
pub struct ReadyAnswer {
    /// Its status: the stored one, 206, 304 or 416.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its content.
    pub body: AnswerBody,
    /// How fresh it is.
    pub served: ServedFreshness,
    /// That it is a hit, for `Cache-Status`.
    pub cache_status: HeaderValue,
    /// Whether the origin is to be asked meanwhile.
    pub is_validated_meanwhile: bool,
}

/// The content of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// Copied, or none.
    Whole(Bytes),
    /// Pieces that share the stored body's bytes.
    Pieces(Vec<Bytes>),
}

impl AnswerBody {
    /// In bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }
}

/// What answers depend on besides the request and the resource.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext<'c> {
    /// The time.
    pub now: UnixSeconds,
    /// The operator's rules.
    pub rules: ReuseRules,
    /// A text that no body contains, for several ranges: long, and chosen at random.
    pub boundary: &'c str,
    /// The cache's, in `Cache-Status`: a token.
    pub name: &'c str,
    /// Purges, as they concern the resource's key.
    pub purges: KeyPurges<'c>,
}

impl Resource {
    /// Answers a request. Copies into the buffer, which is reused by the next answer.
    pub fn answer(
        &self,
        request: ClientRequest<'_>,
        context: AnswerContext<'_>,
        buffer: &mut BytesMut,
    ) -> CacheAnswer {
        let Some(response) = self.select(request.headers) else { return CacheAnswer::NoVariant };
        let Some(freshness) = response.freshness(context.purges) else {
            return CacheAnswer::Purged;
        };
        let reuse = freshness.reuse(request.control, context.now, context.rules);
        let (served, is_validated_meanwhile) = match reuse {
            Reuse::Serve(served) => (served, false),
            Reuse::ServeAndValidate(served) => (served, true),
            Reuse::Validate => return CacheAnswer::Validate(response.validator_lines()),
            Reuse::Unavailable => return CacheAnswer::Unavailable,
        };
        let answer = response.answer(request, context, buffer, served);
        answer.map_or(CacheAnswer::AskOrigin, |answer| {
            CacheAnswer::Ready(ReadyAnswer { is_validated_meanwhile, ..answer })
        })
    }
}

impl StoredResponse {
    /// What asks the origin whether it is still valid.
    pub fn validator_lines(&self) -> ValidatorLines {
        let line = |name| HeaderValue::from_bytes(self.head.first(name)?).ok();
        ValidatorLines { etag: line(&ETAG), last_modified: line(&LAST_MODIFIED) }
    }

    /// Answers a request that it may answer. None if only the origin can.
    pub fn answer(
        &self,
        request: ClientRequest<'_>,
        context: AnswerContext<'_>,
        buffer: &mut BytesMut,
        served: ServedFreshness,
    ) -> Option<ReadyAnswer> {
        let mut copying = AnswerCopy { stored: self, name: context.name, buffer, served };
        let validators = self.validators();
        // Conditions are ignored where the answer without them would be no success (RFC 9110,
        // section 13.2.1).
        let condition = match self.status.is_success() {
            true => evaluate(request.headers, &validators, context.now),
            false => Condition::Holds,
        };
        let parts = match condition {
            Condition::AskOrigin => return None,
            Condition::Fails(status) => return Some(copying.without_content(status)),
            Condition::Holds if self.status == StatusCode::OK => {
                request.ranges(&validators, self.body.length(), context.now)
            }
            Condition::Holds => RequestedRanges::Whole,
        };
        Some(match parts {
            RequestedRanges::Whole => copying.whole(request.method),
            RequestedRanges::Unsatisfiable => copying.unsatisfied(),
            RequestedRanges::Parts(parts) => match parts[..] {
                [part] => copying.part(part),
                _ => copying.multipart(parts, context.boundary),
            },
        })
    }

    /// Whether a field may be sent although the origin has not validated it.
    fn is_sent(&self, name: &HeaderName) -> bool {
        !self.unvalidated_fields().contains(name)
    }
}

/// An answer that is being copied from a stored response.
struct AnswerCopy<'a> {
    stored: &'a StoredResponse,
    name: &'a str,
    buffer: &'a mut BytesMut,
    served: ServedFreshness,
}

impl AnswerCopy<'_> {
    fn whole(&mut self, method: &Method) -> ReadyAnswer {
        let StoredResponse { status, body, .. } = self.stored;
        let length = body.length();
        let end = if *method == Method::HEAD { 0 } else { length };
        let said = (*status != StatusCode::NO_CONTENT).then_some(length);
        self.copy(*status, ByteRange { start: 0, end }, said, |_| true)
    }

    fn part(&mut self, range: ByteRange) -> ReadyAnswer {
        let mut answer =
            self.copy(StatusCode::PARTIAL_CONTENT, range, Some(range.bytes()), |_| true);
        let content_range = range.content_range(self.stored.body.length());
        answer.headers.insert(CONTENT_RANGE, value(content_range));
        answer
    }

    fn multipart(&mut self, parts: Vec<ByteRange>, boundary: &str) -> ReadyAnswer {
        let StoredResponse { head, body, .. } = self.stored;
        let content_type = head.first(&CONTENT_TYPE).and_then(|line| str::from_utf8(line).ok());
        let multipart = MultipartRanges::new(parts, content_type, body.length(), boundary);
        let said = Some(multipart.content_length());
        let mut answer = self.copy(StatusCode::PARTIAL_CONTENT, NOTHING, said, |_| true);
        let mut pieces = Vec::new();
        for (head, part) in multipart.parts() {
            pieces.push(Bytes::copy_from_slice(head.as_bytes()));
            pieces.extend(body.slices(part));
        }
        pieces.push(Bytes::copy_from_slice(multipart.end().as_bytes()));
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        answer.headers.insert(CONTENT_TYPE, value(content_type));
        answer.body = AnswerBody::Pieces(pieces);
        answer
    }

    fn unsatisfied(&mut self) -> ReadyAnswer {
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        let mut answer = self.copy(status, NOTHING, Some(0), is_about_response);
        let range = unsatisfied_range(self.stored.body.length());
        answer.headers.insert(CONTENT_RANGE, value(range));
        answer
    }

    fn without_content(&mut self, status: StatusCode) -> ReadyAnswer {
        self.copy(status, NOTHING, None, is_about_response)
    }

    /// Header fields and part of the content, in one copy: the fields' values, those that are new,
    /// and the content.
    fn copy(
        &mut self,
        status: StatusCode,
        range: ByteRange,
        said_length: Option<u64>,
        wanted: impl Fn(&HeaderName) -> bool,
    ) -> ReadyAnswer {
        let Self { stored, name, buffer, served } = self;
        stored.head.copy_to(buffer);
        let age = append(buffer, |to| append_number(to, served.age.0));
        let cache_status = append(buffer, |to| append_hit(name, *served, to));
        let length = said_length.map(|length| append(buffer, |to| append_number(to, length)));
        let head_end = buffer.len();
        let is_copied = if let StoredBody::Copied(bytes) = &stored.body {
            buffer.extend_from_slice(&bytes[index(range.start)..index(range.end)]);
            true
        } else {
            false
        };
        let copy = buffer.split().freeze();
        let value = |range| {
            HeaderValue::from_maybe_shared(copy.slice(range)).expect("it has visible characters")
        };
        let mut headers = stored.head.headers(&copy, |name| wanted(name) && stored.is_sent(name));
        headers.insert(AGE, value(age));
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, value(length));
        }
        let cache_status = value(cache_status);
        let body = match is_copied {
            true => AnswerBody::Whole(copy.slice(head_end..)),
            false => AnswerBody::Pieces(stored.body.slices(range)),
        };
        let (served, is_validated_meanwhile) = (*served, false);
        ReadyAnswer { status, headers, body, served, cache_status, is_validated_meanwhile }
    }
}

/// Returns where it is.
fn append(buffer: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Range<usize> {
    let start = buffer.len();
    write(buffer);
    start..buffer.len()
}

pub(super) fn append_number(to: &mut BytesMut, number: u64) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Whether a field says which response an answer without its content is about (RFC 9110, section
/// 15.4.5).
fn is_about_response(name: &HeaderName) -> bool {
    [CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY].contains(name)
}

/// No content.
const NOTHING: ByteRange = ByteRange { start: 0, end: 0 };

impl StoredBody {
    /// The bytes of a range, copied or shared.
    fn slices(&self, ByteRange { start, end }: ByteRange) -> Vec<Bytes> {
        let pieces = match self {
            Self::Copied(bytes) => {
                return vec![Bytes::copy_from_slice(&bytes[index(start)..index(end)])];
            }
            Self::Shared(pieces) => pieces,
        };
        let mut slices = Vec::new();
        let mut begin = 0;
        for piece in &**pieces {
            let piece_end = begin + piece.len() as u64;
            let (from, to) = (start.max(begin), end.min(piece_end));
            if from < to {
                slices.push(piece.slice(index(from - begin)..index(to - begin)));
            }
            begin = piece_end;
        }
        slices
    }
}

/// A position within a body, which is in memory.
fn index(position: u64) -> usize {
    usize::try_from(position).expect("bodies are in memory")
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("it has visible characters alone")
}

#[cfg(test)]
mod tests;

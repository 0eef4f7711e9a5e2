//! What a stored resource says to a request: the answer itself, as far as it needs no origin.

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    EXPIRES, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::response::{Resource, StoredBody, StoredResponse};
use crate::fields::dates::UnixSeconds;
use crate::rules::control::{FieldScope, RequestControl};
use crate::rules::ranges::{ByteRange, MultipartRanges, RequestedRanges, unsatisfied_range};
use crate::rules::reuse::{Reuse, ReuseRules, ServedFreshness};
use crate::rules::validation::validators::{Condition, evaluate, range_applies};

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

/// What the store says to a request.
#[derive(Debug)]
pub enum CacheAnswer {
    /// The answer.
    Ready(ReadyAnswer),
    /// Nothing that is stored matches its header fields.
    NoVariant,
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

/// What answers depend on besides the request and the resource.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext<'c> {
    /// The time.
    pub now: UnixSeconds,
    /// The operator's rules.
    pub rules: ReuseRules,
    /// A text that no body contains, for several ranges: long, and chosen at random.
    pub boundary: &'c str,
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
        let reuse = response.freshness().reuse(request.control, context.now, context.rules);
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
        let validators = self.validators();
        // Conditions are ignored where the answer without them would be no success (RFC 9110,
        // section 13.2.1).
        let condition = match self.status.is_success() {
            true => evaluate(request.headers, &validators, context.now),
            false => Condition::Holds,
        };
        let parts = match condition {
            Condition::AskOrigin => return None,
            Condition::Fails(status) => return Some(self.without_content(status, buffer, served)),
            Condition::Holds => self.requested_parts(request, context.now),
        };
        Some(match parts {
            RequestedRanges::Whole => self.whole(request.method, buffer, served),
            RequestedRanges::Unsatisfiable => self.unsatisfied(buffer, served),
            RequestedRanges::Parts(parts) => match parts[..] {
                [part] => self.part(part, buffer, served),
                _ => self.multipart(parts, context.boundary, buffer, served),
            },
        })
    }

    fn requested_parts(&self, request: ClientRequest<'_>, now: UnixSeconds) -> RequestedRanges {
        let range = request.headers.get(RANGE).and_then(|line| line.to_str().ok());
        let Some(range) = range else { return RequestedRanges::Whole };
        let applies = *request.method == Method::GET
            && self.status == StatusCode::OK
            && range_applies(request.headers, &self.validators(), now);
        match applies {
            true => RequestedRanges::parse(range, self.body.length()),
            false => RequestedRanges::Whole,
        }
    }

    fn whole(
        &self,
        method: &Method,
        buffer: &mut BytesMut,
        served: ServedFreshness,
    ) -> ReadyAnswer {
        let length = self.body.length();
        let end = if *method == Method::HEAD { 0 } else { length };
        let all = ByteRange { start: 0, end };
        let Copied { mut headers, body } = self.copy(all, buffer, served, |_| true);
        if self.status != StatusCode::NO_CONTENT {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        self.ready(self.status, headers, body, served)
    }

    fn part(
        &self,
        range: ByteRange,
        buffer: &mut BytesMut,
        served: ServedFreshness,
    ) -> ReadyAnswer {
        let Copied { mut headers, body } = self.copy(range, buffer, served, |_| true);
        headers.insert(CONTENT_RANGE, value(range.content_range(self.body.length())));
        headers.insert(CONTENT_LENGTH, range.bytes().into());
        self.ready(StatusCode::PARTIAL_CONTENT, headers, body, served)
    }

    fn multipart(
        &self,
        parts: Vec<ByteRange>,
        boundary: &str,
        buffer: &mut BytesMut,
        served: ServedFreshness,
    ) -> ReadyAnswer {
        let content_type =
            self.head.first(&CONTENT_TYPE).and_then(|line| str::from_utf8(line).ok());
        let multipart = MultipartRanges::new(parts, content_type, self.body.length(), boundary);
        let Copied { mut headers, .. } = self.copy(NOTHING, buffer, served, |_| true);
        let mut pieces = Vec::new();
        for (head, part) in multipart.parts() {
            pieces.push(Bytes::copy_from_slice(head.as_bytes()));
            pieces.extend(self.body.slices(part));
        }
        pieces.push(Bytes::copy_from_slice(multipart.end().as_bytes()));
        let content_type = format!("multipart/byteranges; boundary={boundary}");
        headers.insert(CONTENT_TYPE, value(content_type));
        headers.insert(CONTENT_LENGTH, multipart.content_length().into());
        self.ready(StatusCode::PARTIAL_CONTENT, headers, AnswerBody::Pieces(pieces), served)
    }

    fn unsatisfied(&self, buffer: &mut BytesMut, served: ServedFreshness) -> ReadyAnswer {
        let mut answer = self.without_content(StatusCode::RANGE_NOT_SATISFIABLE, buffer, served);
        answer.headers.insert(CONTENT_RANGE, value(unsatisfied_range(self.body.length())));
        answer.headers.insert(CONTENT_LENGTH, 0.into());
        answer
    }

    /// With the fields that say which response it is about (RFC 9110, section 15.4.5).
    fn without_content(
        &self,
        status: StatusCode,
        buffer: &mut BytesMut,
        served: ServedFreshness,
    ) -> ReadyAnswer {
        let about = [CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, LAST_MODIFIED, VARY];
        let Copied { headers, body } =
            self.copy(NOTHING, buffer, served, |name| about.contains(name));
        self.ready(status, headers, body, served)
    }

    fn ready(
        &self,
        status: StatusCode,
        headers: HeaderMap,
        body: AnswerBody,
        served: ServedFreshness,
    ) -> ReadyAnswer {
        ReadyAnswer { status, headers, body, served, is_validated_meanwhile: false }
    }

    /// Header fields and part of the content, in one copy.
    fn copy(
        &self,
        range: ByteRange,
        buffer: &mut BytesMut,
        served: ServedFreshness,
        wanted: impl Fn(&HeaderName) -> bool,
    ) -> Copied {
        self.head.copy_to(buffer);
        let head_end = buffer.len();
        put_number(buffer, served.age.0);
        let age_end = buffer.len();
        let is_copied = if let StoredBody::Copied(bytes) = &self.body {
            buffer.extend_from_slice(&bytes[index(range.start)..index(range.end)]);
            true
        } else {
            false
        };
        let copy = buffer.split().freeze();
        let wanted = |name: &HeaderName| match self.unvalidated_fields() {
            FieldScope::Fields(names) => wanted(name) && !names.contains(name),
            FieldScope::Nothing | FieldScope::Whole => wanted(name),
        };
        let mut headers = self.head.headers(&copy, wanted);
        let age = HeaderValue::from_maybe_shared(copy.slice(head_end..age_end));
        headers.insert(AGE, age.expect("digits are a value"));
        let body = match is_copied {
            true => AnswerBody::Whole(copy.slice(age_end..)),
            false => AnswerBody::Pieces(self.body.slices(range)),
        };
        Copied { headers, body }
    }
}

/// No content.
const NOTHING: ByteRange = ByteRange { start: 0, end: 0 };

struct Copied {
    headers: HeaderMap,
    body: AnswerBody,
}

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

fn put_number(buffer: &mut BytesMut, number: u64) {
    let _infallible = write!(buffer, "{number}");
}

#[cfg(test)]
mod tests;

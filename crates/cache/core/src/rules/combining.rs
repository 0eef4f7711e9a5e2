//! Completing a response whose body broke off by a request for the rest (RFC 9111, sections 3.3 and
//! 3.4; RFC 9110, section 15.3.7.3).

use http::header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::ranges::{ByteRange, parse_content_range};
use super::validation::validators::EntityTag;

/// A response whose body broke off, and which has a strong validator.
#[derive(Clone, Debug)]
pub struct IncompleteResponse {
    etag: HeaderValue,
    /// `Content-Encoding`. None if it has none.
    coding: Option<HeaderValue>,
    /// Bytes that came.
    received: u64,
    /// Of the whole body. None if the response did not say.
    length: Option<u64>,
}

impl IncompleteResponse {
    /// None if it cannot be completed: parts of other representations could not be told apart, or the
    /// origin has no ranges.
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        received: u64,
        length: Option<u64>,
    ) -> Option<Self> {
        let refuses = headers.get(ACCEPT_RANGES).is_some_and(|line| line == "none");
        if status != StatusCode::OK || refuses {
            return None;
        }
        let etag = headers.get(ETAG)?;
        EntityTag::parse(etag.as_bytes()).filter(|etag| !etag.is_weak)?;
        let coding = headers.get(CONTENT_ENCODING).cloned();
        Some(Self { etag: etag.clone(), coding, received, length })
    }

    /// `Range` of the request for the rest.
    pub fn range(&self) -> HeaderValue {
        let range = format!("bytes={}-", self.received);
        HeaderValue::try_from(range).expect("it has visible characters alone")
    }

    /// Its `If-Range`.
    pub const fn if_range(&self) -> &HeaderValue {
        &self.etag
    }

    /// The range of a response that is the rest, all of it, of the same representation: to the end of
    /// the whole. None if it is not.
    pub fn rest(&self, status: StatusCode, headers: &HeaderMap) -> Option<ByteRange> {
        // Some servers code a body without another tag.
        let is_same = headers.get(ETAG) == Some(&self.etag)
            && headers.get(CONTENT_ENCODING) == self.coding.as_ref();
        let is_rest = |(range, length): &(ByteRange, u64)| {
            let is_same_length = self.length.is_none_or(|known| known == *length);
            range.start == self.received && range.end == *length && is_same_length
        };
        let range = parse_content_range(headers.get(CONTENT_RANGE)?.to_str().ok()?)?;
        let is_part = status == StatusCode::PARTIAL_CONTENT && is_same;
        Some(range).filter(|range| is_part && is_rest(range)).map(|(range, _)| range)
    }
}

#[cfg(test)]
mod tests;

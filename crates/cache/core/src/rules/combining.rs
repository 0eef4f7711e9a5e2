//! Completing a response whose body broke off by a request for the rest (RFC 9111, sections 3.3 and
//! 3.4; RFC 9110, section 15.3.7.3).

use http::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::ranges::parse_content_range;
use super::validation::validators::EntityTag;

/// A response whose body broke off, and which has a strong validator.
#[derive(Clone, Debug)]
pub struct IncompleteResponse {
    etag: HeaderValue,
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
        Some(Self { etag: etag.clone(), received, length })
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

    /// Whether a response is the rest, all of it, of the same representation.
    pub fn is_completed_by(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let range = headers.get(CONTENT_RANGE).and_then(|line| line.to_str().ok());
        let is_rest = range.and_then(parse_content_range).is_some_and(|(range, length)| {
            let is_same_length = self.length.is_none_or(|known| known == length);
            range.start == self.received && range.end == length && is_same_length
        });
        status == StatusCode::PARTIAL_CONTENT && is_rest && headers.get(ETAG) == Some(&self.etag)
    }
}

#[cfg(test)]
mod tests;

//! Validators, and the conditions that requests put on them (RFC 9110, sections 8.8 and 13).

use http::header::{
    ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::fields::dates::{UnixSeconds, parse_date};
use crate::fields::lists::{Quoting, elements};

/// How far `Date` must be behind `Last-Modified` for that to be strong (RFC 9110, section 8.8.2.2).
const STRONG_AFTER_S: u64 = 1;

/// An entity tag (section 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'t> {
    /// Whether it is weak.
    pub is_weak: bool,
    /// Between the quotes.
    pub opaque: &'t [u8],
}

impl<'t> EntityTag<'t> {
    /// Reads an entity tag. None if the text is malformed.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        let (is_weak, quoted) = match text.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let opaque = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let is_tag_byte =
            |byte: &u8| *byte == 0x21 || (0x23..=0x7e).contains(byte) || *byte >= 0x80;
        opaque.iter().all(is_tag_byte).then_some(Self { is_weak, opaque })
    }

    /// Strong comparison: both are strong, and equal.
    pub fn is_strongly(self, other: EntityTag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }

    /// Weak comparison: equal but for weakness.
    pub fn is_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// The validators of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'r> {
    /// `ETag`. None if it is absent or malformed.
    pub etag: Option<EntityTag<'r>>,
    /// `Last-Modified`. None if it is absent or not a date.
    pub last_modified: Option<UnixSeconds>,
    /// Whether `Last-Modified` is strong: the response was made long enough after it.
    pub is_date_strong: bool,
    /// When the origin made the response.
    pub made: UnixSeconds,
}

impl<'r> Validators<'r> {
    /// Of a response that was made at `date` by its origin.
    pub fn of(headers: &'r HeaderMap, date: UnixSeconds) -> Self {
        let etag = headers.get(ETAG).and_then(|line| EntityTag::parse(line.as_bytes()));
        Self::new(etag, date_of(headers, &LAST_MODIFIED, date), date)
    }

    /// Likewise, of fields that are read already.
    pub fn new(
        etag: Option<EntityTag<'r>>,
        last_modified: Option<UnixSeconds>,
        date: UnixSeconds,
    ) -> Self {
        let is_date_strong =
            last_modified.is_some_and(|modified| date.since(modified).0 >= STRONG_AFTER_S);
        Self { etag, last_modified, is_date_strong, made: date }
    }

    /// Whether the origin can be asked if the response is still valid.
    pub const fn is_some(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// What becomes of a conditional request that a stored response could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It is answered as if it were unconditional.
    Holds,
    /// It is answered with this status, and without content: 304.
    Fails(StatusCode),
    /// Only the origin can tell: `If-Match` and `If-Unmodified-Since` are about its resource.
    AskOrigin,
}

/// Evaluates the conditions of a GET or HEAD on a stored response of status 200 (RFC 9111, section
/// 4.3.2; the order is that of RFC 9110, section 13.2.2).
pub fn evaluate(request: &HeaderMap, stored: &Validators<'_>, now: UnixSeconds) -> Condition {
    if request.contains_key(IF_MATCH) || request.contains_key(IF_UNMODIFIED_SINCE) {
        return Condition::AskOrigin;
    }
    let is_unmodified = if request.contains_key(IF_NONE_MATCH) {
        names_tag(request, &IF_NONE_MATCH, stored.etag, |tag, own| own.is_weakly(tag))
    } else {
        let since = date_of(request, &IF_MODIFIED_SINCE, now);
        // One that is no date is ignored.
        since.is_some_and(|since| stored.last_modified.unwrap_or(stored.made) <= since)
    };
    match is_unmodified {
        true => Condition::Fails(StatusCode::NOT_MODIFIED),
        false => Condition::Holds,
    }
}

/// Whether an origin must answer 412: `If-Match`, or else `If-Unmodified-Since`, does not hold for what
/// it has (RFC 9110, sections 13.1.1 and 13.1.4).
pub fn precondition_fails(request: &HeaderMap, own: &Validators<'_>, now: UnixSeconds) -> bool {
    if request.contains_key(IF_MATCH) {
        return !names_tag(request, &IF_MATCH, own.etag, |tag, own| own.is_strongly(tag));
    }
    let since = date_of(request, &IF_UNMODIFIED_SINCE, now);
    since.is_some_and(|since| own.last_modified.is_some_and(|modified| since < modified))
}

/// Whether a field of tags names this one, by a comparison, or any.
fn names_tag(
    request: &HeaderMap,
    name: &HeaderName,
    own: Option<EntityTag<'_>>,
    is_equal: fn(EntityTag<'_>, EntityTag<'_>) -> bool,
) -> bool {
    request.get_all(name).iter().any(|line| {
        let line = line.as_bytes().trim_ascii();
        line == b"*"
            || own.is_some_and(|own| {
                elements(line, Quoting::Verbatim)
                    .any(|tag| EntityTag::parse(tag).is_some_and(|tag| is_equal(tag, own)))
            })
    })
}

/// Whether the range of a request applies to the stored response: `If-Range` is absent, or names
/// what the response is, strongly (RFC 9110, section 13.1.5).
pub fn range_applies(request: &HeaderMap, stored: &Validators<'_>, now: UnixSeconds) -> bool {
    let Some(line) = request.get(IF_RANGE) else { return true };
    if let Some(tag) = EntityTag::parse(line.as_bytes().trim_ascii()) {
        return stored.etag.is_some_and(|stored| stored.is_strongly(tag));
    }
    let date = date_of(request, &IF_RANGE, now);
    stored.is_date_strong && date.is_some() && date == stored.last_modified
}

fn date_of(headers: &HeaderMap, name: &HeaderName, now: UnixSeconds) -> Option<UnixSeconds> {
    parse_date(headers.get(name)?.to_str().ok()?, now)
}

#[cfg(test)]
mod tests;

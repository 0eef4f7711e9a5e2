//! Updating stored responses by newer ones without content: 304, and answers to HEAD (RFC 9111,
//! sections 3.2, 4.3.4 and 4.3.5).
//!
//! What concerns connections is removed before: see `connection`.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE};

use super::validators::Validators;

/// Which of the stored responses a 304 is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FresheningTarget {
    /// Those that have its strong validator; none if none has.
    Strong,
    /// The newest that has its weak validator.
    Weak,
    /// The only one, if it has no validator either.
    Unvalidated,
}

impl FresheningTarget {
    /// Of a 304 (section 4.3.4).
    pub const fn of(response: &Validators<'_>) -> Self {
        match response.etag {
            Some(etag) if !etag.is_weak => Self::Strong,
            None if response.last_modified.is_some() && response.is_date_strong => Self::Strong,
            Some(_) => Self::Weak,
            None if response.last_modified.is_some() => Self::Weak,
            None => Self::Unvalidated,
        }
    }

    /// Whether a stored response may be the one.
    pub fn admits(self, response: &Validators<'_>, stored: &Validators<'_>) -> bool {
        let is_dated =
            response.last_modified.is_some() && response.last_modified == stored.last_modified;
        match (self, response.etag, stored.etag) {
            (Self::Strong, Some(new), Some(old)) => new.is_strongly(old),
            (Self::Strong, None, _) => is_dated && stored.is_date_strong,
            (Self::Weak, Some(new), Some(old)) => new.is_weakly(old),
            (Self::Weak, None, _) => is_dated,
            (Self::Strong | Self::Weak, Some(_), None) => false,
            (Self::Unvalidated, ..) => !stored.is_some(),
        }
    }
}

/// Takes the newer header fields over into those of the stored response (section 3.2).
pub fn freshen(stored: &mut HeaderMap, newer: &HeaderMap) {
    for name in newer.keys() {
        // They are of the stored content, which does not change.
        if [CONTENT_LENGTH, CONTENT_RANGE].contains(name) {
            continue;
        }
        stored.remove(name);
        for value in newer.get_all(name) {
            stored.append(name, value.clone());
        }
    }
}

/// Whether an answer to HEAD is about a stored answer to GET, which it then freshens; otherwise the
/// stored one is stale (section 4.3.5).
pub fn head_agrees(head: &HeaderMap, stored: &HeaderMap) -> bool {
    use http::header::{ETAG, LAST_MODIFIED};
    [ETAG, LAST_MODIFIED, CONTENT_LENGTH].into_iter().all(|name| {
        let given = head.get(&name);
        given.is_none() || given == stored.get(&name)
    })
}

#[cfg(test)]
mod tests;

//! `Cache-Status` (RFC 9211): tells readers of a response how the cache handled the request.

use std::fmt::{self, Display, Formatter};

use bytes::BytesMut;
use http::StatusCode;

use crate::rules::reuse::ServedFreshness;

/// Appends the member of a request that was answered from the store, for a cache of this name, which
/// is a token. Every hit has one, so this is no [`Display`].
pub fn append_hit(cache: &str, served: ServedFreshness, to: &mut BytesMut) {
    to.extend_from_slice(cache.as_bytes());
    to.extend_from_slice(b"; hit; ttl=");
    let ttl = match served.fresh_for {
        Some(fresh_for) => fresh_for,
        None => {
            to.extend_from_slice(b"-");
            served.stale_for
        }
    };
    to.extend_from_slice(itoa::Buffer::new().format(ttl.0).as_bytes());
}

/// How a request was handled that was not answered from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// It went to the origin.
    Forwarded(ForwardedRequest),
    /// Neither: it was refused, or nothing stored was allowed to answer it.
    Unanswered,
}

/// A request that went to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedRequest {
    /// Why.
    pub reason: ForwardReason,
    /// The origin's status. None if it gave none.
    pub status: Option<StatusCode>,
    /// Whether the response was stored.
    pub is_stored: bool,
    /// Whether it shared the request of another client.
    pub is_collapsed: bool,
}

/// Why a request went to the origin (RFC 9211, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The route does not cache.
    Bypass,
    /// The method is not answered from the store.
    Method,
    /// Nothing is stored for the URI.
    UriMiss,
    /// Nothing that is stored for the URI matches the request's header fields.
    VaryMiss,
    /// The request wants a fresh response.
    Request,
    /// The stored response is stale.
    Stale,
    /// The stored response lacks part of the range.
    Partial,
}

impl ForwardReason {
    const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl CacheStatus {
    /// The member to append to the field, for a cache of this name, which is a token.
    pub fn member(self, cache: &str) -> String {
        format!("{cache}{self}")
    }
}

impl Display for CacheStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forwarded(forwarded) => {
                write!(f, "; fwd={}", forwarded.reason.token())?;
                if let Some(status) = forwarded.status {
                    write!(f, "; fwd-status={}", status.as_u16())?;
                }
                f.write_str(if forwarded.is_stored { "; stored" } else { "" })?;
                f.write_str(if forwarded.is_collapsed { "; collapsed" } else { "" })
            }
            Self::Unanswered => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::dates::Seconds;

    #[test]
    fn members_are_items_with_parameters() {
        let check_member = |member: &str, want: &str| {
            assert_eq!(member, want);
            let parsed = sfv::Parser::new(member).parse::<sfv::List>().unwrap();
            assert_eq!(parsed.len(), 1, "{member}");
        };
        let check_hit = |fresh_for: Option<u64>, stale_for, want| {
            let (age, fresh_for) = (Seconds(9), fresh_for.map(Seconds));
            let mut member = BytesMut::new();
            let served = ServedFreshness { age, fresh_for, stale_for: Seconds(stale_for) };
            append_hit("vickrey", served, &mut member);
            check_member(str::from_utf8(&member).unwrap(), want);
        };
        check_hit(Some(30), 0, "vickrey; hit; ttl=30");
        check_hit(None, 7, "vickrey; hit; ttl=-7");
        check_hit(None, 0, "vickrey; hit; ttl=-0");
        let check = |status: CacheStatus, want| check_member(&status.member("vickrey"), want);
        let miss = ForwardedRequest {
            reason: ForwardReason::UriMiss,
            status: None,
            is_stored: false,
            is_collapsed: false,
        };
        check(CacheStatus::Forwarded(miss), "vickrey; fwd=uri-miss");
        let stored = ForwardedRequest {
            reason: ForwardReason::Stale,
            status: Some(StatusCode::NOT_MODIFIED),
            is_stored: true,
            is_collapsed: true,
        };
        let want = "vickrey; fwd=stale; fwd-status=304; stored; collapsed";
        check(CacheStatus::Forwarded(stored), want);
        check(CacheStatus::Unanswered, "vickrey");
    }
}

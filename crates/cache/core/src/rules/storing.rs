//! Whether a response may be stored (RFC 9111, section 3).

use http::header::{AUTHORIZATION, EXPIRES, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};

use crate::rules::control::{RequestControl, ResponseControl};
use crate::rules::freshness::is_heuristically_cacheable;
use crate::rules::vary::nominated_fields;

/// A request and its response, as far as they decide about storing.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeHeads<'e> {
    /// The request's method.
    pub method: &'e Method,
    /// The request's header fields.
    pub request: &'e HeaderMap,
    /// Their directives.
    pub request_control: &'e RequestControl,
    /// The response's status.
    pub status: StatusCode,
    /// The response's header fields.
    pub response: &'e HeaderMap,
    /// Their directives.
    pub response_control: &'e ResponseControl,
}

/// What an operator allows beyond the standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoringRules {
    /// Whether responses that set cookies may be stored.
    pub may_set_cookies: bool,
}

/// Why a response is not stored. Order is precedence: the first that holds is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoringRefusal {
    /// Only answers to GET are stored.
    Method,
    /// It is interim.
    Interim,
    /// The request has `no-store`.
    RequestNoStore,
    /// The response has `no-store`.
    NoStore,
    /// Its meaning depends on its status, which the cache does not understand: it has
    /// `must-understand`, or is 206 or 304.
    Status,
    /// It is for one user.
    Private,
    /// The request has `Authorization`, and the response does not say that others may have it.
    Authorization,
    /// It sets a cookie.
    Cookie,
    /// It matches no other request: `Vary: *`, or a malformed name.
    VaryAny,
    /// Nothing says that it may be stored.
    NotCacheable,
}

/// Whether a shared cache may store the response of an exchange.
///
/// # Errors
/// Why not.
pub fn check_storing(heads: &ExchangeHeads<'_>, rules: StoringRules) -> Result<(), StoringRefusal> {
    use StoringRefusal as Refusal;
    let ExchangeHeads { status, response, response_control: control, .. } = *heads;
    let is_understood = is_understood(status);
    let refusals = [
        (*heads.method != Method::GET, Refusal::Method),
        (status.is_informational(), Refusal::Interim),
        (heads.request_control.no_store, Refusal::RequestNoStore),
        // `must-understand` stands above `no-store` for those who understand (section 5.2.2.3).
        (control.no_store && !(control.must_understand && is_understood), Refusal::NoStore),
        (needs_understanding(status, control) && !is_understood, Refusal::Status),
        (control.private.is_whole(), Refusal::Private),
        (heads.request.contains_key(AUTHORIZATION) && !is_for_all(control), Refusal::Authorization),
        (response.contains_key(SET_COOKIE) && !rules.may_set_cookies, Refusal::Cookie),
        (nominated_fields(response).is_none(), Refusal::VaryAny),
        (!is_cacheable(status, response, control), Refusal::NotCacheable),
    ];
    match refusals.into_iter().find(|(holds, _)| *holds) {
        Some((_, refusal)) => Err(refusal),
        None => Ok(()),
    }
}

/// Whether this cache does what the status asks of caches. Those of 206 and 304 are not stored as
/// they are.
const fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203
            | 204
            | 300
            | 301
            | 302
            | 303
            | 307
            | 308
            | 404
            | 405
            | 410
            | 414
            | 451
            | 500
            | 501
            | 502
            | 503
            | 504
    )
}

const fn needs_understanding(status: StatusCode, control: &ResponseControl) -> bool {
    control.must_understand || matches!(status.as_u16(), 206 | 304)
}

/// Section 3.5.
const fn is_for_all(control: &ResponseControl) -> bool {
    control.public || control.has_s_maxage || control.has_must_revalidate
}

fn is_cacheable(status: StatusCode, response: &HeaderMap, control: &ResponseControl) -> bool {
    control.public
        || control.max_age.is_some()
        // A targeted field stands in for `Expires`.
        || !control.is_targeted && response.contains_key(EXPIRES)
        || is_heuristically_cacheable(status)
}

#[cfg(test)]
mod tests;

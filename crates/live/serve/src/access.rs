//! Who may connect at all: where a request comes from, and with which rights.
//!
//! A browser sends the cookies and the network position of its user with requests of any page, so
//! pages of other origins are refused, token or not. Without a token only a client on this machine
//! is trusted, if the configuration says so; a request that a proxy forwarded needs a token.

mod tokens;

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VIA};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use live_core::protocol::{LiveError, LiveErrorCode};
use live_core::rights::LiveRights;

use crate::config::LiveConfig;
pub(crate) use tokens::TokenVerifier;

pub use tokens::sign_token;

/// Names of the headers that proxies add.
const FORWARDED: [HeaderName; 3] =
    [HeaderName::from_static("forwarded"), HeaderName::from_static("x-forwarded-for"), VIA];

/// Where a request comes from.
pub(crate) struct RequestOrigin<'r> {
    pub head: &'r Parts,
    pub peer: IpAddr,
}

/// Decides who may connect.
pub(crate) struct AccessRules {
    tokens: TokenVerifier,
    trust_loopback: bool,
    origins: Vec<String>,
}

impl AccessRules {
    pub fn new(config: &LiveConfig) -> Self {
        let LiveConfig { keys, trust_loopback, origins, .. } = config;
        let (tokens, origins) = (TokenVerifier::new(keys), origins.clone());
        Self { tokens, trust_loopback: *trust_loopback, origins }
    }

    /// The rights of a token.
    ///
    /// # Errors
    /// It is not a valid token of ours.
    pub fn verify(&self, token: &str) -> Result<LiveRights, LiveError> {
        self.tokens.verify(token)
    }

    /// The rights with which a request begins: those of its token, or, if it is trusted without one,
    /// all. None: it must send a token before anything else.
    ///
    /// # Errors
    /// It comes from a page that may not connect, or its token is invalid.
    pub fn rights(
        &self,
        from: &RequestOrigin<'_>,
        token: Option<&str>,
    ) -> Result<Option<LiveRights>, LiveError> {
        self.check_origin(from)?;
        let bearer = bearer(&from.head.headers)?;
        if let Some(token) = bearer.or(token) {
            return self.verify(token).map(Some);
        }
        let is_local = self.trust_loopback && from.peer.is_loopback();
        if !is_local || FORWARDED.iter().any(|name| from.head.headers.contains_key(name)) {
            return Ok(None);
        }
        if !names_loopback(from.head) {
            let message =
                "a client without a token must name this machine, as in `Host: localhost`";
            return Err(LiveError::new(LiveErrorCode::Forbidden, message));
        }
        Ok(Some(LiveRights::local()))
    }

    fn check_origin(&self, from: &RequestOrigin<'_>) -> Result<(), LiveError> {
        let Some(origin) = from.head.headers.get(ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or("").to_ascii_lowercase();
        let is_own = origin
            .split_once("://")
            .zip(host(from.head))
            .is_some_and(|(origin, host)| origin.1.eq_ignore_ascii_case(host.as_str()));
        if is_own || self.origins.contains(&origin) {
            return Ok(());
        }
        let message = "web pages of this origin may not connect: add it to `live.origins`";
        Err(LiveError::new(LiveErrorCode::Forbidden, message))
    }
}

/// The authority that a request names.
fn host(head: &Parts) -> Option<Authority> {
    let target = head.uri.authority().cloned();
    target.or_else(|| Authority::try_from(head.headers.get(HOST)?.as_bytes()).ok())
}

/// Whether a request names this machine: a page whose own name was rebound to a loopback address
/// (DNS rebinding) names itself.
fn names_loopback(head: &Parts) -> bool {
    let Some(named) = host(head) else { return false };
    let name = named.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, LiveError> {
    let Some(value) = headers.get(AUTHORIZATION).map(HeaderValue::to_str) else { return Ok(None) };
    let token = value.ok().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let message = "authorization is `Bearer` and a token";
    token.map(Some).ok_or_else(|| LiveError::new(LiveErrorCode::BadToken, message))
}

#[cfg(test)]
mod tests;

//! Forms written as text: prices, currencies, addresses, URLs, and one of several words. Each
//! reader returns the value, or the remedy as a lower-case fragment. They must not know keys or
//! files.

pub(super) mod given;
pub(super) mod quantity;
pub(super) mod secret;
pub(super) mod written;

use std::fmt;
use std::net::SocketAddr;

use diagnostics::nearest;
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use units::{Cpm, Currency, Decimal, Price, Rounding};

use super::toml_text::excerpt;
use secret::MASK;

/// An `http://` or `https://` URL, split into its parts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// Whether it is `https`.
    pub secure: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// The port; by default 80, or 443 if `secure`.
    pub port: u16,
    /// Path and query, at least `/`.
    pub path: String,
}

impl HttpUrl {
    /// The value of a `host` header: without the scheme's default port, IPv6 addresses in brackets.
    pub fn authority(&self) -> String {
        let host = &self.host;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        if self.port == port_of(self.secure) { host } else { format!("{host}:{}", self.port) }
    }
}

/// Masked like [`masked_url`].
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let url = format!("{scheme}://{}{}", self.authority(), self.path);
        f.write_str(&masked_url(&url))
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A URL for messages, pages and logs. Queries contain keys, so [`MASK`] replaces everything after
/// the first `?` or `#`, and a user name with its password.
///
/// Invalid URLs are masked as well, because a URL may have been meant. In these, any `@` may end a
/// password that contains other delimiters.
pub fn masked_url(text: &str) -> String {
    let (shown, query) = match text.find(['?', '#']) {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, ""),
    };
    let (scheme, rest) = match shown.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            (&shown[..scheme.len() + 3], rest)
        }
        _ => ("", shown),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        _ if http_url(text).is_ok() => ("", rest),
        _ if query.contains('@') => return format!("{scheme}{MASK}"),
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    match query.get(..1) {
        Some(delimiter) => format!("{scheme}{user}{rest}{delimiter}{MASK}"),
        None => format!("{scheme}{user}{rest}"),
    }
}

const fn port_of(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// Reads `http[s]://host[:port][/path][?query]`.
pub(super) fn http_url(text: &str) -> Result<HttpUrl, String> {
    const FORM: &str = "needs the form \"http://host:port/path\"";
    let (secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err(FORM.to_owned()),
    };
    if text.contains('#') {
        return Err("must not contain a fragment, remove what follows `#`".to_owned());
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not contain a user name or a password".to_owned());
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("has no host, write \"http://host:port/path\"".to_owned());
    }
    let uri = text.parse::<Uri>().map_err(|error| format!("{FORM}: {error}"))?;
    let host = uri.host().ok_or(FORM)?.trim_start_matches('[').trim_end_matches(']');
    let port = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|&port| port != 0),
        _ => Some(port_of(secure)),
    };
    let port = port.ok_or("has a port that is not from 1 to 65535")?;
    let path = match uri.path_and_query().map(PathAndQuery::as_str) {
        Some(path) if path.starts_with('/') => path.to_owned(),
        // A query may follow the host directly, but a request needs a path before it.
        Some(query) => format!("/{query}"),
        None => "/".to_owned(),
    };
    Ok(HttpUrl { secure, host: host.to_owned(), port, path })
}

/// Reads `127.0.0.1:8080` or `[::1]:8080`.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
        let named = host.bytes().any(|byte| byte.is_ascii_alphabetic()) && !host.contains(':');
        let what = if named { "an IP address, not a name," } else { "an IP address" };
        format!("needs {what} and a port, for example \"127.0.0.1:8080\"")
    })
}

pub(super) fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| {
        let code = excerpt(text);
        match Currency::parse(&text.trim().to_ascii_uppercase()) {
            Some(meant) => format!("unknown currency `{code}`, did you mean `{meant}`?"),
            None => {
                format!("unknown currency `{code}`, write three capital letters such as `USD`")
            }
        }
    })
}

/// Reads `0.50 USD`, exactly, to a millionth.
pub(super) fn price(text: &str) -> Result<Price, String> {
    let (number, code) = text.split_once(' ').unwrap_or((text, ""));
    let amount = Decimal::parse(number).map_err(|error| {
        format!("needs an amount and a currency, for example \"0.50 USD\": the amount is {error}")
    })?;
    if code.is_empty() {
        return Err(format!("needs a currency, for example \"{number} USD\""));
    }
    let currency = currency(code.trim_start())?;
    if amount.scaled(6).is_some_and(|(_, dropped)| dropped) {
        return Err("is finer than a millionth of the currency".to_owned());
    }
    let amount = Cpm::parse(number, Rounding::Up)
        .map_err(|_| format!("is more than {} {currency}, the largest price", Cpm::MAX))?;
    Ok(Price { amount, currency })
}

/// Reads any non-empty text.
pub(super) fn text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn one_of<T: Clone>(text: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    match known.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(value.clone()),
        None => Err(match nearest(text, known.iter().map(|(name, _)| *name)) {
            Some(meant) => format!("is unknown, did you mean \"{meant}\"?"),
            None => format!("is unknown, write {}", alternatives(known.iter().map(|k| k.0))),
        }),
    }
}

/// `"a", "b" or "c"`.
pub(super) fn alternatives(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

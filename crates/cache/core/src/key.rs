//! Keys of stored responses: the target URI, so written that equal resources have equal keys (RFC
//! 3986, section 6.2.2; RFC 9110, section 4.2.3).
//!
//! The origin must be asked for the URI of the key: one that tells equal URIs apart could otherwise
//! be made to answer for another resource.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::Uri;
use http::uri::Scheme;

/// How queries count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryRules {
    /// Parameters that count. None if all do.
    pub allowed: Option<BTreeSet<String>>,
    /// Whether the order of different parameters makes no difference.
    pub is_sorted: bool,
}

/// The key of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey(Box<str>);

impl CacheKey {
    /// Of an absolute URI. None if it lacks its scheme or host.
    pub fn of(uri: &Uri, rules: &QueryRules) -> Option<Self> {
        let scheme = uri.scheme()?;
        let mut key = format!("{scheme}://{}", uri.host()?.to_ascii_lowercase());
        let default = if *scheme == Scheme::HTTPS { 443 } else { 80 };
        if let Some(port) = uri.port_u16().filter(|port| *port != default) {
            let _infallible = write!(key, ":{port}");
        }
        key += &without_dots(&normal_escapes(uri.path()));
        if let Some(query) = uri.query().and_then(|query| normal_query(query, rules)) {
            key.push('?');
            key += &query;
        }
        Some(Self(key.into()))
    }

    /// The normalised URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Escapes of letters, digits, `-`, `.`, `_` and `~` undone, the others in capitals. A text with a
/// malformed escape stays as it is.
fn normal_escapes(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split('%');
    let mut normal = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let hex = piece.get(..2).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
            return text.into();
        };
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            normal.push(char::from(byte));
        } else {
            let _infallible = write!(normal, "%{byte:02X}");
        }
        normal += &piece[2..];
    }
    normal.into()
}

/// Without `.` and `..` segments (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." if is_last => kept.push(""),
            "." => (),
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// None if no parameter counts. An empty query is one of its own unless parameters are chosen.
fn normal_query(query: &str, rules: &QueryRules) -> Option<String> {
    let normal = normal_escapes(query);
    let name = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_owned();
    let mut parameters: Vec<&str> = normal.split('&').collect();
    if let Some(allowed) = &rules.allowed {
        parameters.retain(|parameter| allowed.contains(&name(parameter)));
        if parameters.is_empty() {
            return None;
        }
    }
    if rules.is_sorted {
        // The order of equal names may matter, and stays.
        parameters.sort_by_key(|parameter| name(parameter));
    }
    Some(parameters.join("&"))
}

#[cfg(test)]
mod tests;

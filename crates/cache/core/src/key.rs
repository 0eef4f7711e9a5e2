//! Keys of stored responses: the target URI, so written that equal resources have equal keys (RFC
//! 3986, section 6.2.2; RFC 9110, section 4.2.3).
//!
//! The origin must be asked for the URI of the key: one that tells equal URIs apart could otherwise
//! be made to answer for another resource.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use http::Uri;

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

/// The target URI of a request, in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetUri<'u> {
    /// `http` or `https`.
    pub scheme: &'u str,
    /// Host, and perhaps a port.
    pub authority: &'u str,
    /// Begins with a slash, or is empty.
    pub path: &'u str,
    /// Without its question mark. None if the URI has no query.
    pub query: Option<&'u str>,
}

impl<'u> TargetUri<'u> {
    /// Of an absolute URI. None if it lacks its scheme or host.
    pub fn of(uri: &'u Uri) -> Option<Self> {
        let authority = uri.authority()?.as_str();
        Some(Self { scheme: uri.scheme_str()?, authority, path: uri.path(), query: uri.query() })
    }

    /// The host alone: the authority without user information and port.
    pub fn host(&self) -> &'u str {
        self.host_and_port().0
    }

    fn host_and_port(&self) -> (&'u str, Option<&'u str>) {
        let user_end = self.authority.bytes().rposition(|byte| byte == b'@');
        let authority = &self.authority[user_end.map_or(0, |at| at + 1)..];
        // The colons of an address are between brackets.
        let end = authority.bytes().rposition(|byte| matches!(byte, b':' | b']'));
        match end.filter(|at| authority.as_bytes()[*at] == b':') {
            Some(colon) => (&authority[..colon], Some(&authority[colon + 1..])),
            None => (authority, None),
        }
    }

    /// Appends the key. Most URIs have nothing to normalise, and are copied. Returns false for a URI
    /// without a host, or with a malformed port.
    pub fn write_key(&self, rules: &QueryRules, key: &mut String) -> bool {
        let (host, port) = self.host_and_port();
        let default = if self.scheme == "https" { 443 } else { 80 };
        let port = port.filter(|port| !port.is_empty()).map(str::parse::<u16>).transpose();
        let Ok(port) = port else { return false };
        if host.is_empty() {
            return false;
        }
        key.push_str(self.scheme);
        key.push_str("://");
        match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => key.push_str(&host.to_ascii_lowercase()),
            false => key.push_str(host),
        }
        if let Some(port) = port.filter(|port| *port != default) {
            key.push(':');
            key.push_str(itoa::Buffer::new().format(port));
        }
        match self.path {
            path if !is_normal_path(path) => {
                key.push_str(&normal_path(path));
            }
            "" => key.push('/'),
            path => key.push_str(path),
        }
        if let Some(query) = self.query {
            let is_normal = rules.allowed.is_none() && !rules.is_sorted && !query.contains('%');
            let normal = match is_normal {
                true => Some(Cow::Borrowed(query)),
                false => normal_query(query, rules).map(Cow::Owned),
            };
            if let Some(query) = normal {
                key.push('?');
                key.push_str(&query);
            }
        }
        true
    }
}

impl CacheKey {
    /// Of an absolute URI. None if it lacks its scheme or host.
    pub fn of(uri: &Uri, rules: &QueryRules) -> Option<Self> {
        let mut key = String::new();
        TargetUri::of(uri)?.write_key(rules, &mut key).then(|| Self(key.into()))
    }

    /// Of a text that [`TargetUri::write_key`] wrote.
    pub fn written(key: &str) -> Self {
        Self(key.into())
    }

    /// The normalised URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host, and the port unless it is the scheme's own: the `Host` of a request to the origin.
    pub fn authority(&self) -> &str {
        self.split().0
    }

    /// Path and query, for which the origin is asked.
    pub fn target(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        let rest = self.0.split_once("://").map_or(&*self.0, |(_, rest)| rest);
        rest.split_at(rest.find('/').unwrap_or(rest.len()))
    }
}

/// Whether it has neither escapes nor segments that begin with a dot.
fn is_normal_path(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let is_normal = byte != b'%' && !(before == b'/' && byte == b'.');
        before = byte;
        is_normal
    })
}

/// Escapes of letters, digits, `-`, `.`, `_` and `~` undone, the others in capitals. A segment or
/// parameter with a malformed escape stays as it is.
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

/// With normal escapes, and without `.` and `..` segments (RFC 3986, section 5.2.4).
fn normal_path(path: &str) -> String {
    let mut kept: Vec<Cow<'_, str>> = Vec::new();
    let segments = path.strip_prefix('/').unwrap_or(path).split('/').map(normal_escapes);
    let mut segments = segments.peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match &*segment {
            "." if is_last => kept.push("".into()),
            "." => (),
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("".into());
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// None if no parameter counts. An empty query is one of its own unless parameters are chosen.
fn normal_query(query: &str, rules: &QueryRules) -> Option<String> {
    let name = |parameter: &str| parameter.split('=').next().unwrap_or_default().to_owned();
    let mut parameters: Vec<Cow<'_, str>> = query.split('&').map(normal_escapes).collect();
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

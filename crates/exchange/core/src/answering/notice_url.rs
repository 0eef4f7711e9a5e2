//! Strict parser of notice URLs: refuses a URL that two parsers could read as two hosts. Addresses
//! are checked when a connection opens, not here.

use openrtb::string;
use strum::{IntoStaticStr, VariantArray};

use crate::auction::domains::is_within;
use crate::creatives::macros::MacroValues;
use crate::market::Dsp;

/// Longest URL of a notice, macros replaced.
pub const URL_BYTES_MAX: usize = 4096;

/// An absolute URL of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeTarget<'a> {
    /// Whether it is `https`.
    pub is_tls: bool,
    /// A name, or an IP address, without the brackets of IPv6.
    pub host: &'a str,
    /// 80 or 443 by default.
    pub port: u16,
    /// The rest after the authority, without a fragment: empty, or starting with `/` or `?`.
    pub path_and_query: &'a str,
}

impl<'a> NoticeTarget<'a> {
    /// Parses `http` and `https` URLs (RFC 3986) of printable ASCII. Refuses user information, a
    /// backslash (a slash to browsers), an empty port or port 0, and hosts with other characters
    /// than letters, digits, hyphens, underscores and dots, including percent-encoding.
    pub fn parse(url: &'a str) -> Option<Self> {
        // Without an early exit, the compiler checks many bytes at once.
        let is_bad = |byte: u8| !byte.is_ascii_graphic() || byte == b'\\';
        if url.len() > URL_BYTES_MAX || url.bytes().fold(false, |bad, byte| bad | is_bad(byte)) {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = scheme.eq_ignore_ascii_case("https");
        if !is_tls && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (host, port) = split_authority(authority)?;
        let default = if is_tls { 443 } else { 80 };
        Some(Self {
            is_tls,
            host,
            port: port.map_or(Some(default), parse_port)?,
            path_and_query: rest.split('#').next().unwrap_or_default(),
        })
    }

    /// Whether `hosts` declares the host: a domain with its subdomains, or an IP address as
    /// written.
    pub fn is_declared(&self, hosts: &[Box<str>]) -> bool {
        let bare = |declared: &str| {
            let inside = declared.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            inside.is_some_and(|inside| inside.eq_ignore_ascii_case(self.host))
        };
        let is_address = is_address(self.host);
        hosts.iter().any(|declared| {
            declared.eq_ignore_ascii_case(self.host)
                || bare(declared)
                || (!is_address && is_within(self.host, declared))
        })
    }
}

/// Why a notice is not sent. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum NotSent {
    /// The JSON string cannot be decoded.
    Unreadable,
    /// Not an unambiguous absolute HTTP URL, or longer than [`URL_BYTES_MAX`].
    BadUrl,
    /// The DSP has not declared the host.
    UndeclaredHost,
    /// An id is too long for a token.
    Unsealed,
}

units::labelled!(NotSent);

/// The notice URL `raw`, JSON text, with macros replaced. Its host is checked afterwards.
pub(crate) fn checked_url(
    dsp: &Dsp,
    raw: &str,
    values: &MacroValues<'_>,
) -> Result<String, NotSent> {
    let url = string(raw).ok_or(NotSent::Unreadable)?;
    if url.len() > URL_BYTES_MAX {
        return Err(NotSent::BadUrl); // Whatever the macros would insert.
    }
    let url = values.substitute(&url);
    let target = NoticeTarget::parse(&url).ok_or(NotSent::BadUrl)?;
    if target.is_declared(&dsp.notice_hosts) { Ok(url) } else { Err(NotSent::UndeclaredHost) }
}

fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let is_v6 = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        if !host.contains(':') || !host.bytes().all(is_v6) {
            return None;
        }
        return match rest {
            "" => Some((host, None)),
            rest => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_plain);
    (host.len() <= 253 && host.split('.').all(is_label)).then_some((host, port))
}

fn parse_port(port: &str) -> Option<u16> {
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    port.parse().ok().filter(|port| *port != 0)
}

/// Whether a resolver might take `host` for an address: it has a colon, or ends with a number in
/// any form (`127.1`, `0x7f000001`, `2130706433`).
fn is_address(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    host.contains(':')
        || last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").or(last.strip_prefix("0X")).is_some_and(is_hex)
}

#[cfg(test)]
mod tests;

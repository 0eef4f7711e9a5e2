//! Limits on request heads, and what is refused that RFC 9112 forbids and hyper accepts.

use hyper::Version;
use hyper::header::{HOST, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Limits on request heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes, including the request line.
    pub bytes_max: usize,
    /// Most header fields.
    pub fields_max: usize,
}

/// Why a request gets status 400 and its connection closes: the bytes after it cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedHead {
    /// RFC 9112, section 3.2.
    #[error("a request has exactly one host header; in HTTP/1.0 it may be absent")]
    HostCount,
    /// RFC 9110, section 7.2.
    #[error("the host header is a host with an optional port")]
    Host,
    /// RFC 9112, section 6.1: chunked, applied once, is the only supported coding.
    #[error("transfer-encoding is chunked, once, or absent")]
    TransferEncoding,
}

/// Checks a request head that hyper has parsed.
///
/// # Errors
/// The first [`MalformedHead`] that applies.
pub fn check_head(head: &Parts) -> Result<(), MalformedHead> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // HTTP/2 has the authority outside of the headers (RFC 9113, section 8.3.1).
        (None, _) if matches!(head.version, Version::HTTP_10 | Version::HTTP_2) => (),
        (None, _) | (_, Some(_)) => return Err(MalformedHead::HostCount),
        (Some(host), None) if !is_host(host.as_bytes()) => return Err(MalformedHead::Host),
        (Some(_), None) => (),
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err(MalformedHead::TransferEncoding),
    }
}

/// Whether a header's value is `uri-host [ ":" port ]`, or empty, as without an authority.
fn is_host(value: &[u8]) -> bool {
    value.is_empty()
        || is_plain_host(value)
        || Authority::try_from(value).is_ok_and(|authority| {
            let after = authority.as_str().strip_prefix(authority.host());
            let port = after.map(|after| after.strip_prefix(':').unwrap_or(after));
            port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

/// Whether it is a name of letters, digits, dots and hyphens, or an IPv4 address, with an optional
/// port: nearly every host is.
pub(crate) fn is_plain_host(value: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let end = value.iter().position(|byte| !is_of_name(byte)).unwrap_or(value.len());
    match value[end..] {
        _ if end == 0 => false,
        [] => true,
        [b':', ref port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

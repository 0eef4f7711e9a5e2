//! Which version of HTTP a connection speaks: by ALPN, or else by its first bytes. Pure.

use http2::frame::PREFACE;

use super::options::ServedVersions;

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// The version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionChoice {
    /// More bytes are needed.
    Undecided,
    Http1,
    Http2,
    /// None that is served: the connection closes.
    Neither,
}

/// The names that ALPN offers, the preferred one first.
pub(super) const fn protocols(served: ServedVersions) -> &'static [&'static [u8]] {
    match served {
        ServedVersions::Both => &[HTTP2, HTTP1],
        ServedVersions::Http1 => &[HTTP1],
        ServedVersions::Http2 => &[HTTP2],
    }
}

/// Chooses from the `first` bytes, and from the protocol that ALPN has chosen, if any.
pub(super) fn choose(
    served: ServedVersions,
    protocol: Option<&[u8]>,
    first: &[u8],
) -> VersionChoice {
    match protocol {
        Some(HTTP2) => return VersionChoice::Http2,
        Some(_) => return VersionChoice::Http1,
        None => (),
    }
    let length = first.len().min(PREFACE.len());
    let begins = first[..length] == PREFACE[..length];
    match served {
        ServedVersions::Http1 => VersionChoice::Http1,
        ServedVersions::Both | ServedVersions::Http2 if begins => match length == PREFACE.len() {
            true => VersionChoice::Http2,
            false => VersionChoice::Undecided,
        },
        ServedVersions::Both => VersionChoice::Http1,
        ServedVersions::Http2 => VersionChoice::Neither,
    }
}

#[cfg(test)]
mod tests;

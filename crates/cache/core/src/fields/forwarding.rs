//! What a proxy takes from a message and adds to it. Which caches it has passed: `Via` (RFC 9110,
//! section 7.6.3), and `CDN-Loop` against requests that go round in circles (RFC 8586).

pub mod connection;

use http::{HeaderMap, HeaderName, Version};

use crate::fields::lists::{Quoting, elements};

/// `CDN-Loop`.
pub static CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

/// The member to append to `Via`, for a message received by this version.
pub fn via_member(version: Version, name: &str) -> String {
    let protocol = match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2.0",
        Version::HTTP_3 => "3.0",
        _ => "1.1",
    };
    format!("{protocol} {name}")
}

/// How often a request has passed the cache of this id.
pub fn passes(request: &HeaderMap, id: &str) -> usize {
    let lines = request.get_all(&CDN_LOOP).iter();
    lines
        .map(|line| {
            elements(line.as_bytes(), Quoting::Escapes).filter(|member| is_id(member, id)).count()
        })
        .sum()
}

fn is_id(member: &[u8], id: &str) -> bool {
    let name = member.split(|byte| *byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(id.as_bytes())
}

#[cfg(test)]
mod tests;

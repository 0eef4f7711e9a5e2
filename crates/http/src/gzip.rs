//! gzip (RFC 1952) of what we send, and clients' preference for it (RFC 9110, section 12.5.3).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Compresses what `parts` writes, fast: a thread with other work waits for it.
pub fn gzip(parts: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(1024), Compression::fast());
    parts(&mut |part| encoder.write_all(part).expect("memory takes all"));
    encoder.finish().expect("memory takes all")
}

/// Whether the client prefers gzip. Ignores an unreadable preference.
pub fn prefers_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    let lines = headers.get_all(ACCEPT_ENCODING).iter();
    for element in lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')) {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let weight = match (parts.next(), parts.next()) {
            (None, _) => Some(1000),
            (Some(weight), None) => thousandths(weight),
            (Some(_), Some(_)) => None,
        };
        let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        if is("gzip") || is("x-gzip") {
            gzip = weight.or(Some(0));
        } else if is("identity") {
            identity = weight;
        } else if is("*") {
            any = weight;
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    // Without `identity` or `*`, an uncompressed answer is acceptable but not preferred.
    gzip > 0 && gzip >= identity.or(any).unwrap_or(0)
}

/// Reads `q=0.5`, with at most three decimal places, as 500.
fn thousandths(weight: &[u8]) -> Option<u16> {
    let (name, value) = weight.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, decimals) = value.split_first()?;
    let digits = match decimals.split_first() {
        None => &[],
        Some((b'.', digits)) => digits,
        Some(_) => return None,
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let place = |at: usize| u16::from(digits.get(at).map_or(0, |digit| digit - b'0'));
    let decimals = place(0) * 100 + place(1) * 10 + place(2);
    match whole {
        b'0' => Some(decimals),
        b'1' if decimals == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! Domains in normal form, and sets of domains that include subdomains.

use std::borrow::Cow;

use super::steps::Steps;

/// Longest host name (RFC 1035).
const DOMAIN_BYTES_MAX: usize = 253;

/// Longest text parsed as a domain: a Unicode name with scheme and port.
const TEXT_BYTES_MAX: usize = 1024;

/// The normal form of a domain or URL: `ford.com` for `https://www.Ford.com./x`.
///
/// Drops surrounding white space, scheme, user information, port, path, final dots, initial dots
/// and asterisks, and an initial `www.` before a name with a dot. Lower-cases ASCII and
/// converts other characters by IDNA (UTS 46). Text that is not a domain is unchanged.
pub(crate) fn normal_domain(text: &str) -> Cow<'_, str> {
    let is_normal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || is_mark(byte);
    if text.bytes().all(is_normal) {
        return Cow::Borrowed(without_start(text.trim_end_matches('.')));
    }
    let host = host_of(text.trim());
    if host.is_ascii() {
        let mut small = host.to_ascii_lowercase();
        small.drain(..small.len() - without_start(&small).len());
        return Cow::Owned(small);
    }
    let ascii = Some(host).filter(|host| host.len() <= TEXT_BYTES_MAX);
    let ascii = ascii.and_then(|host| idna::domain_to_ascii_cow(host.as_bytes(), DENIED).ok());
    match ascii {
        Some(ascii) => Cow::Owned(without_start(ascii.trim_end_matches('.')).to_owned()),
        None => Cow::Owned(host.to_lowercase()),
    }
}

/// Denies no ASCII character: an underscore is harmless.
const DENIED: idna::AsciiDenyList = idna::AsciiDenyList::EMPTY;

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'.' | b'-' | b'_')
}

/// Turns `*.ford.com`, `.ford.com` and `www.ford.com` into `ford.com`, but not `www.com`.
fn without_start(domain: &str) -> &str {
    let domain = domain.trim_start_matches(['*', '.']);
    domain.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(domain)
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("//").filter(|(scheme, _)| is_scheme(scheme));
    let rest = rest.map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    host.trim().trim_end_matches('.')
}

/// Whether `text` is empty, or a name and a colon (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.is_empty() || text.strip_suffix(':').is_some_and(|name| name.bytes().all(is_part))
}

pub(crate) fn is_within(domain: &str, parent: &str) -> bool {
    let (domain, parent) = (domain.as_bytes(), parent.as_bytes());
    let Some(start) = domain.len().checked_sub(parent.len()) else { return false };
    !parent.is_empty()
        && domain[start..].eq_ignore_ascii_case(parent)
        && (start == 0 || domain[start - 1] == b'.')
}

/// `domain`, in normal form, and its parents; skips names longer than 253 bytes.
pub(crate) fn suffixes(domain: &str) -> impl Iterator<Item = &str> + Clone {
    let dots = domain.bytes().enumerate().filter(|(_, byte)| *byte == b'.');
    let rest = dots.map(|(at, _)| &domain[at + 1..]);
    let is_name = |suffix: &&str| (1..=DOMAIN_BYTES_MAX).contains(&suffix.len());
    std::iter::once(domain).chain(rest).filter(is_name)
}

/// Domains with all their subdomains, in one buffer: reversed and sorted, so that one search
/// suffices.
#[derive(Debug, Default)]
pub(crate) struct DomainSet {
    bytes: Vec<u8>,
    /// The end of each, where the next begins. No domain contains another.
    ends: Vec<u32>,
}

impl DomainSet {
    pub(crate) fn new<'t>(texts: impl ExactSizeIterator<Item = &'t str>, steps: &Steps) -> Self {
        steps.add_sort(texts.len());
        let mut bytes = Vec::with_capacity(texts.len() * 16);
        let mut spans = Vec::with_capacity(texts.len());
        for text in texts {
            steps.add_text(text);
            let domain = normal_domain(text);
            if (1..=DOMAIN_BYTES_MAX).contains(&domain.len()) {
                let start = bytes.len();
                bytes.extend(backwards(&domain));
                spans.push(start..bytes.len());
            }
        }
        spans.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
        let mut set = Self { bytes: Vec::with_capacity(bytes.len()), ends: Vec::new() };
        for span in spans {
            let domain = &bytes[span];
            if !set.ends.len().checked_sub(1).is_some_and(|last| starts(set.at(last), domain)) {
                set.bytes.extend_from_slice(domain);
                set.ends.push(u32::try_from(set.bytes.len()).expect("a request is below 4 GiB"));
            }
        }
        set
    }

    pub(crate) fn has(&self, text: &str, steps: &Steps) -> bool {
        steps.add_text(text);
        steps.add_search(self.ends.len());
        let domain = normal_domain(text);
        // Longer text is not a name; its end decides the set membership.
        let mut buffer = [0; DOMAIN_BYTES_MAX + 1];
        let length = domain.len().min(buffer.len());
        for (own, byte) in buffer.iter_mut().zip(backwards(&domain)) {
            *own = byte;
        }
        let key = &buffer[..length];
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.at(middle) <= key { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).is_some_and(|last| starts(self.at(last), key))
    }

    fn at(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[index] as usize]
    }
}

/// The bytes of a domain in reverse. A dot sorts first, so only subdomains follow directly.
fn backwards(domain: &str) -> impl Iterator<Item = u8> {
    domain.bytes().rev().map(|byte| if byte == b'.' { 0 } else { byte })
}

fn starts(parent: &[u8], domain: &[u8]) -> bool {
    domain.strip_prefix(parent).is_some_and(|rest| matches!(rest, [] | [0, ..]))
}

#[cfg(test)]
mod tests;

//! Finds the beacons in answers, and chooses which to call. Knows URLs, and neither bids nor
//! markup.

use memchr::memmem;

use crate::draws::{Draws, PPM};

/// Separates this draw from all others of a request.
const SEED: u64 = 0x4245_4143;

/// The URLs in answers that are called, as by a browser that shows the ads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacons {
    /// `http://host/path/`: a URL with this prefix is a beacon. The target is called, whatever the
    /// host.
    pub prefix: String,
    /// Share of answers with bids whose beacons are called, in parts per million.
    pub share_ppm: u32,
}

impl Beacons {
    /// The problem of these options. None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_prefix = self.path().is_some_and(|path| path.ends_with('/'));
        if !is_prefix || !self.prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some("beacons given as http://host/path/, with a slash at the end");
        }
        (self.share_ppm > PPM).then_some("a share of beacons up to 1,000,000 parts per million")
    }

    /// The prefix from its path on.
    fn path(&self) -> Option<&str> {
        let (scheme, rest) = self.prefix.split_once("://")?;
        let is_known = matches!(scheme, "http" | "https");
        rest.find('/').filter(|host| is_known && *host > 0).map(|start| &rest[start..])
    }

    /// Paths to call for the answer to the request `id`. None are returned for answers outside the
    /// share.
    pub(super) fn due(&self, id: &str, answer: &[u8]) -> Vec<String> {
        let Some(path) = self.path() else { return Vec::new() };
        if !Draws::keyed(SEED, id.as_bytes()).happens(self.share_ppm) {
            return Vec::new();
        }
        let rest_of = |start: usize| {
            // What needs no encoding in a URL (RFC 3986, 2.3) needs no escape in JSON either.
            let is_unreserved =
                |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._~".contains(*byte);
            let rest = answer[start + self.prefix.len()..].iter().take_while(is_unreserved);
            rest.map(|byte| char::from(*byte)).collect::<String>()
        };
        memmem::find_iter(answer, &self.prefix)
            .map(|start| format!("{path}{}", rest_of(start)))
            .collect()
    }
}

#[cfg(test)]
mod tests;

//! `Surrogate-Key`: names that an origin gives a response, by which operators purge it. No standard
//! has it; the form is that of the caches that have: names, separated by spaces.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The field. It is for caches alone, and clients do not get it.
pub static SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");

/// Longest key of a purge, in bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// The names of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurrogateKeys(Box<[u8]>);

impl SurrogateKeys {
    /// Of a response's header fields.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines: Vec<_> =
            headers.get_all(&SURROGATE_KEY).iter().map(HeaderValue::as_bytes).collect();
        Self(lines.join(&b' ').into())
    }

    /// Of names that spaces separate.
    pub fn listed(names: &[u8]) -> Self {
        Self(names.into())
    }

    /// The names, separated by spaces.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names, in the origin's order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| matches!(byte, b' ' | b'\t')).filter(|name| !name.is_empty())
    }

    /// Whether the response has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|own| own == name.as_bytes())
    }

    /// What they occupy.
    pub const fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Whether a text can be the name of a response.
pub fn is_surrogate_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() || byte >= 0x80;
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests;

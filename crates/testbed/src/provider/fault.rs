//! Answers of a provider that are no records.

use crate::server::ContentFault;

/// Nested deeper than any parser should follow.
const DEPTH: usize = 100_000;

/// What is wrong with the body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderFault {
    /// A page for people.
    Html,
    /// A message instead of records.
    Message,
    /// Text that is not UTF-8.
    Latin1,
    /// The first half of the body, with its own length.
    Truncated,
    /// Lists within lists.
    Deep,
}

impl ContentFault for ProviderFault {
    fn problem(&self) -> Option<&'static str> {
        None
    }
}

impl ProviderFault {
    /// The body instead of a good one.
    pub(super) fn body(self, good: &[u8]) -> Vec<u8> {
        match self {
            Self::Html => {
                b"<!DOCTYPE html><title>Sorry</title><p>We are down for maintenance.".to_vec()
            }
            Self::Message => b"{\"error\": \"database is locked\"}".to_vec(),
            Self::Latin1 => b"[{\"name\": \"caf\xe9\"}]".to_vec(),
            Self::Truncated => good[..good.len() / 2].to_vec(),
            Self::Deep => b"[".repeat(DEPTH),
        }
    }
}

//! `Cache-Control` of requests and responses, and the targeted fields of responses, as values.
//!
//! Where a text is malformed, the meaning that stores and reuses less holds.

mod directives;
mod request;
mod response;
mod targeted;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName};

pub use request::{MaxStale, RequestControl};
use response::ControlReader;
pub use response::{FieldScope, ResponseControl};

use directives::each_of;

impl ResponseControl {
    /// Reads a response's: the first of the targeted fields that is a sound, non-empty dictionary,
    /// else `Cache-Control`.
    pub fn of(headers: &HeaderMap, targets: &[HeaderName]) -> Self {
        let targeted = targets.iter().find_map(|target| targeted::read(headers, target));
        targeted.unwrap_or_else(|| {
            let mut reader = ControlReader::default();
            each_of(headers, CACHE_CONTROL, |directive| reader.take(&directive));
            reader.finish()
        })
    }
}

#[cfg(test)]
mod tests;

//! What a request asks of caches.

use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};

use super::directives::{Argument, DELTA_MAX, Directive, delta, each_of, set_first};
use crate::fields::dates::Seconds;

/// The directives of a request (RFC 9111, section 5.2.1; RFC 5861, section 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// The greatest age that the client accepts.
    pub max_age: Option<Seconds>,
    /// How stale a response may be.
    pub max_stale: Option<MaxStale>,
    /// For how long a response must still be fresh.
    pub min_fresh: Option<Seconds>,
    /// Only a validated response will do.
    pub no_cache: bool,
    /// Neither the request nor its response may be stored.
    pub no_store: bool,
    /// Only a stored response will do.
    pub only_if_cached: bool,
    /// How stale a response may be if the origin fails.
    pub stale_if_error: Option<Seconds>,
}

/// How stale a response a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxStale {
    /// However stale.
    Any,
    /// For this long after it was fresh.
    For(Seconds),
}

impl RequestControl {
    /// Reads a request's. `Pragma: no-cache` counts where there is no `Cache-Control` (RFC 9111,
    /// section 5.4).
    pub fn of(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        each_of(headers, CACHE_CONTROL, |directive| control.take(&directive));
        if !headers.contains_key(CACHE_CONTROL) {
            each_of(headers, PRAGMA, |directive| {
                control.no_cache |= directive.is("no-cache");
            });
        }
        control
    }

    fn take(&mut self, directive: &Directive<'_>) {
        let argument = &directive.argument;
        let whole = Seconds(DELTA_MAX);
        if directive.is("max-age") {
            set_first(&mut self.max_age, delta(argument).unwrap_or_default());
        } else if directive.is("min-fresh") {
            set_first(&mut self.min_fresh, delta(argument).unwrap_or(whole));
        } else if directive.is("stale-if-error") {
            set_first(&mut self.stale_if_error, delta(argument).unwrap_or_default());
        } else if directive.is("max-stale") {
            let accepts = match argument {
                Argument::Absent => MaxStale::Any,
                _ => MaxStale::For(delta(argument).unwrap_or_default()),
            };
            self.max_stale.get_or_insert(accepts);
        }
        self.no_cache |= directive.is("no-cache");
        self.no_store |= directive.is("no-store");
        self.only_if_cached |= directive.is("only-if-cached");
    }
}

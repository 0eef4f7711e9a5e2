//! For how long a response is fresh, and how old it is (RFC 9111, section 4.2).

use http::header::{AGE, DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::fields::dates::{Seconds, UnixSeconds, parse_date};
use crate::rules::control::ResponseControl;

/// Rules where a response says nothing of its freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeuristicFreshness {
    /// The share of the time since the last modification, as its divisor (section 4.2.2).
    pub divisor: u64,
    /// The longest lifetime that is assumed.
    pub longest: Seconds,
}

impl Default for HeuristicFreshness {
    fn default() -> Self {
        Self { divisor: 10, longest: Seconds(24 * 60 * 60) }
    }
}

/// When a response was asked for and received, by our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimes {
    /// When the request was sent.
    pub requested: UnixSeconds,
    /// When the head of the response was received.
    pub received: UnixSeconds,
}

/// The age of a stored response, as far as it does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialAge {
    /// `corrected_initial_age`.
    pub age: Seconds,
    /// When it had that age.
    pub at: UnixSeconds,
}

/// Whether a response of this status may be fresh although it does not say so (RFC 9110, section
/// 15.1).
pub const fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// When the origin made the response: `Date`, or its receipt if that is missing or no date.
pub fn origin_date(headers: &HeaderMap, times: ExchangeTimes) -> UnixSeconds {
    date(headers, DATE, times.received).unwrap_or(times.received)
}

/// The lifetime of a response, from its generation on (section 4.2.1).
pub fn lifetime(
    status: StatusCode,
    headers: &HeaderMap,
    control: &ResponseControl,
    times: ExchangeTimes,
    heuristic: HeuristicFreshness,
) -> Seconds {
    if let Some(explicit) = explicit_lifetime(headers, control, times) {
        return explicit;
    }
    if !control.public && !is_heuristically_cacheable(status) {
        return Seconds(0);
    }
    let Some(modified) = date(headers, LAST_MODIFIED, times.received) else { return Seconds(0) };
    let unmodified = origin_date(headers, times).since(modified);
    let share = unmodified.0.checked_div(heuristic.divisor).unwrap_or(0);
    Seconds(share).min(heuristic.longest)
}

/// The lifetime that the response gives. None if it gives none.
pub fn explicit_lifetime(
    headers: &HeaderMap,
    control: &ResponseControl,
    times: ExchangeTimes,
) -> Option<Seconds> {
    if control.max_age.is_some() || control.is_targeted {
        return control.max_age;
    }
    headers.contains_key(EXPIRES).then(|| {
        // What is no date is past, `0` above all (section 5.3).
        let expires = date(headers, EXPIRES, times.received);
        expires.map_or(Seconds(0), |expires| expires.since(origin_date(headers, times)))
    })
}

/// The age of a response at its receipt (section 4.2.3).
pub fn initial_age(headers: &HeaderMap, times: ExchangeTimes) -> InitialAge {
    let apparent = times.received.since(origin_date(headers, times));
    let delay = times.received.since(times.requested);
    let corrected = age_value(headers).plus(delay);
    InitialAge { age: apparent.max(corrected), at: times.received }
}

impl InitialAge {
    /// The age by now: `current_age`.
    pub const fn current(self, now: UnixSeconds) -> Seconds {
        self.age.plus(now.since(self.at))
    }
}

/// The first `Age` of a list; an invalid one is ignored (section 5.1).
fn age_value(headers: &HeaderMap) -> Seconds {
    let first = headers.get(AGE).and_then(|line| line.to_str().ok());
    let first = first.and_then(|line| line.split(',').next()).unwrap_or_default();
    let text = first.trim_matches([' ', '\t']);
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Seconds(0);
    }
    // One that does not fit is very old.
    Seconds(text.parse().unwrap_or(u64::from(u32::MAX)))
}

/// The first line of a field, as a date.
fn date(headers: &HeaderMap, name: HeaderName, now: UnixSeconds) -> Option<UnixSeconds> {
    parse_date(headers.get(name)?.to_str().ok()?, now)
}

#[cfg(test)]
mod tests;

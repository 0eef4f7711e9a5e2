//! Amounts and times, as the demos write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A fixed-point number with this many places, to the thousandth.
pub(super) fn decimal(number: u64, places: u32) -> String {
    let one = 10_u64.pow(places);
    format!("{}.{:03}", number / one, number % one / (one / 1000))
}

/// A moment, to the second.
pub(super) fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(|at| at.to_string()).unwrap_or_default()
}

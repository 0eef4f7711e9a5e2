//! Formats times for people (RFC 3339), in UTC.

use std::time::SystemTime;

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// `moment` to the millisecond, as in `2024-02-29T12:00:00.000Z`, within the years 1970 to 9999.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
    format!("{:.3}Z", EPOCH.saturating_add(since))
}

#[cfg(test)]
mod tests;

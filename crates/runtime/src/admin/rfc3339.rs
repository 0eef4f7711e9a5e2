//! Moments as people read them (RFC 3339), in UTC.

use std::time::SystemTime;

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// `moment` to the millisecond, as in `2024-02-29T12:00:00.000Z`. One before 1970 is shown as the
/// first of that year, and one after 9999 as the last of that: no clock of ours shows them.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
    format!("{:.3}Z", EPOCH.saturating_add(since))
}

#[cfg(test)]
mod tests;

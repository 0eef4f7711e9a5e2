//! Partitions by hour of UTC, and their folder names.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde::{Deserialize, Serialize};

const HOUR_US: u64 = 3_600_000_000;
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// 9999-12-31T23: up to here names sort by time.
const LAST: u32 = 70_389_527;

/// Prefix of the folders' names, which readers of partitions turn into a column.
pub(crate) const PREFIX: &str = "hour=";

/// Hours since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub(crate) struct HourPartition(u32);

impl HourPartition {
    /// The hour of a time. Times after the year 9999 go to its last hour, so that a wrong clock
    /// does not stop an export.
    pub(crate) fn of_unix_us(moment_us: u64) -> Self {
        Self(u32::try_from(moment_us / HOUR_US).map_or(LAST, |hour| hour.min(LAST)))
    }

    /// Its folder, such as `hour=2026-11-22T08`.
    pub(crate) fn folder(self) -> String {
        let hour = EPOCH.saturating_add(SignedDuration::from_hours(self.0.into()));
        format!("{PREFIX}{}", hour.strftime("%Y-%m-%dT%H"))
    }
}

impl TryFrom<u32> for HourPartition {
    type Error = String;

    fn try_from(hour: u32) -> Result<Self, Self::Error> {
        if hour > LAST {
            Err(format!("hour {hour} is beyond the year 9999"))
        } else {
            Ok(Self(hour))
        }
    }
}

impl From<HourPartition> for u32 {
    fn from(hour: HourPartition) -> Self {
        hour.0
    }
}

#[cfg(test)]
mod tests;

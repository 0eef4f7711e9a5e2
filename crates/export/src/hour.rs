//! The hour of UTC by which files are kept apart, and how its folder is called.
//!
//! Knows no clock: moments are arguments.

use serde::{Deserialize, Serialize};

const HOUR_US: u64 = 3_600_000_000;
const DAYS_OF_400_YEARS: u32 = 146_097;
/// 9999-12-31T23: names sort as their hours follow each other up to here.
const LAST: u32 = 70_389_527;

/// What the folders' names begin with; readers of partitions make a column of it.
pub(crate) const PREFIX: &str = "hour=";

/// Hours since the beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub(crate) struct Hour(u32);

impl Hour {
    /// In which a moment lies; what is beyond the year 9999 goes into its last hour, for a clock
    /// that is so far out must not stop an export.
    pub(crate) fn of_unix_us(moment_us: u64) -> Self {
        Self(u32::try_from(moment_us / HOUR_US).map_or(LAST, |hour| hour.min(LAST)))
    }

    /// Its folder, such as `hour=2026-11-22T08`.
    pub(crate) fn folder(self) -> String {
        let (year, month, day) = civil(self.0 / 24);
        format!("{PREFIX}{year:04}-{month:02}-{day:02}T{hour:02}", hour = self.0 % 24)
    }
}

impl TryFrom<u32> for Hour {
    type Error = String;

    fn try_from(hour: u32) -> Result<Self, Self::Error> {
        if hour > LAST {
            Err(format!("hour {hour} is beyond the year 9999"))
        } else {
            Ok(Self(hour))
        }
    }
}

impl From<Hour> for u32 {
    fn from(hour: Hour) -> Self {
        hour.0
    }
}

/// Year, month and day, the latter two from 1, of the day that many days after 1970-01-01.
fn civil(days: u32) -> (u32, u32, u32) {
    // Any 400 years that follow each other are of the same length.
    let mut year = 1970 + days / DAYS_OF_400_YEARS * 400;
    let mut rest = days % DAYS_OF_400_YEARS;
    while rest >= year_days(year) {
        rest -= year_days(year);
        year += 1;
    }
    let february = year_days(year) - 337;
    let mut month = 0;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        month += 1;
        if rest < days {
            break;
        }
        rest -= days;
    }
    (year, month, rest + 1)
}

fn year_days(year: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    365 + u32::from(is_leap)
}

#[cfg(test)]
mod tests;

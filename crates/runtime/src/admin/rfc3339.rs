//! Moments as people read them (RFC 3339), in UTC.

use std::time::{Duration, SystemTime};

const SECONDS_A_DAY: u64 = 86_400;

/// `moment` to the millisecond, as in `2024-02-29T12:00:00.000Z`. One before 1970 is shown as the
/// first of that year: no clock of ours shows it.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / SECONDS_A_DAY, since.as_secs() % SECONDS_A_DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let ms = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970 + days / DAYS_OF_400_YEARS * 400;
    days %= DAYS_OF_400_YEARS;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        (year, days) = (year + 1, days - length);
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        (month, days) = (month + 1, days - length);
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unix_ms: u64, want: &str) {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms)), want);
    }

    /// As `date -u --date=@SECONDS` has them.
    #[test]
    fn moments() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_709_208_000_007, "2024-02-29T12:00:00.007Z");
        check(1_767_225_599_000, "2025-12-31T23:59:59.000Z");
        check(1_767_225_600_000, "2026-01-01T00:00:00.000Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        check(13_574_563_200_000, "2400-02-29T00:00:00.000Z");
        check(13_574_649_600_000, "2400-03-01T00:00:00.000Z");
    }

    #[test]
    fn before_all_time() {
        let moment = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(rfc3339(moment), "1970-01-01T00:00:00.000Z");
    }
}

//! Hours of moments, and their names.

use super::*;

#[test]
fn folders_are_named_by_their_hour() {
    let check = |moment_us: u64, want: &str| {
        assert_eq!(Hour::of_unix_us(moment_us).folder(), want, "{moment_us}");
    };
    // By `date -u -d @…`.
    check(0, "hour=1970-01-01T00");
    check(HOUR_US - 1, "hour=1970-01-01T00");
    check(HOUR_US, "hour=1970-01-01T01");
    check(951_782_399_999_999, "hour=2000-02-28T23");
    check(951_782_400_000_000, "hour=2000-02-29T00");
    check(1_795_334_400_000_000, "hour=2026-11-22T08");
    check(4_107_542_399_999_999, "hour=2100-02-28T23");
    check(4_107_542_400_000_000, "hour=2100-03-01T00");
    check(253_402_300_799_999_999, "hour=9999-12-31T23");
    check(253_402_300_800_000_000, "hour=9999-12-31T23");
    check(u64::MAX, "hour=9999-12-31T23");
}

/// Every day until the year 9999, against a calendar that is turned day by day.
#[test]
fn days_follow_each_other_as_in_the_calendar() {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for days in 0..=LAST / 24 {
        assert_eq!(civil(days), (year, month, day), "day {days}");
        let length = match month {
            4 | 6 | 9 | 11 => 30,
            2 if year % 400 == 0 || year % 4 == 0 && year % 100 != 0 => 29,
            2 => 28,
            _ => 31,
        };
        day += 1;
        if day > length {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
    assert_eq!((year, month, day), (10_000, 1, 1));
}

#[test]
fn hours_beyond_the_last_are_not_read() {
    assert_eq!(serde_json::from_str::<Hour>("70389527").unwrap(), Hour(LAST));
    assert!(serde_json::from_str::<Hour>("70389528").is_err());
}

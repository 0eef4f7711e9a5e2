//! Hours of times, and their names.

use super::*;

#[test]
fn folders_are_named_by_their_hour() {
    let check = |moment_us: u64, want: &str| {
        assert_eq!(HourPartition::of_unix_us(moment_us).folder(), want, "{moment_us}");
    };
    // From `date -u -d @…`.
    check(0, "hour=1970-01-01T00");
    check(HOUR_US - 1, "hour=1970-01-01T00");
    check(HOUR_US, "hour=1970-01-01T01");
    check(951_782_399_999_999, "hour=2000-02-28T23");
    check(951_782_400_000_000, "hour=2000-02-29T00");
    check(951_868_800_000_000, "hour=2000-03-01T00");
    check(1_795_334_400_000_000, "hour=2026-11-22T08");
    check(4_107_542_399_999_999, "hour=2100-02-28T23");
    check(4_107_542_400_000_000, "hour=2100-03-01T00");
    check(253_402_300_799_999_999, "hour=9999-12-31T23");
    check(253_402_300_800_000_000, "hour=9999-12-31T23");
    check(u64::MAX, "hour=9999-12-31T23");
}

#[test]
fn hours_beyond_the_last_are_not_read() {
    assert_eq!(serde_json::from_str::<HourPartition>("70389527").unwrap(), HourPartition(LAST));
    assert!(serde_json::from_str::<HourPartition>("70389528").is_err());
}

//! RFC 3339 times.

use std::time::Duration;

use super::*;

#[track_caller]
fn check(unix_ms: u64, want: &str) {
    assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms)), want);
}

/// Expected values are from `date -u --date=@SECONDS`.
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
fn beyond_all_time() {
    check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
    check(253_402_300_800_000, "9999-12-31T23:59:59.999Z");
    check(u64::MAX, "9999-12-31T23:59:59.999Z");
    let moment = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(rfc3339(moment), "1970-01-01T00:00:00.000Z");
}

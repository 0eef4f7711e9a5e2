//! Times as text, both ways.

use super::*;

const NOW_US: u64 = 1_700_000_000_000_000;

#[track_caller]
fn within(text: &str, from: &str, length_us: u64) {
    let Some(ParsedTime::Within(range)) = ParsedTime::parse(text, NOW_US) else {
        panic!("`{text}` is no moment");
    };
    assert_eq!(UtcTime(range.start).to_string(), from, "{text}");
    assert_eq!(range.end - range.start, length_us, "{text}");
}

#[test]
fn moments_are_as_long_as_they_are_written() {
    within("2026-11-22", "2026-11-22T00:00:00.000Z", DAY_US);
    within("2024-02-29", "2024-02-29T00:00:00.000Z", DAY_US);
    within("1970-01-01", "1970-01-01T00:00:00.000Z", DAY_US);
    within("9999-12-31", "9999-12-31T00:00:00.000Z", DAY_US);
    within("2026-11-22T08:30", "2026-11-22T08:30:00.000Z", 60 * SECOND_US);
    within("2026-11-22 08:30", "2026-11-22T08:30:00.000Z", 60 * SECOND_US);
    within("2026-11-22T08:30:15", "2026-11-22T08:30:15.000Z", SECOND_US);
    within("2026-11-22T08:30:15Z", "2026-11-22T08:30:15.000Z", SECOND_US);
    within("2026-11-22T08:30:15.25Z", "2026-11-22T08:30:15.250Z", 10_000);
    within("2026-11-22T08:30:15.250001Z", "2026-11-22T08:30:15.250Z", 1);
    within("2026-11-22T01:30:15+02:00", "2026-11-21T23:30:15.000Z", SECOND_US);
    within("2026-11-22T23:30-01:30", "2026-11-23T01:00:00.000Z", 60 * SECOND_US);
    within("1795336215", "2026-11-22T08:30:15.000Z", SECOND_US);
    within("999999999", "2001-09-09T01:46:39.000Z", SECOND_US);
    within("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z", SECOND_US);
}

#[test]
fn how_long_ago() {
    for (text, seconds) in [("-0s", 0), ("-90s", 90), ("-15m", 900), ("-2h", 7200)] {
        let want = ParsedTime::Ago(NOW_US - seconds * SECOND_US);
        assert_eq!(ParsedTime::parse(text, NOW_US), Some(want), "{text}");
    }
    assert_eq!(ParsedTime::parse("-7d", NOW_US), Some(ParsedTime::Ago(NOW_US - 7 * DAY_US)));
    assert_eq!(ParsedTime::parse("-40000d", NOW_US), Some(ParsedTime::Ago(0)));
}

#[test]
fn what_is_no_moment() {
    for text in [
        "",
        "-",
        "-m",
        "-15",
        "-15w",
        "-1.5h",
        "--5m",
        "-99999999999999999999s",
        "-213503982334601d",
        "now",
        "2026",
        "2026-11",
        "2026-1-22",
        "2026/11/22",
        "2026-13-01",
        "2026-00-01",
        "2026-11-00",
        "2026-11-31",
        "2026-02-29",
        "1969-12-31",
        "2026-11-22T",
        "2026-11-22T8:30",
        "2026-11-22T24:00",
        "2026-11-22T08:60",
        "2026-11-22T08:30:61",
        "2026-11-22T08:30:15.",
        "2026-11-22T08:30:15.1234567",
        "2026-11-22T08:30:15,5",
        "2026-11-22T08:30Q",
        "2026-11-22T08:30+2",
        "2026-11-22T08:30+02:60",
        "2026-11-22T08:30+24:00",
        "2026-11-22T08:30+02:0é",
        "2026-11-2é",
        "2026-11-22T0é:30",
        "1970-01-01T00:00+02:00",
        "+026-11-22",
    ] {
        assert_eq!(ParsedTime::parse(text, NOW_US), None, "{text}");
    }
}

#[test]
fn hours_and_days() {
    let moment = UtcTime(1_709_208_000_007_000);
    assert_eq!(moment.to_string(), "2024-02-29T12:00:00.007Z");
    assert_eq!((moment.hour(), moment.day()), ("2024-02-29T12".into(), "2024-02-29".into()));
    assert_eq!(UtcTime(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
}

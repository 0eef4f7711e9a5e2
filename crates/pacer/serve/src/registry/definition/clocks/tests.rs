//! Times and zones as text, with the remedy for each mistake.

use super::*;

#[test]
fn zones() {
    for name in ["UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"] {
        assert!(zone(name).is_ok(), "{name}");
    }
    let check = |name: &str, meant: &str| {
        let remedy = zone(name).expect_err("an unknown zone");
        assert!(remedy.contains(&format!("\"{meant}\"")), "{name}: {remedy}");
    };
    check("America/NewYork", "America/New_York");
    check("Berlin", "Europe/Berlin");
    check("New York", "America/New_York");
    check("Mars/Olympus_Mons", "Europe/Berlin");
    assert!(zone(&"x".repeat(100_000)).is_err());
}

#[track_caller]
fn check(text: &str, at: &str, note: &str) {
    let new_york = zone("America/New_York").expect("a zone");
    let found = instant(text, &new_york).expect("an instant");
    let want: Timestamp = at.parse().expect("a timestamp");
    assert_eq!(i128::from(found.unix_ms), i128::from(want.as_millisecond()), "{text}");
    assert_eq!(found.note.unwrap_or_default(), note, "{text}");
}

#[test]
fn instants() {
    check("2026-11-02T00:00:00", "2026-11-02T05:00:00Z", "");
    check("2026-11-02", "2026-11-02T05:00:00Z", "");
    check("2026-11-02T00:00:00Z", "2026-11-02T00:00:00Z", "");
    check("2026-11-02T00:00:00+05:45", "2026-11-01T18:15:00Z", "");
    check(
        "2026-03-08T02:30:00",
        "2026-03-08T07:30:00Z",
        "2026-03-08T02:30:00 is skipped by the account's clocks: 2026-03-08T03:30:00-04:00 is taken",
    );
    check(
        "2026-11-01T01:30:00",
        "2026-11-01T05:30:00Z",
        "2026-11-01T01:30:00 comes twice on the account's clocks: the first, \
             2026-11-01T01:30:00-04:00, is taken",
    );
}

#[test]
fn no_instants() {
    for text in ["", "soon", "2026-13-01T00:00:00", "1969-01-01", "2026-01-01T00:00[UTC]"] {
        assert!(instant(text, &TimeZone::UTC).is_err(), "{text}");
    }
}

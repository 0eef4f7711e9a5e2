//! What is learned of traffic, and what is ignored.

use super::super::week::HOURS;
use super::*;

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

/// Monday, 30 March 2026, midnight UTC.
const MONDAY_MS: u64 = 1_774_828_800_000;

/// Hours from Monday on, minute by minute, with `rate` requests a minute in each.
fn learned(hours: std::ops::Range<u64>, rate: impl Fn(u64) -> u64) -> Learner {
    let mut learner = Learner::default();
    let mut requests = 1_000;
    learner.learn(&ZoneOffsets::utc(), MONDAY_MS + hours.start * HOUR_MS, requests);
    for minute in hours.start * 60..hours.end * 60 {
        requests += rate(minute / 60);
        learner.learn(&ZoneOffsets::utc(), MONDAY_MS + (minute + 1) * MINUTE_MS, requests);
    }
    learner
}

/// The weight of an hour, relative to a million for the busiest.
fn weight(learner: &Learner, hour: usize) -> u64 {
    let week = learner.week();
    let most = (0..HOURS).map(|hour| week.weight(hour)).max().expect("a week has hours");
    (week.weight(hour) * 1_000_000 + most / 2) / most
}

#[test]
fn hours_weigh_what_came_in_them() {
    let learner = learned(0..168, |hour| 10 + 10 * (hour % 24 / 12) + 20 * (hour / 144));
    for (hour, want) in
        [(0, 250_000), (12, 500_000), (143, 500_000), (144, 750_000), (167, 1_000_000)]
    {
        assert!(weight(&learner, hour).abs_diff(want) <= 2, "{hour}: {}", weight(&learner, hour));
    }
}

#[test]
fn what_has_not_been_seen_is_like_other_days_or_like_any_hour() {
    assert_eq!(Learner::default().week(), Week::weighted(&[1 << 20; HOURS]));
    let learner = learned(0..12, |hour| if hour < 6 { 10 } else { 30 });
    for (hour, want) in
        [(0, 333_333), (11, 1_000_000), (24, 333_333), (35, 1_000_000), (12, 666_666)]
    {
        assert!(weight(&learner, hour).abs_diff(want) <= 2, "{hour}: {}", weight(&learner, hour));
    }
    // An hour without traffic counts as seen, and is not closed.
    let learner = learned(0..2, |hour| 10 * hour);
    assert_eq!(learner.week().weight(0), 1);
}

#[test]
fn the_latest_week_counts_most() {
    let learner = learned(0..4 * 168, |hour| match (hour % 168, hour / 168) {
        (0, 0) => 160,
        (0, week) => 80 / week,
        _ => 100,
    });
    // Requests 160, 80, 40 and 26 a minute: halved each week, 86 in 1.875 hours.
    assert!(weight(&learner, 0).abs_diff(458_667) <= 10, "{}", weight(&learner, 0));
}

#[test]
fn what_comes_twice_or_late_changes_nothing_before() {
    let once = learned(0..3, |_| 10);
    let mut twice = once.clone();
    let end_ms = MONDAY_MS + 3 * HOUR_MS;
    for (now_ms, requests) in [(end_ms, 2_800), (end_ms, 9_999), (end_ms - MINUTE_MS, 2_790)] {
        twice.learn(&ZoneOffsets::utc(), now_ms, requests);
        assert_eq!(twice, once);
    }
    // Earlier requests do not count as new.
    twice.learn(&ZoneOffsets::utc(), end_ms + MINUTE_MS, 2_000);
    assert_eq!(
        twice.hours[3],
        LearnedHour { requests: 0, seen_ms: MINUTE_MS, last_ms: end_ms + MINUTE_MS }
    );
    twice.learn(&ZoneOffsets::utc(), end_ms + 2 * MINUTE_MS, 2_811);
    assert_eq!(twice.hours[3].requests, 11);
}

#[test]
fn a_gap_teaches_nothing() {
    let mut learner = learned(0..1, |_| 10);
    let end_ms = MONDAY_MS + HOUR_MS;
    learner.learn(&ZoneOffsets::utc(), end_ms + HOUR_MS + 1, 1_000_000);
    assert_eq!(learner.hours[2], LearnedHour::default());
    learner.learn(&ZoneOffsets::utc(), end_ms + HOUR_MS + 1 + MINUTE_MS, 1_000_007);
    assert_eq!(learner.hours[2].requests, 7);
}

#[test]
fn the_greatest_counts_fit() {
    let mut learner = Learner::default();
    learner.learn(&ZoneOffsets::utc(), 0, 0);
    learner.learn(&ZoneOffsets::utc(), 1, u64::MAX);
    learner.learn(&ZoneOffsets::utc(), MINUTE_MS, u64::MAX);
    assert_eq!(learner.week().weight(72), 1 << 20);
}

#[test]
fn while_nobody_counts_nothing_is_taught() {
    let mut learner = learned(0..1, |_| 10);
    let end_ms = MONDAY_MS + HOUR_MS;
    learner.pause();
    // The first slot is only the starting point: its requests are not counted.
    learner.learn(&ZoneOffsets::utc(), end_ms + MINUTE_MS, 900_000);
    assert_eq!(learner.hours[1], LearnedHour::default());
    learner.learn(&ZoneOffsets::utc(), end_ms + 2 * MINUTE_MS, 900_003);
    assert_eq!((learner.hours[0].requests, learner.hours[1].requests), (600, 3));
}

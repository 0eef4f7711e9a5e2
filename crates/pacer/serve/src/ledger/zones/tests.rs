//! Calendars compared with the time zone library, over years of clock changes.

use faults::Chance;
use jiff::Timestamp;

use super::*;

/// 2012-01-01: until the November before, Newfoundland changed clocks a minute after midnight.
const FROM_MS: u64 = 1_325_376_000_000;
/// 2037-01-01.
const TO_MS: u64 = 2_114_380_800_000;

fn instant(text: &str) -> u64 {
    let at: Timestamp = text.parse().unwrap();
    at.as_millisecond().unsigned_abs()
}

fn check_at(zone: &TimeZone, calendar: &Calendar, unix_ms: u64) {
    let at = Timestamp::from_millisecond(i64::try_from(unix_ms).unwrap()).unwrap();
    let local = at.to_zoned(zone.clone());
    let hour = calendar.at(unix_ms).unwrap_or_else(|| panic!("{local} is not there"));
    let day = local.date().since(jiff::civil::date(1970, 1, 1)).unwrap().get_days();
    assert_eq!(hour.day, u32::try_from(day).unwrap(), "{local}");
    let weekday = local.weekday().to_monday_zero_offset();
    let of_week = i16::from(weekday) * 24 + i16::from(local.hour());
    assert_eq!(i16::from(hour.hour_of_week), of_week, "{local}");
    // An hour begins and ends where clocks show another one, or are set.
    for edge_ms in [hour.start_unix_ms, hour.end_unix_ms] {
        let moment = |ms: u64| {
            let at = Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            let local = at.to_zoned(zone.clone());
            (local.date(), local.hour(), local.offset())
        };
        assert_ne!(moment(edge_ms - 1), moment(edge_ms), "around {edge_ms} in {local}");
        assert_eq!(moment(hour.start_unix_ms), moment(hour.end_unix_ms - 1), "{local}");
    }
}

fn check(name: &str, chance: &mut Chance) {
    let zones = Zones::default();
    let id = zones.id(name).unwrap();
    let rules = zones.zone(id).unwrap().1;
    for _ in 0..60 {
        let from_ms = FROM_MS + chance.below(TO_MS - FROM_MS);
        let to_ms = from_ms + chance.below(44 * DAY_MS);
        let calendar = zones.calendar(id, from_ms, to_ms).unwrap();
        for _ in 0..40 {
            check_at(&rules, &calendar, from_ms + chance.below(to_ms - from_ms + 1));
        }
        check_at(&rules, &calendar, from_ms);
        check_at(&rules, &calendar, to_ms);
    }
    // Every change of the clocks, from both sides.
    let all = zones.calendar(id, FROM_MS, TO_MS).unwrap();
    let first = Timestamp::from_millisecond(i64::try_from(FROM_MS + DAY_MS).unwrap()).unwrap();
    for change in rules.following(first) {
        let at_ms = change.timestamp().as_millisecond().unsigned_abs();
        if at_ms + DAY_MS > TO_MS {
            break;
        }
        (0..12).for_each(|quarter| check_at(&rules, &all, at_ms + quarter * QUARTER_MS));
        check_at(&rules, &all, at_ms - 1);
    }
    // A calendar made on another day agrees.
    let later = zones.calendar(id, FROM_MS + 3 * DAY_MS, TO_MS).unwrap();
    assert!(all.agrees_until(&later, u64::MAX) && later.agrees_until(&all, u64::MAX), "{name}");
}

#[test]
fn calendars_say_what_the_zone_says() {
    let mut chance = Chance::new(7);
    for name in [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Asia/Kathmandu",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Australia/Eucla",
        "Pacific/Chatham",
        "Pacific/Apia",
        "America/St_Johns",
        "Africa/Casablanca",
        "America/Caracas",
        "Asia/Pyongyang",
        "Europe/Dublin",
        "Antarctica/Troll",
    ] {
        check(name, &mut chance);
    }
}

#[test]
fn every_zone_has_a_calendar_and_is_told_apart() {
    let zones = Zones::default();
    let names: Vec<_> = zones.known().database.available().map(|name| name.to_string()).collect();
    assert!(names.len() > 400, "{}", names.len());
    for name in names {
        let id = zones.id(&name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(zones.id(&name.to_ascii_lowercase()), Ok(id), "{name}");
        let from_ms = instant("2026-03-01T00:00:00Z");
        let calendar = zones.calendar(id, from_ms, from_ms + 43 * DAY_MS);
        calendar.unwrap_or_else(|error| panic!("{error}"));
        let rules = zones.zone(id).unwrap().1;
        let clocks = zones.clocks(id, from_ms).unwrap();
        for quarter in (0..4 * 24 * 365).step_by(2) {
            let at_ms = from_ms + quarter * QUARTER_MS;
            let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap()).unwrap();
            let ahead = i64::from(rules.to_offset(at).seconds()) * 1000;
            let want = hour(at_ms, at_ms, ahead).hour_of_week;
            assert_eq!(clocks.hour_of_week(at_ms), usize::from(want), "{name} at {at}");
        }
    }
}

#[test]
fn a_day_that_was_skipped_has_no_hours() {
    let zones = Zones::default();
    let id = zones.id("Pacific/Apia").unwrap();
    let (from, to) = (instant("2011-12-29T00:00:00Z"), instant("2012-01-01T12:00:00Z"));
    let calendar = zones.calendar(id, from, to).unwrap();
    let day_of = |text: &str| calendar.at(instant(text)).unwrap().day;
    // The 29th ended at 10:00 UTC, and the 31st began.
    let (last, next) = (day_of("2011-12-30T09:59:00Z"), day_of("2011-12-30T10:00:00Z"));
    assert_eq!(next, last + 2);
}

#[test]
fn an_unknown_zone_is_refused() {
    for name in ["Europe/Berlni", "", "Mars/Olympus_Mons"] {
        let refused = Zones::default().id(name);
        assert!(matches!(&refused, Err(ZoneError::Unknown(of)) if of == name), "{refused:?}");
    }
}

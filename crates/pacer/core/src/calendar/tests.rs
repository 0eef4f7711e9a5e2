//! Handwritten tables with clock changes, and every invalid table.

use super::{Calendar, CalendarError, CalendarHour, Period, QUARTER_MS, WEEK_HOURS};

/// 2026-03-29, when Berlin's clocks go from two to three.
const SPRING: u32 = 20_541;
/// 2026-10-25, when they go from three to two.
const AUTUMN: u32 = 20_751;
/// 2026-10-04, when Lord Howe's clocks go from two to half past two.
const LORD_HOWE_SPRING: u32 = 20_730;
/// 2026-04-05, when they go from two to half past one.
const LORD_HOWE_AUTUMN: u32 = 20_548;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The row of an hour that begins `quarters` from the UTC midnight of `day_utc`.
fn row(day_utc: u32, quarters: (i64, i64), day: u32, clock_hour: u8) -> CalendarHour {
    let midnight = i64::from(day_utc) * 96;
    let start = u64::try_from(midnight + quarters.0).expect("after 1970");
    let end = u64::try_from(midnight + quarters.1).expect("after 1970");
    let weekday = u8::try_from((day + 3) % 7).expect("a day of the week");
    CalendarHour {
        start_unix_ms: start * QUARTER_MS,
        end_unix_ms: end * QUARTER_MS,
        period: Period(u32::try_from(start).expect("before 2100")),
        day,
        hour_of_week: weekday * 24 + clock_hour,
    }
}

/// Whole hours in a zone without clock changes, `offset` quarters east.
pub(crate) fn steady(first_day: u32, days: u32, offset: i64) -> Calendar {
    let mut hours = Vec::new();
    for day in first_day..first_day + days {
        for hour in 0..24u8 {
            let start = i64::from(hour) * 4 - offset;
            hours.push(row(day, (start, start + 4), day, hour));
        }
    }
    Calendar::new(hours).expect("whole hours without a gap")
}

/// Berlin from the spring day's midnight to the next.
pub(crate) fn berlin_spring() -> Calendar {
    let mut hours = vec![row(SPRING, (-4, 0), SPRING, 0), row(SPRING, (0, 4), SPRING, 1)];
    hours.extend((3..24u8).map(|hour| {
        let start = (i64::from(hour) - 2) * 4;
        row(SPRING, (start, start + 4), SPRING, hour)
    }));
    hours.push(row(SPRING, (88, 92), SPRING + 1, 0));
    Calendar::new(hours).expect("a calendar")
}

/// Berlin from the autumn day's midnight to one o'clock of the next day.
pub(crate) fn berlin_autumn() -> Calendar {
    let mut hours = vec![
        row(AUTUMN, (-8, -4), AUTUMN, 0),
        row(AUTUMN, (-4, 0), AUTUMN, 1),
        row(AUTUMN, (0, 4), AUTUMN, 2),
        row(AUTUMN, (4, 8), AUTUMN, 2),
    ];
    hours.extend((3..24u8).map(|hour| {
        let start = (i64::from(hour) - 1) * 4;
        row(AUTUMN, (start, start + 4), AUTUMN, hour)
    }));
    hours.push(row(AUTUMN, (92, 96), AUTUMN + 1, 0));
    Calendar::new(hours).expect("a calendar")
}

/// Lord Howe from the spring day's midnight; the third hour has two quarters.
pub(crate) fn lord_howe_spring() -> Calendar {
    let day = LORD_HOWE_SPRING;
    let hours = [(54, 58), (58, 62), (62, 64), (64, 68)];
    let hours = (0u8..).zip(hours).map(|(at, quarters)| row(day - 1, quarters, day, at)).collect();
    Calendar::new(hours).expect("a calendar")
}

#[track_caller]
fn check(calendar: &Calendar, unix_ms: u64, want: (u32, u8)) {
    let hour = calendar.at(unix_ms).expect("within the table");
    assert_eq!((hour.day, hour.hour_of_week % 24), want, "at {unix_ms}");
    assert_eq!(calendar.of(hour.period), Some(hour));
}

fn day_of(calendar: &Calendar, day: u32) -> Vec<CalendarHour> {
    calendar.hours.iter().copied().filter(|hour| hour.day == day).collect()
}

#[test]
fn a_spring_day_has_23_hours() {
    let calendar = berlin_spring();
    let midnight = u64::from(SPRING) * DAY_MS;
    check(&calendar, midnight - 1, (SPRING, 0));
    check(&calendar, midnight + 4 * QUARTER_MS - 1, (SPRING, 1));
    check(&calendar, midnight + 4 * QUARTER_MS, (SPRING, 3));
    check(&calendar, midnight + 88 * QUARTER_MS - 1, (SPRING, 23));
    check(&calendar, midnight + 88 * QUARTER_MS, (SPRING + 1, 0));
    assert_eq!(day_of(&calendar, SPRING).len(), 23);
    assert_eq!(calendar.at(midnight - 4 * QUARTER_MS - 1), None);
    assert_eq!(calendar.at(midnight + 92 * QUARTER_MS), None);
}

#[test]
fn an_autumn_day_has_25_hours_and_the_one_that_repeats_is_another() {
    let calendar = berlin_autumn();
    let midnight = u64::from(AUTUMN) * DAY_MS;
    check(&calendar, midnight, (AUTUMN, 2));
    check(&calendar, midnight + 4 * QUARTER_MS, (AUTUMN, 2));
    check(&calendar, midnight + 8 * QUARTER_MS, (AUTUMN, 3));
    check(&calendar, midnight + 92 * QUARTER_MS - 1, (AUTUMN, 23));
    check(&calendar, midnight + 92 * QUARTER_MS, (AUTUMN + 1, 0));
    let day = day_of(&calendar, AUTUMN);
    assert_eq!(day.len(), 25);
    assert_ne!(day[2].period, day[3].period);
    assert_eq!(day[2].hour_of_week, day[3].hour_of_week);
}

#[test]
fn half_an_hour_on_lord_howe() {
    // Half past ten east of UTC, eleven in summer.
    let (spring, autumn) = (LORD_HOWE_SPRING, LORD_HOWE_AUTUMN);
    let calendar = lord_howe_spring();
    let two = (u64::from(spring - 1) * 96 + 62) * QUARTER_MS;
    check(&calendar, two - 1, (spring, 1));
    check(&calendar, two, (spring, 2));
    check(&calendar, two + 2 * QUARTER_MS, (spring, 3));
    let calendar = Calendar::new(vec![
        row(autumn - 1, (52, 56), autumn, 0),
        row(autumn - 1, (56, 60), autumn, 1),
        row(autumn - 1, (60, 62), autumn, 1),
        row(autumn - 1, (62, 66), autumn, 2),
    ])
    .unwrap();
    let two = (u64::from(autumn - 1) * 96 + 60) * QUARTER_MS;
    check(&calendar, two - 1, (autumn, 1));
    check(&calendar, two + 2 * QUARTER_MS - 1, (autumn, 1));
    check(&calendar, two + 2 * QUARTER_MS, (autumn, 2));
    assert_ne!(calendar.at(two - 1), calendar.at(two));
}

#[test]
fn kathmandu_begins_its_hours_at_a_quarter_past() {
    // 5:45 east: midnight there is 18:15 UTC.
    let day = 20_600;
    let calendar = steady(day, 2, 23);
    let midnight = (u64::from(day) * 96 - 23) * QUARTER_MS;
    assert_eq!(calendar.at(midnight - 1), None);
    check(&calendar, midnight, (day, 0));
    check(&calendar, midnight + DAY_MS - 1, (day, 23));
    check(&calendar, midnight + DAY_MS, (day + 1, 0));
    assert_eq!(calendar.at(midnight + 2 * DAY_MS), None);
    assert_eq!(calendar.of(Period(day * 96)), None);
    assert_eq!(calendar.from(midnight + 1).len(), 47);
    assert_eq!(calendar.from(midnight + DAY_MS).len(), 24);
}

#[test]
fn what_is_no_calendar_is_refused_with_its_row() {
    use CalendarError::{DayGoesBack, Empty, Gap, HourOfWeek, Length, Misaligned};
    let good = || vec![row(20_600, (0, 4), 20_600, 0), row(20_600, (4, 8), 20_600, 1)];
    type Spoil = fn(&mut Vec<CalendarHour>);
    let table: [(Spoil, CalendarError); 11] = [
        (Vec::clear, Empty),
        (|hours| hours[0].start_unix_ms -= 1, Misaligned { row: 0 }),
        (|hours| hours[1].period.0 += 1, Misaligned { row: 1 }),
        (|hours| hours[1].end_unix_ms += 1, Length { row: 1 }),
        (|hours| hours[1].end_unix_ms += QUARTER_MS, Length { row: 1 }),
        (|hours| hours[1].end_unix_ms = hours[1].start_unix_ms, Length { row: 1 }),
        (|hours| hours[1].end_unix_ms = hours[0].start_unix_ms, Length { row: 1 }),
        (|hours| hours[0].end_unix_ms -= QUARTER_MS, Gap { row: 1 }),
        (|hours| hours.swap(0, 1), Gap { row: 1 }),
        (|hours| hours[1] = row(20_600, (4, 8), 20_599, 23), DayGoesBack { row: 1 }),
        (|hours| hours[1].hour_of_week = WEEK_HOURS, HourOfWeek { row: 1 }),
    ];
    for (at, (spoil, want)) in table.into_iter().enumerate() {
        let mut hours = good();
        spoil(&mut hours);
        assert_eq!(Calendar::new(hours), Err(want), "row {at} of the table");
    }
    let mut hours = good();
    hours[1].hour_of_week += 24;
    assert_eq!(Calendar::new(hours), Err(HourOfWeek { row: 1 }));
}

#[test]
fn a_table_is_replaced_by_one_that_agrees_on_what_has_begun() {
    let (old, longer) = (steady(20_600, 1, 0), steady(20_600, 3, 0));
    let other = steady(20_600, 3, 2);
    let noon = u64::from(20_600u32) * DAY_MS + DAY_MS / 2;
    assert!(old.agrees_until(&longer, noon));
    assert!(!old.agrees_until(&other, noon));
    assert!(old.agrees_until(&other, 0));
}

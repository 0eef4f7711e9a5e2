//! Time zones as rules written by hand, for the years of the simulations. The observer checks the
//! ledger's calendar against them.

use pacer_core::calendar::{Calendar, CalendarHour, Period, QUARTER_MS};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(super) const DAY_MS: u64 = 86_400_000;

/// A time in UTC, in Unix ms.
const fn utc(day: u64, hour: u64, minute: u64) -> u64 {
    day * DAY_MS + (hour * 60 + minute) * 60_000
}

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimZone {
    /// The zone's name.
    pub name: &'static str,
    /// Offsets in minutes east of UTC, each with its start. The first also holds before its start.
    changes: &'static [(u64, i64)],
}

/// Zones with whole, half and quarter hours, with and without daylight saving time.
pub const ZONES: [SimZone; 7] = [
    SimZone { name: "UTC", changes: &[(0, 0)] },
    SimZone { name: "Kathmandu", changes: &[(0, 345)] },
    SimZone { name: "Kolkata", changes: &[(0, 330)] },
    SimZone {
        name: "Berlin",
        changes: &[(0, 60), (utc(20_541, 1, 0), 120), (utc(20_751, 1, 0), 60)],
    },
    SimZone {
        name: "New York",
        changes: &[(0, -300), (utc(20_520, 7, 0), -240), (utc(20_758, 6, 0), -300)],
    },
    SimZone {
        name: "Adelaide",
        changes: &[(0, 630), (utc(20_547, 16, 30), 570), (utc(20_729, 16, 30), 630)],
    },
    SimZone {
        name: "Lord Howe",
        changes: &[(0, 660), (utc(20_547, 15, 0), 630), (utc(20_729, 15, 30), 660)],
    },
];

/// Times shortly before a change of clocks or the end of a month or a year.
pub const EVES: [u64; 9] = [
    utc(20_600, 10, 0),
    utc(20_520, 4, 0),
    utc(20_540, 22, 0),
    utc(20_547, 12, 0),
    utc(20_729, 12, 0),
    utc(20_750, 22, 0),
    utc(20_758, 3, 0),
    // Before the ends of February 2026 and of the year.
    utc(20_512, 16, 0),
    utc(20_818, 16, 0),
];

impl SimZone {
    /// The calendar hour, cut where an offset changes.
    pub(super) fn hour(&self, unix_ms: u64) -> CalendarHour {
        let behind = self.changes.partition_point(|(from, _)| *from <= unix_ms).max(1);
        let (from_ms, minutes) = self.changes[behind - 1];
        let next_ms = self.changes.get(behind).map_or(u64::MAX, |(from, _)| *from);
        let east_ms = minutes * MINUTE_MS;
        let shown = i64::try_from(unix_ms).expect("before the year 292,000,000") + east_ms;
        let begins = unsigned(shown - shown.rem_euclid(HOUR_MS) - east_ms);
        let ends = begins + unsigned(HOUR_MS);
        let start_unix_ms = begins.max(from_ms);
        let day = unsigned(shown) / DAY_MS;
        // 1970-01-01 was a Thursday.
        let hour_of_week = (day + 3) % 7 * 24 + unsigned(shown) % DAY_MS / unsigned(HOUR_MS);
        CalendarHour {
            start_unix_ms,
            end_unix_ms: ends.min(next_ms),
            period: Period(narrow(start_unix_ms / QUARTER_MS)),
            day: narrow(day),
            hour_of_week: u8::try_from(hour_of_week).expect("a week has 168 hours"),
        }
    }

    /// Start of the next day.
    pub(super) fn next_day(&self, unix_ms: u64) -> u64 {
        let today = self.hour(unix_ms);
        let mut hour = today;
        while hour.day == today.day {
            hour = self.hour(hour.end_unix_ms);
        }
        hour.start_unix_ms
    }

    /// The hours from one time to another.
    pub(super) fn calendar(&self, from_unix_ms: u64, until_unix_ms: u64) -> Calendar {
        let first = self.hour(from_unix_ms);
        let next = |hour: &CalendarHour| Some(self.hour(hour.end_unix_ms));
        let hours = std::iter::successors(Some(first), next);
        let hours = hours.take_while(|hour| hour.start_unix_ms <= until_unix_ms);
        Calendar::new(hours.collect()).expect("hours without a gap")
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).expect("after 1970")
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("before the year 100,000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> SimZone {
        *ZONES.iter().find(|zone| zone.name == name).expect("a zone")
    }

    /// Number of hours of a day, and of quarter hours.
    #[track_caller]
    fn check(name: &str, noon_unix_ms: u64, hours_want: usize, quarters_want: u64) {
        let zone = zone(name);
        let day = zone.hour(noon_unix_ms).day;
        let calendar = zone.calendar(noon_unix_ms - 2 * DAY_MS, noon_unix_ms + 2 * DAY_MS);
        let hours = calendar.from(0).iter().filter(|hour| hour.day == day);
        let lengths: Vec<u64> = hours.map(|it| it.end_unix_ms - it.start_unix_ms).collect();
        assert_eq!(lengths.len(), hours_want, "{name}");
        assert_eq!(lengths.iter().sum::<u64>() / QUARTER_MS, quarters_want, "{name}");
    }

    #[test]
    fn days_are_as_long_as_clocks_make_them() {
        check("UTC", utc(20_541, 12, 0), 24, 96);
        check("Kathmandu", utc(20_541, 6, 0), 24, 96);
        check("Berlin", utc(20_541, 12, 0), 23, 92);
        check("Berlin", utc(20_751, 12, 0), 25, 100);
        check("New York", utc(20_520, 16, 0), 23, 92);
        check("New York", utc(20_758, 16, 0), 25, 100);
        check("Adelaide", utc(20_548, 3, 0), 25, 100);
        check("Adelaide", utc(20_730, 3, 0), 23, 92);
        check("Lord Howe", utc(20_548, 3, 0), 25, 98);
        check("Lord Howe", utc(20_730, 3, 0), 24, 94);
    }
}

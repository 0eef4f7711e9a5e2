//! The hours of a time zone, as a table given by the caller.
//!
//! Owns the hour, day and hour of the week of an instant. Knows no zone rules and no clock.

/// Length of the quarter-hour that numbers [`Period`]s.
pub const QUARTER_MS: u64 = 15 * 60 * 1000;

/// Hours of a week.
pub const WEEK_HOURS: u8 = 168;

/// Maximum quarters of an hour; an hour with a clock change has fewer.
const QUARTERS_MAX: u64 = 4;

/// Weekday of 1 January 1970, a Thursday; 0 is Monday.
const EPOCH_WEEKDAY: u64 = 3;

/// An hour of an account's calendar: the quarter-hour since 1970 in which it begins. Hours of every
/// zone begin on a quarter; an hour repeated by a clock change is another period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(pub u32);

impl Period {
    /// Its start, in milliseconds since 1970.
    pub fn start_unix_ms(self) -> u64 {
        u64::from(self.0) * QUARTER_MS
    }
}

/// One hour of wall clocks, until they show another or repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarHour {
    /// Its first millisecond since 1970, UTC.
    pub start_unix_ms: u64,
    /// The first millisecond after its end.
    pub end_unix_ms: u64,
    /// Its number: the quarter in which it begins.
    pub period: Period,
    /// The date in its zone, in days since 1 January 1970.
    pub day: u32,
    /// Hour of the week in its zone; 0 is Monday 00:00 to 01:00.
    pub hour_of_week: u8,
}

/// The hours of one zone without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    hours: Box<[CalendarHour]>,
}

/// Why a table is invalid. Rows count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum CalendarError {
    /// It has no rows.
    #[error("a calendar without hours: give the hours of its zone")]
    Empty,
    /// An hour does not begin on a quarter, or its number is not that quarter.
    #[error("row {row}: an hour begins with a quarter of an hour, and is numbered by it")]
    Misaligned { row: usize },
    /// An hour is not one to four whole quarters long.
    #[error("row {row}: an hour has one to four quarters")]
    Length { row: usize },
    /// An hour does not begin where the previous one ends.
    #[error("row {row}: an hour begins where the one before it ends")]
    Gap { row: usize },
    /// Its day is before that of the previous row.
    #[error("row {row}: days do not go back")]
    DayGoesBack { row: usize },
    /// The hour of the week is out of range, or does not match the day.
    #[error(
        "row {row}: the hour of the week is 24 times the weekday of its day, 0 for Monday, and the hour"
    )]
    HourOfWeek { row: usize },
}

impl Calendar {
    /// Checks a table in order of time.
    pub fn new(hours: Vec<CalendarHour>) -> Result<Self, CalendarError> {
        if hours.is_empty() {
            return Err(CalendarError::Empty);
        }
        for (row, hour) in hours.iter().enumerate() {
            hour.check(row)?;
            if row == 0 {
                continue;
            }
            let before = &hours[row - 1];
            if before.end_unix_ms != hour.start_unix_ms {
                return Err(CalendarError::Gap { row });
            }
            if hour.day < before.day {
                return Err(CalendarError::DayGoesBack { row });
            }
        }
        Ok(Self { hours: hours.into_boxed_slice() })
    }

    /// The hour of an instant. None if the table does not contain it.
    pub fn at(&self, unix_ms: u64) -> Option<&CalendarHour> {
        let behind = self.hours.partition_point(|hour| hour.start_unix_ms <= unix_ms);
        self.hours[..behind].last().filter(|hour| unix_ms < hour.end_unix_ms)
    }

    /// The hour of a number. None if the table has none that begins there.
    pub fn of(&self, period: Period) -> Option<&CalendarHour> {
        let row = self.hours.binary_search_by_key(&period, |hour| hour.period).ok()?;
        Some(&self.hours[row])
    }

    /// The hours that begin at an instant or later.
    pub fn from(&self, unix_ms: u64) -> &[CalendarHour] {
        &self.hours[self.hours.partition_point(|hour| hour.start_unix_ms < unix_ms)..]
    }

    /// Whether both agree on every hour that begins before `unix_ms` and that both contain.
    pub fn agrees_until(&self, other: &Self, unix_ms: u64) -> bool {
        self.hours
            .iter()
            .filter(|hour| hour.start_unix_ms < unix_ms)
            .all(|hour| other.at(hour.start_unix_ms).is_none_or(|same| same == hour))
    }
}

impl CalendarHour {
    fn check(&self, row: usize) -> Result<(), CalendarError> {
        let quarter = self.start_unix_ms / QUARTER_MS;
        if !self.start_unix_ms.is_multiple_of(QUARTER_MS) || u64::from(self.period.0) != quarter {
            return Err(CalendarError::Misaligned { row });
        }
        let length = self.end_unix_ms.saturating_sub(self.start_unix_ms);
        if length == 0 || !length.is_multiple_of(QUARTER_MS) || length > QUARTERS_MAX * QUARTER_MS {
            return Err(CalendarError::Length { row });
        }
        let weekday = (u64::from(self.day) + EPOCH_WEEKDAY) % 7;
        if u64::from(self.hour_of_week / 24) != weekday {
            return Err(CalendarError::HourOfWeek { row });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;

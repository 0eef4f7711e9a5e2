//! Times as users write and read them: RFC 3339 in UTC, parts of it, or relative to now. The clock
//! is an argument.

use std::fmt;
use std::ops::Range;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, date};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 86_400 * SECOND_US;
const HOUR_US: u64 = 3_600 * SECOND_US;

/// A time in an expression; a date alone means the whole day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedTime {
    /// A range, in Unix microseconds.
    Within(Range<u64>),
    /// A point relative to now, which no event hits exactly.
    Ago(u64),
}

impl ParsedTime {
    /// Parses `2026-11-22`, `2026-11-22T08:30`, `…:15`, `…:15.250`, the latter three with an
    /// optional `Z` or offset such as `+02:00` (default UTC); a Unix time in seconds, of nine or ten
    /// digits; or `-15m`, with s, m, h or d, before `now_us`.
    pub fn parse(text: &str, now_us: u64) -> Option<Self> {
        if let Some(ago) = text.strip_prefix('-') {
            let unit_us = match ago.as_bytes().last()? {
                b's' => SECOND_US,
                b'm' => 60 * SECOND_US,
                b'h' => HOUR_US,
                b'd' => DAY_US,
                _ => return None,
            };
            let ago_us = number(&ago[..ago.len() - 1])?.checked_mul(unit_us)?;
            return Some(Self::Ago(now_us.saturating_sub(ago_us)));
        }
        if (9..=10).contains(&text.len())
            && let Some(seconds) = number(text)
        {
            return Some(Self::Within(seconds * SECOND_US..(seconds + 1) * SECOND_US));
        }
        let (date, rest) = text.split_at_checked(10)?;
        let from_us = date_us(date)?;
        if rest.is_empty() {
            return Some(Self::Within(from_us..from_us + DAY_US));
        }
        let clock = rest.strip_prefix(['T', 't', ' '])?;
        let (clock, offset) = split_offset(clock)?;
        let (after_us, length_us) = clock_us(clock)?;
        // There are no records before 1970.
        let from_us = (from_us + after_us).checked_add_signed(-offset)?;
        Some(Self::Within(from_us..from_us + length_us))
    }
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn fixed(text: &str, at: Range<usize>) -> Option<u64> {
    number(text.get(at)?)
}

/// Parses `2026-11-22`; years 1970 to 9999.
fn date_us(date: &str) -> Option<u64> {
    let bytes = date.as_bytes();
    let dashed = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
    let (year, month, day) = (fixed(date, 0..4)?, fixed(date, 5..7)?, fixed(date, 8..10)?);
    let date =
        Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    let since_us = date.duration_since(EPOCH.date()).as_micros();
    u64::try_from(since_us).ok().filter(|_| dashed)
}

/// Parses `08:30`, `08:30:15` or `08:30:15.250`: its offset from midnight and its length.
fn clock_us(clock: &str) -> Option<(u64, u64)> {
    let bytes = clock.as_bytes();
    let (hour, minute) = (fixed(clock, 0..2)?, fixed(clock, 3..5)?);
    if bytes[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let minutes_us = (hour * 60 + minute) * 60 * SECOND_US;
    if clock.len() == 5 {
        return Some((minutes_us, 60 * SECOND_US));
    }
    let second = fixed(clock, 6..8)?;
    // A leap second is the first of the next minute.
    if bytes[5] != b':' || second > 60 {
        return None;
    }
    let seconds_us = minutes_us + second * SECOND_US;
    if clock.len() == 8 {
        return Some((seconds_us, SECOND_US));
    }
    let fraction = clock[8..].strip_prefix('.').filter(|digits| digits.len() <= 6)?;
    let places = u32::try_from(fraction.len()).ok()?;
    let unit_us = 10_u64.pow(6 - places);
    Some((seconds_us + number(fraction)? * unit_us, unit_us))
}

/// Splits the time of day from its offset to UTC.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (clock, offset) = clock.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = (fixed(offset, 0..2)?, fixed(offset, 3..5)?);
    let is_one = offset.len() == 5 && offset.as_bytes()[2] == b':' && hours < 24 && minutes < 60;
    let us = ((hours * 60 + minutes) * 60 * SECOND_US).cast_signed();
    is_one.then_some((clock, if sign == "-" { -us } else { us }))
}

/// Unix microseconds, displayed as RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtcTime(pub u64);

impl UtcTime {
    /// The hour, as `2026-11-22T08`.
    pub fn hour(self) -> String {
        self.civil().strftime("%Y-%m-%dT%H").to_string()
    }

    /// The day, as `2026-11-22`.
    pub fn day(self) -> String {
        self.civil().date().to_string()
    }

    /// A time after 9999 becomes the last of that year.
    fn civil(self) -> DateTime {
        let since = i64::try_from(self.0).unwrap_or(i64::MAX);
        EPOCH.saturating_add(SignedDuration::from_micros(since))
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Z", self.civil())
    }
}

#[cfg(test)]
mod tests;

//! Times in header fields (RFC 9110, section 5.6.7).

use std::time::{Duration, UNIX_EPOCH};

/// Two-digit years are at most so far ahead.
const YEARS_AHEAD_MAX: u64 = 50;
const YEAR_S: u64 = 365 * 24 * 60 * 60 + 6 * 60 * 60;
/// The first second that a date cannot tell.
const END_S: u64 = 253_402_300_800;

/// A time in whole seconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixSeconds(pub u64);

/// A span in whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u64);

impl UnixSeconds {
    /// The time since an earlier one; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Seconds {
        Seconds(self.0.saturating_sub(earlier.0))
    }
}

impl Seconds {
    /// The sum; the longest span if it does not fit.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Reads a date in any of the three formats, in whatever case (RFC 9111, section 4.2). None if it is in
/// none of them, or does not exist.
///
/// `now` tells the century of a two-digit year: one that would be more than 50 years ahead is past.
pub fn parse_date(text: &str, now: UnixSeconds) -> Option<UnixSeconds> {
    let date = httpdate::parse_http_date(&with_century(&in_usual_case(text), now)?).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    Some(UnixSeconds(since.as_secs()))
}

/// Writes a date in the preferred format. One after the year 9999 is written as its end.
pub fn format_date(at: UnixSeconds) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at.0.min(END_S - 1)))
}

/// The text, with names of days and months in their usual case, and `GMT` in capitals.
fn in_usual_case(text: &str) -> String {
    let mut is_within_name = false;
    let in_case = |char: char| {
        let is_first = !std::mem::replace(&mut is_within_name, char.is_ascii_alphabetic());
        if is_first { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() }
    };
    let usual: String = text.chars().map(in_case).collect();
    match usual.strip_suffix("Gmt") {
        Some(rest) => format!("{rest}GMT"),
        None => usual,
    }
}

/// The text, with four digits of the year instead of two: `Sunday, 06-Nov-94 08:49:37 GMT` becomes
/// `Sun, 06 Nov 1994 08:49:37 GMT`. None if it cannot be that format, which alone has dashes.
fn with_century(text: &str, now: UnixSeconds) -> Option<String> {
    let Some((day, rest)) = text.split_once('-') else { return Some(text.to_owned()) };
    let (weekday, day) = day.split_once(", ")?;
    let (month, rest) = rest.split_once('-')?;
    let (year, time) = rest.split_once(' ')?;
    let is_year = year.len() == 2 && year.bytes().all(|byte| byte.is_ascii_digit());
    let year = year.parse::<u64>().ok().filter(|_| is_year)?;
    let short = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
        .into_iter()
        .find(|known| *known == weekday)?
        .get(..3)?;
    let latest = 1970 + now.0 / YEAR_S + YEARS_AHEAD_MAX;
    let century = latest - latest % 100;
    let year = if century + year <= latest { century + year } else { century + year - 100 };
    Some(format!("{short}, {day} {month} {year} {time}"))
}

#[cfg(test)]
mod tests;

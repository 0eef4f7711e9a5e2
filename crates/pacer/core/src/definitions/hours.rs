//! Hours of the week as definitions write them.

use crate::ledger::Daypart;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Parses `"mon-fri 08-20"`, `"sat"` or `"00-06"`: days, hours (end excluded), or both. Ranges wrap
/// around the end of the week and of the day.
///
/// # Errors
/// The remedy.
pub fn hours(text: &str) -> Result<Daypart, String> {
    const FORM: &str =
        "needs days, hours or both, for example \"mon-fri 08-20\", \"sat\" or \"00-06\"";
    let form = || FORM.to_owned();
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split_ascii_whitespace();
    let (first, second) = (parts.next().ok_or_else(form)?, parts.next());
    if parts.next().is_some() {
        return Err(form());
    }
    let (days, hours) = match second {
        Some(hours) => (days_of(first).ok_or_else(form)?, hours_of(hours).ok_or_else(form)?),
        None => match (days_of(first), hours_of(first)) {
            (Some(days), _) => (days, (0, 24)),
            (None, Some(hours)) => ((0, 6), hours),
            (None, None) => return Err(form()),
        },
    };
    let mut daypart = Daypart::NEVER;
    let days_count = (7 + days.1 - days.0) % 7 + 1;
    let hours_count = if hours.0 < hours.1 { hours.1 - hours.0 } else { 24 + hours.1 - hours.0 };
    for day in 0..days_count {
        for hour in 0..hours_count {
            daypart = daypart.with(((days.0 + day) % 7 * 24 + hours.0 + hour) % 168);
        }
    }
    Ok(daypart)
}

/// First and last day, both included.
fn days_of(text: &str) -> Option<(u8, u8)> {
    let day = |text: &str| {
        let at = DAYS.iter().position(|day| *day == text)?;
        u8::try_from(at).ok()
    };
    match text.split_once('-') {
        Some((from, to)) => Some((day(from)?, day(to)?)),
        None => day(text).map(|day| (day, day)),
    }
}

/// First hour, and last hour excluded.
fn hours_of(text: &str) -> Option<(u8, u8)> {
    let hour = |text: &str, most: u8| {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u8>().ok().filter(|hour| digits && *hour <= most)
    };
    let (from, to) = text.split_once('-')?;
    let (from, to) = (hour(from, 23)?, hour(to, 24)?);
    (from != to).then_some((from, to))
}

/// The hours of either daypart.
pub fn union(one: Daypart, other: Daypart) -> Daypart {
    (0..168).filter(|hour| other.contains(*hour)).fold(one, Daypart::with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dayparts() {
        let check = |text: &str, want: &[(u8, u8)]| {
            let found = hours(text).expect(text);
            for hour in 0..168 {
                let is_wanted = want.iter().any(|(from, to)| (*from..*to).contains(&hour));
                assert_eq!(found.contains(hour), is_wanted, "{text}: hour {hour}");
            }
        };
        check("mon", &[(0, 24)]);
        check("tue 8-9", &[(32, 33)]);
        check("Mon-Tue 08-20", &[(8, 20), (32, 44)]);
        check("sat-sun", &[(120, 168)]);
        check("sun-mon", &[(144, 168), (0, 24)]);
        check("sun 22-02", &[(166, 168), (0, 2)]);
        check("fri 00-24", &[(96, 120)]);
        let each_day: Vec<_> = (0..7).map(|day| (day * 24, day * 24 + 6)).collect();
        check("00-06", &each_day);
        for text in ["", "someday", "mon 8", "mon 08-25", "mon 24-2", "mon 8-8", "mon 8-9 x", "8"] {
            assert!(hours(text).is_err(), "{text}");
        }
    }
}

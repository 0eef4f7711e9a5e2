//! Time as definitions write it: zones by their names, and instants on an account's clocks.
//!
//! Each reader takes a text and returns a value, or a remedy as a lower-case fragment.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

/// The zone of that name in the IANA data base.
pub(super) fn zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        let wanted = name.to_lowercase();
        let mut near: Vec<(usize, String)> = jiff::tz::db()
            .available()
            .map(|known| {
                let known = known.as_str();
                (distance(&wanted, &known.to_lowercase()), known.to_owned())
            })
            .filter(|(errors, _)| *errors <= 3)
            .collect();
        near.sort();
        match &near[..] {
            [] => "is no time zone, write one such as \"Europe/Berlin\" or \"UTC\"".to_owned(),
            [(_, one)] => format!("is no time zone, did you mean \"{one}\"?"),
            [(_, one), (_, other), ..] => {
                format!("is no time zone, did you mean \"{one}\" or \"{other}\"?")
            }
        }
    })
}

/// How far a name is from a known one, where a city alone stands for its zone.
fn distance(wanted: &str, known: &str) -> usize {
    const NAME_BYTES_MAX: usize = 64;
    if wanted.len() > NAME_BYTES_MAX {
        return usize::MAX;
    }
    let city = known.rsplit('/').next().unwrap_or(known);
    let errors = strsim::damerau_levenshtein(wanted, known);
    let spaced = wanted.replace(' ', "_");
    if spaced.len() < 4 { errors } else { errors.min(strsim::damerau_levenshtein(&spaced, city)) }
}

/// An instant, and what is to be told of how its text was understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalInstant {
    pub(super) unix_ms: u64,
    pub(super) note: Option<String>,
}

/// Reads `"2026-11-01T00:00:00"` on the zone's clocks, or with an offset of its own.
pub(super) fn instant(text: &str, zone: &TimeZone) -> Result<LocalInstant, String> {
    const FORM: &str = "needs a time such as \"2026-11-01T00:00:00\", on the account's clocks, or \
        with an offset, \"2026-11-01T00:00:00-05:00\"";
    let millis =
        |at: Timestamp| u64::try_from(at.as_millisecond()).map_err(|_| "is before 1970".to_owned());
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(LocalInstant { unix_ms: millis(at)?, note: None });
    }
    // A zone in brackets would be a second one beside the account's.
    if text.contains('[') {
        return Err(FORM.to_owned());
    }
    let local: DateTime = text.parse().map_err(|_| FORM.to_owned())?;
    let ambiguous = zone.to_ambiguous_zoned(local);
    let offsets = ambiguous.offset();
    let taken: Zoned = ambiguous.compatible().map_err(|error| format!("{FORM}: {error}"))?;
    let shown = taken.strftime("%Y-%m-%dT%H:%M:%S%:z");
    let note = match offsets {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => {
            Some(format!("{local} is skipped by the account's clocks: {shown} is taken"))
        }
        AmbiguousOffset::Fold { .. } => Some(format!(
            "{local} comes twice on the account's clocks: the first, {shown}, is taken"
        )),
    };
    Ok(LocalInstant { unix_ms: millis(taken.timestamp())?, note })
}

#[cfg(test)]
mod tests {
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
}

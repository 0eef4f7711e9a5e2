//! Reads time zones, and instants on an account's clocks. Each reader returns a value, or a remedy
//! as a lower-case fragment.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

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

/// Edit distance to a known name, or to its city alone.
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalInstant {
    pub(super) unix_ms: u64,
    pub(super) note: Option<String>,
}

/// Reads `"2026-11-01T00:00:00"` on the zone's clocks, or with its own offset.
pub(super) fn instant(text: &str, zone: &TimeZone) -> Result<LocalInstant, String> {
    const FORM: &str = "needs a time such as \"2026-11-01T00:00:00\", on the account's clocks, or \
        with an offset, \"2026-11-01T00:00:00-05:00\"";
    let millis =
        |at: Timestamp| u64::try_from(at.as_millisecond()).map_err(|_| "is before 1970".to_owned());
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(LocalInstant { unix_ms: millis(at)?, note: None });
    }
    // A bracketed zone would contradict the account's.
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
mod tests;

//! Time zones by name, and each zone's table of hours for the rules. The zones' rules come from the
//! built-in IANA database, so that every node counts alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use pacer_core::calendar::{Calendar, CalendarError, CalendarHour, Period, QUARTER_MS};
use pacer_core::ledger::ZoneId;
use pacer_core::strategy::{OffsetFrom, ZoneOffsets};

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// How far clocks reach beyond a calendar: the longest planned flights.
const CLOCKS_AHEAD: Duration = Duration::from_secs(2 * 366 * 24 * 60 * 60);

/// Why a zone has no number or no calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ZoneError {
    /// The IANA database has no such name.
    #[error("unknown time zone `{0}`: give a name of the IANA database, as `Europe/Berlin`")]
    Unknown(String),
    /// Its hours do not begin at quarters of an hour, so they form no calendar.
    #[error("time zone `{name}` cannot be counted by the hour: {error}")]
    Uncountable { name: String, error: CalendarError },
    /// The instant is before 1970 or too far ahead.
    #[error("{unix_ms} ms since 1970 is beyond what calendars are made for")]
    Beyond { unix_ms: u64 },
}

/// Zones by number. Clones share the numbers.
#[derive(Clone, Debug)]
pub struct Zones(Arc<Mutex<KnownZone>>);

#[derive(Debug)]
struct KnownZone {
    database: TimeZoneDatabase,
    by_name: BTreeMap<String, ZoneId>,
    zones: Vec<(String, TimeZone)>,
}

impl Default for Zones {
    fn default() -> Self {
        let database = TimeZoneDatabase::bundled();
        Self(Arc::new(Mutex::new(KnownZone {
            database,
            by_name: BTreeMap::new(),
            zones: Vec::new(),
        })))
    }
}

impl Zones {
    /// Number of a zone, fixed while the process lasts.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`].
    pub fn id(&self, name: &str) -> Result<ZoneId, ZoneError> {
        let mut known = self.known();
        if let Some(id) = known.by_name.get(name) {
            return Ok(*id);
        }
        let Ok(zone) = known.database.get(name) else {
            return Err(ZoneError::Unknown(name.to_owned()));
        };
        // Names that differ only in case are the same.
        let name = zone.iana_name().unwrap_or(name).to_owned();
        if let Some(id) = known.by_name.get(&name) {
            return Ok(*id);
        }
        let id = ZoneId(u32::try_from(known.zones.len()).expect("zones are few"));
        known.by_name.insert(name.clone(), id);
        known.zones.push((name, zone));
        Ok(id)
    }

    /// Name of a zone. None if the number was never assigned.
    pub fn name(&self, id: ZoneId) -> Option<String> {
        self.zone(id).map(|(name, _)| name)
    }

    /// Hours of a zone from the one of `from_ms` to the one of `to_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// If its hours form no calendar.
    ///
    /// # Panics
    /// If [`Zones::id`] did not return this number.
    pub fn calendar(&self, id: ZoneId, from_ms: u64, to_ms: u64) -> Result<Calendar, ZoneError> {
        let (name, zone) = self.zone(id).expect("numbers of zones are given here");
        let hours = hours(&zone, from_ms, to_ms)?;
        Calendar::new(hours).map_err(|error| ZoneError::Uncountable { name, error })
    }

    /// The zone's clocks for two years from `from_ms`.
    ///
    /// # Errors
    /// [`ZoneError::Beyond`].
    ///
    /// # Panics
    /// If [`Zones::id`] did not return this number.
    pub fn clocks(&self, id: ZoneId, from_ms: u64) -> Result<ZoneOffsets, ZoneError> {
        let (_, zone) = self.zone(id).expect("numbers of zones are given here");
        let ahead = u64::try_from(CLOCKS_AHEAD.as_millis()).expect("two years are few");
        let first = timestamp(from_ms)?;
        let last = timestamp(from_ms.saturating_add(ahead))?;
        let changes = zone.following(first).take_while(|change| change.timestamp() <= last);
        let changes = changes.filter_map(|change| {
            let at_ms = u64::try_from(change.timestamp().as_millisecond()).ok()?;
            Some(OffsetFrom { at_ms, ahead_ms: change.offset().seconds() * 1000 })
        });
        Ok(ZoneOffsets::new(zone.to_offset(first).seconds() * 1000, changes.collect()))
    }

    fn zone(&self, id: ZoneId) -> Option<(String, TimeZone)> {
        let at = usize::try_from(id.0).ok()?;
        self.known().zones.get(at).cloned()
    }

    fn known(&self) -> MutexGuard<'_, KnownZone> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timestamp(unix_ms: u64) -> Result<Timestamp, ZoneError> {
    let beyond = ZoneError::Beyond { unix_ms };
    let signed = i64::try_from(unix_ms).map_err(|_| beyond.clone())?;
    Timestamp::from_millisecond(signed).map_err(|_| beyond)
}

/// Hours as wall clocks show them: each ends when clocks show another one or, set back, the same
/// one again.
fn hours(zone: &TimeZone, from_ms: u64, to_ms: u64) -> Result<Vec<CalendarHour>, ZoneError> {
    // From a day before: an hour must begin on the full hour, or where clocks are set.
    let mut start_ms = from_ms.saturating_sub(DAY_MS) / DAY_MS * DAY_MS;
    let mut ahead_ms = i64::from(zone.to_offset(timestamp(start_ms)?).seconds()) * 1000;
    start_ms = next_full(start_ms, ahead_ms) - HOUR_MS;
    let mut changes = zone.following(timestamp(start_ms)?).peekable();
    let mut hours = Vec::new();
    while start_ms <= to_ms {
        let mut end_ms = next_full(start_ms, ahead_ms);
        let begun_ahead_ms = ahead_ms;
        while let Some(change) = changes.peek() {
            let at_ms = change.timestamp().as_millisecond().unsigned_abs();
            let next_ms = i64::from(change.offset().seconds()) * 1000;
            if at_ms > end_ms {
                break;
            }
            changes.next();
            // Some changes are only of the zone's abbreviation.
            if next_ms != ahead_ms {
                (ahead_ms, end_ms) = (next_ms, at_ms);
                break;
            }
        }
        if end_ms > from_ms && start_ms < end_ms {
            hours.push(hour(start_ms, end_ms, begun_ahead_ms));
        }
        start_ms = end_ms;
    }
    Ok(hours)
}

/// The next instant at which clocks that are `ahead_ms` ahead of UTC show a full hour.
fn next_full(unix_ms: u64, ahead_ms: i64) -> u64 {
    let into = local(unix_ms, ahead_ms) % HOUR_MS;
    unix_ms + HOUR_MS - into
}

fn hour(start_unix_ms: u64, end_unix_ms: u64, ahead_ms: i64) -> CalendarHour {
    let local_ms = local(start_unix_ms, ahead_ms);
    let day = local_ms / DAY_MS - LOCAL_DAYS;
    // 1 January 1970 was a Thursday; weeks begin on Monday.
    let hour_of_week = (day + 3) % 7 * 24 + local_ms % DAY_MS / HOUR_MS;
    CalendarHour {
        start_unix_ms,
        end_unix_ms,
        period: Period(u32::try_from(start_unix_ms / QUARTER_MS).unwrap_or(u32::MAX)),
        day: u32::try_from(day).unwrap_or(u32::MAX),
        hour_of_week: u8::try_from(hour_of_week).expect("a week has 168 hours"),
    }
}

/// Days added to local time, so that it is never before its day zero.
const LOCAL_DAYS: u64 = 7;

fn local(unix_ms: u64, ahead_ms: i64) -> u64 {
    (unix_ms + LOCAL_DAYS * DAY_MS).saturating_add_signed(ahead_ms)
}

#[cfg(test)]
mod tests;

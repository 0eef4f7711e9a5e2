//! The week on an account's clocks: when a campaign is open, and the traffic of each hour.

use std::sync::Arc;

/// Hours of a week.
pub const HOURS: usize = 168;

const HOUR_MS: u64 = 3_600_000;

/// The end of time: the year 10,000.
pub(crate) const TIME_MAX_MS: u64 = 253_402_300_800_000;

/// 1 January 1970 was a Thursday; weeks begin on Monday.
const EPOCH_HOUR: u64 = 3 * 24;

/// A weight per hour of the week: 0 if the campaign is closed, otherwise proportional to the
/// expected traffic. Hour 0 is Monday 00:00 to 01:00 in the account's zone. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Week {
    /// Cumulative weights before each hour, then the total.
    before: Arc<[u64; HOURS + 1]>,
}

impl Week {
    /// Always open, with equal hours.
    pub fn uniform() -> Self {
        Self::weighted(&[1; HOURS])
    }

    /// From weights, of which only the proportions count. Weight 0 closes an hour.
    pub fn weighted(weights: &[u32; HOURS]) -> Self {
        let mut before = [0; HOURS + 1];
        for (at, weight) in weights.iter().enumerate() {
            before[at + 1] = before[at] + u64::from(*weight);
        }
        Self { before: Arc::new(before) }
    }

    /// Closes the hours that `is_open` rejects. An open hour has at least the smallest weight.
    #[must_use]
    pub fn opened(&self, is_open: impl Fn(usize) -> bool) -> Self {
        let mut weights = self.weights();
        for (hour, weight) in weights.iter_mut().enumerate() {
            *weight = if is_open(hour) { (*weight).max(1) } else { 0 };
        }
        Self::weighted(&weights)
    }

    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.before) > 1
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.before, &other.before)
    }

    /// The weight of an hour.
    pub fn weight(&self, hour: usize) -> u64 {
        self.before[hour + 1] - self.before[hour]
    }

    pub(crate) fn weights(&self) -> [u32; HOURS] {
        std::array::from_fn(|hour| u32::try_from(self.weight(hour)).expect("it was a u32"))
    }

    /// Weight times local milliseconds from the start of the first week to `local_ms` since 1970.
    fn until(&self, local_ms: u64) -> u128 {
        let shifted = local_ms + EPOCH_HOUR * HOUR_MS;
        let (hours, rest) = (shifted / HOUR_MS, shifted % HOUR_MS);
        let (weeks, hour) = (hours / HOURS as u64, of_week(hours));
        let whole =
            u128::from(weeks) * u128::from(self.before[HOURS]) + u128::from(self.before[hour]);
        whole * u128::from(HOUR_MS) + u128::from(self.weight(hour)) * u128::from(rest)
    }
}

/// The offset of an account's clocks from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetFrom {
    /// Milliseconds since 1970, UTC.
    pub at_ms: u64,
    /// Milliseconds ahead of UTC; negative in the west.
    pub ahead_ms: i32,
}

/// An account's clocks, derived from a time zone's rules by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneOffsets {
    first_ms: i32,
    changes: Arc<[OffsetFrom]>,
}

impl ZoneOffsets {
    /// Universal time.
    pub fn utc() -> Self {
        Self::new(0, Vec::new())
    }

    /// Clocks `first_ms` ahead of UTC until the first change. Sorts the changes.
    pub fn new(first_ms: i32, mut changes: Vec<OffsetFrom>) -> Self {
        changes.sort_by_key(|change| change.at_ms);
        Self { first_ms, changes: changes.into() }
    }

    /// The hour of the week at an instant.
    pub fn hour_of_week(&self, at_ms: u64) -> usize {
        let before = self.changes.iter().rev().find(|change| change.at_ms <= at_ms);
        let ahead = before.map_or(self.first_ms, |change| change.ahead_ms);
        of_week(local(at_ms, ahead) / HOUR_MS + EPOCH_HOUR)
    }

    pub(super) fn weigh(&self, week: &Week, from_ms: u64, to_ms: u64) -> u128 {
        let (mut sum, mut at, mut ahead) = (0, from_ms, self.first_ms);
        for change in self.changes.iter() {
            if at < change.at_ms && at < to_ms {
                let end = change.at_ms.min(to_ms);
                sum += week.until(local(end, ahead)) - week.until(local(at, ahead));
                at = end;
            }
            ahead = change.ahead_ms;
        }
        if at < to_ms {
            sum += week.until(local(to_ms, ahead)) - week.until(local(at, ahead));
        }
        sum
    }
}

fn of_week(hours: u64) -> usize {
    usize::try_from(hours % HOURS as u64).expect("a week has few hours")
}

/// Milliseconds on the account's clocks, plus one week so that clocks behind UTC do not underflow.
fn local(at_ms: u64, ahead_ms: i32) -> u64 {
    let shifted = at_ms.min(TIME_MAX_MS) + HOURS as u64 * HOUR_MS;
    shifted.saturating_add_signed(i64::from(ahead_ms))
}

#[cfg(test)]
mod tests;

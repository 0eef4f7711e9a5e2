//! The traffic of each hour of the week, learned from cumulative counts.

use serde::{Deserialize, Serialize};

use super::week::{HOURS, Week, Zone};

/// A slot that is longer says nothing about an hour.
const SLOT_MOST_MS: u64 = 3_600_000;

/// Longer ago than this, an hour of the week was that of another week.
const LAST_WEEK_MS: u64 = 24 * 3_600_000;

/// The busiest hour weighs as much.
const WEIGHT_MOST: u128 = 1 << 20;

/// What has been seen in each hour of the week, the latest week as much as all before it. Made of
/// cumulative counts alone, at the ends of slots: what comes late counts for a later hour, and what
/// comes twice counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Learner {
    /// When the last slot ended, and how many requests there had been; none before the first.
    last: Option<(u64, u64)>,
    hours: [Hour; HOURS],
}

/// What an hour of the week has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Hour {
    requests: u64,
    /// Over how long.
    seen_ms: u64,
    /// When last.
    last_ms: u64,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Stored {
    last: Option<(u64, u64)>,
    hours: Vec<Hour>,
}

impl From<Learner> for Stored {
    fn from(learner: Learner) -> Self {
        Self { last: learner.last, hours: learner.hours.to_vec() }
    }
}

impl TryFrom<Stored> for Learner {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let wrong = |hours: Vec<Hour>| format!("{} hours in a week, not {HOURS}", hours.len());
        Ok(Self { last: stored.last, hours: stored.hours.try_into().map_err(wrong)? })
    }
}

impl Default for Learner {
    fn default() -> Self {
        Self { last: None, hours: [Hour::default(); HOURS] }
    }
}

impl Learner {
    /// A slot ended at `now_ms`, and until then there have been `requests` in all. The first one
    /// only says where counting begins; one that did not end after the last changes nothing.
    pub fn learn(&mut self, zone: &Zone, now_ms: u64, requests: u64) {
        let Some((at_ms, seen)) = self.last else {
            self.last = Some((now_ms, requests));
            return;
        };
        if now_ms <= at_ms {
            return;
        }
        self.last = Some((now_ms, seen.max(requests)));
        let length = now_ms - at_ms;
        if length > SLOT_MOST_MS {
            return;
        }
        let hour = &mut self.hours[zone.hour_of_week(now_ms - 1)];
        if now_ms.saturating_sub(hour.last_ms) > LAST_WEEK_MS {
            hour.requests /= 2;
            hour.seen_ms /= 2;
        }
        hour.requests = hour.requests.saturating_add(requests.saturating_sub(seen));
        hour.seen_ms = hour.seen_ms.saturating_add(length);
        hour.last_ms = now_ms;
    }

    /// What it expects of a week. An hour of the week that has not been seen is taken to be like
    /// the same hour of other days, else like any hour that has; if there is none, all are alike.
    pub fn week(&self) -> Week {
        let rates = self.hours.map(Hour::rate);
        let mean = |of: &mut dyn Iterator<Item = u128>| {
            let (sum, count) = of.fold((0, 0), |(sum, count), rate| (sum + rate, count + 1));
            (count > 0).then(|| sum / count)
        };
        let any = mean(&mut rates.iter().flatten().copied());
        let filled: [u128; HOURS] = std::array::from_fn(|hour| {
            let same = || mean(&mut rates.iter().skip(hour % 24).step_by(24).flatten().copied());
            rates[hour].or_else(same).or(any).unwrap_or(1)
        });
        let most = filled.iter().copied().max().unwrap_or(1).max(1);
        Week::weighted(&filled.map(|rate| {
            u32::try_from(rate * WEIGHT_MOST / most).expect("at most the greatest weight").max(1)
        }))
    }
}

impl Hour {
    /// Requests per millisecond, in 2^-32; none when it has not been seen.
    fn rate(self) -> Option<u128> {
        (self.seen_ms > 0).then(|| (u128::from(self.requests) << 32) / u128::from(self.seen_ms))
    }
}

#[cfg(test)]
mod tests;

//! The traffic of each hour of the week, learned from cumulative counts.

use super::week::{HOURS, TIME_MAX_MS, Week, ZoneOffsets};
use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder};

/// A longer slot shows nothing about an hour.
const SLOT_MOST_MS: u64 = 3_600_000;

/// After this time, an hour of the week counts as a new week's.
const LAST_WEEK_MS: u64 = 24 * 3_600_000;

const WEIGHT_MOST: u128 = 1 << 20;

/// Observed traffic per hour of the week; the latest week counts as much as all before it. Late
/// counts go to a later hour, and repeated ones count once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learner {
    /// End of the last slot, and the requests by then. None before the first.
    last: Option<(u64, u64)>,
    hours: [LearnedHour; HOURS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LearnedHour {
    requests: u64,
    seen_ms: u64,
    last_ms: u64,
}

impl Default for Learner {
    fn default() -> Self {
        Self { last: None, hours: [LearnedHour::default(); HOURS] }
    }
}

impl Learner {
    pub(crate) fn encode(&self, into: &mut StateEncoder<'_>) {
        let (at_ms, requests) = self.last.unwrap_or_default();
        into.flag(self.last.is_some());
        [at_ms, requests].into_iter().for_each(|figure| into.u64(figure));
        for LearnedHour { requests, seen_ms, last_ms } in self.hours {
            [requests, seen_ms, last_ms].into_iter().for_each(|figure| into.u64(figure));
        }
    }

    pub(crate) fn decode(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        let has_last = from.flag("whether it has learned")?;
        let most = if has_last { (TIME_MAX_MS, u64::MAX) } else { (0, 0) };
        let last = (from.u64_to("the time", most.0)?, from.u64_to("the requests", most.1)?);
        let mut hours = [LearnedHour::default(); HOURS];
        for hour in &mut hours {
            let (requests, seen_ms) = (from.u64()?, from.u64()?);
            *hour = LearnedHour {
                requests,
                seen_ms,
                last_ms: from.u64_to("an hour's end", TIME_MAX_MS)?,
            };
        }
        Ok(Self { last: has_last.then_some(last), hours })
    }

    /// Pauses counting: the next slot's end is the new starting point.
    pub(crate) const fn pause(&mut self) {
        self.last = None;
    }

    /// Learns a slot that ended at `now_ms`, with `requests` in total by then. The first one is the
    /// starting point; one that does not end after the last is ignored.
    pub fn learn(&mut self, zone: &ZoneOffsets, now_ms: u64, requests: u64) {
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

    /// The expected week. An unseen hour is assumed to be like the same hour of other days,
    /// otherwise like the mean of all seen hours; if there are none, all are equal.
    pub fn week(&self) -> Week {
        let rates = self.hours.map(LearnedHour::rate);
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

impl LearnedHour {
    /// Requests per millisecond, in 2^-32. None if unseen.
    fn rate(self) -> Option<u128> {
        (self.seen_ms > 0).then(|| (u128::from(self.requests) << 32) / u128::from(self.seen_ms))
    }
}

#[cfg(test)]
mod tests;

//! How much of a budget should be spent by when.

use std::sync::Arc;

use super::week::{TIME_MAX_MS, Week, ZoneOffsets};

/// A campaign's flight, or one day of it: milliseconds since 1970, end excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignFlight {
    /// The first millisecond.
    pub start_ms: u64,
    /// The first millisecond after it.
    pub end_ms: u64,
}

/// The expected traffic, and when the campaign is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// By hour of the week on the account's clocks; learned by a [`super::Learner`], or uniform.
    Weekly {
        /// The weight of each hour; 0 if the campaign is closed.
        week: Week,
        /// The account's clocks.
        zone: ZoneOffsets,
    },
    /// By parts of equal length from the start. Weight 0, and all time after them, is closed.
    Given {
        /// Length of a part.
        part_ms: u64,
        /// Weights of the parts.
        weights: Vec<u32>,
    },
}

impl Forecast {
    /// Constant traffic, always open.
    pub fn uniform() -> Self {
        Self::Weekly { week: Week::uniform(), zone: ZoneOffsets::utc() }
    }
}

/// Why a target is impossible.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum TargetError {
    /// The flight is empty.
    #[error("the flight ends at {end_ms} ms, not after its start at {start_ms} ms")]
    Empty { start_ms: u64, end_ms: u64 },
    /// It ends after the year 9999.
    #[error("the flight ends at {end_ms} ms since 1970, after the year 9999")]
    Endless { end_ms: u64 },
    /// No hour of it is open.
    #[error("no hour of the flight is open: open one, or move the flight")]
    NeverOpen,
    /// Its parts have no length.
    #[error("a forecast's parts have a length of 0 ms")]
    NoLength,
    /// `ahead` is not between 0 and 1.
    #[error("ahead = {0}: choose 0 to 1")]
    Ahead(f64),
}

/// The cumulative spend that a flight should follow: 0 before its start, 1 from its end on, never
/// falling. Closed time does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct SpendTarget {
    flight: CampaignFlight,
    curve: TargetCurve,
    total: u128,
    ahead: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum TargetCurve {
    Weekly {
        week: Week,
        zone: ZoneOffsets,
    },
    /// Cumulative weights before each part, then the total.
    Given {
        part_ms: u64,
        before: Arc<[u64]>,
    },
}

impl SpendTarget {
    /// In proportion to expected traffic.
    ///
    /// # Errors
    /// If the flight has no open time.
    pub fn new(flight: CampaignFlight, forecast: Forecast) -> Result<Self, TargetError> {
        let CampaignFlight { start_ms, end_ms } = flight;
        if end_ms <= start_ms {
            return Err(TargetError::Empty { start_ms, end_ms });
        }
        if end_ms > TIME_MAX_MS {
            return Err(TargetError::Endless { end_ms });
        }
        let curve = match forecast {
            Forecast::Weekly { week, zone } => TargetCurve::Weekly { week, zone },
            Forecast::Given { part_ms: 0, .. } => return Err(TargetError::NoLength),
            Forecast::Given { part_ms, weights } => {
                let mut sum = 0;
                let ends = weights.into_iter().map(|weight| {
                    sum += u64::from(weight);
                    sum
                });
                TargetCurve::Given { part_ms, before: std::iter::once(0).chain(ends).collect() }
            }
        };
        let total = curve.weigh(flight, end_ms);
        if total == 0 {
            return Err(TargetError::NeverOpen);
        }
        Ok(Self { flight, curve, total, ahead: 0.0 })
    }

    /// In proportion to time.
    ///
    /// # Errors
    /// If the flight is empty.
    pub fn uniform(flight: CampaignFlight) -> Result<Self, TargetError> {
        Self::new(flight, Forecast::uniform())
    }

    /// Ahead of the traffic: by a share `x` of it, `x (1 + ahead (1 − x))` is spent. With `ahead`
    /// 1, three quarters are spent by the middle.
    ///
    /// # Errors
    /// If `ahead` is not between 0 and 1.
    pub fn front_loaded(self, ahead: f64) -> Result<Self, TargetError> {
        if (0.0..=1.0).contains(&ahead) {
            Ok(Self { ahead, ..self })
        } else {
            Err(TargetError::Ahead(ahead))
        }
    }

    /// The flight.
    pub const fn flight(&self) -> CampaignFlight {
        self.flight
    }

    /// The expected traffic by hour of the week. None if the forecast is given by parts.
    pub(crate) const fn week(&self) -> Option<&Week> {
        match &self.curve {
            TargetCurve::Weekly { week, .. } => Some(week),
            TargetCurve::Given { .. } => None,
        }
    }

    /// The share of the budget that should be spent by a time: 0 to 1.
    pub fn share(&self, at_ms: u64) -> f64 {
        let traffic = self.traffic(at_ms);
        (traffic * (1.0 + self.ahead * (1.0 - traffic))).min(1.0)
    }

    /// The share of all traffic expected by a time, 0 to 1: [`Self::share`] unless front-loaded.
    pub fn traffic(&self, at_ms: u64) -> f64 {
        ratio(self.curve.weigh(self.flight, at_ms), self.total)
    }

    /// The share of what remains at `from_ms` that should be spent by `to_ms`: 0 to 1, and 1 from
    /// the end of the last open hour on.
    pub fn share_of_rest(&self, from_ms: u64, to_ms: u64) -> f64 {
        let (from, to) = (self.share(from_ms), self.share(to_ms));
        if to >= 1.0 { 1.0 } else { ((to - from) / (1.0 - from)).max(0.0) }
    }

    /// End of a slot of nominally `slot_ms` that begins at `now_ms`. Slots shrink to a second
    /// towards the end of the flight, so that the last of the budget is aimed at anew.
    pub fn slot_end(&self, now_ms: u64, slot_ms: u64) -> u64 {
        let begin = now_ms.max(self.flight.start_ms);
        let left = self.flight.end_ms.saturating_sub(begin);
        let length = slot_ms.min((left / 16).max(SLOT_LEAST_MS)).max(1);
        begin.saturating_add(length)
    }
}

const SLOT_LEAST_MS: u64 = 1000;

impl TargetCurve {
    /// Weight times milliseconds from the start of the flight to `at_ms`, at most to its end.
    fn weigh(&self, flight: CampaignFlight, at_ms: u64) -> u128 {
        let at = at_ms.clamp(flight.start_ms, flight.end_ms);
        match self {
            Self::Weekly { week, zone } => zone.weigh(week, flight.start_ms, at),
            Self::Given { part_ms, before } => {
                let (into, last) = (at - flight.start_ms, before.len() - 1);
                let part = usize::try_from(into / part_ms).map_or(last, |part| part.min(last));
                let whole = u128::from(before[part]) * u128::from(*part_ms);
                let weight = before.get(part + 1).map_or(0, |next| next - before[part]);
                whole + u128::from(weight) * u128::from(into % part_ms)
            }
        }
    }
}

/// Shortens both until they are exact: a quotient of exact numbers rounds once, so it never falls
/// when the dividend grows.
fn ratio(part: u128, whole: u128) -> f64 {
    let shift = (128 - whole.leading_zeros()).saturating_sub(53);
    (part >> shift) as f64 / (whole >> shift) as f64
}

#[cfg(test)]
mod tests;

//! A campaign's pacing policy, and the resulting bidding status.

use crate::strategy::{BidPace, OutOfRange, StrategySettings, Week};

/// How a campaign spends its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingPolicy {
    /// The strategy and its gains.
    pub settings: StrategySettings,
    /// How far ahead of the traffic: 0 to 1. See [`crate::strategy::SpendTarget::front_loaded`].
    pub ahead: f64,
    /// The expected traffic.
    pub forecast: TrafficForecast,
    /// Whether its price must not change: then a strategy may only skip requests.
    pub is_fixed_price: bool,
}

/// The expected traffic of an open hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrafficForecast {
    /// The same in every hour.
    #[default]
    Uniform,
    /// As observed in the same hour of other weeks and days.
    Learned,
    /// By hour of the week on the account's clocks.
    Weekly(Week),
}

/// How a campaign bids now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiddingStatus {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Whether it bids its price rather than a part of its value.
    pub is_fixed_price: bool,
    /// The pace until its slot ends.
    pub pace: BidPace,
}

/// Why a policy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PacingError {
    /// A gain is out of its range.
    #[error("{0}")]
    Gain(OutOfRange),
    /// `ahead` is not between 0 and 1.
    #[error("ahead = {0}: choose 0 to 1")]
    Ahead(f64),
    /// The strategy changes prices, but the price is fixed.
    #[error("{0} changes prices, and the price is fixed: choose asap, even or throttle")]
    FixedPrice(&'static str),
    /// No hour of the week is open.
    #[error("no hour of the week is open, or none has weight: open one")]
    NeverOpen,
}

impl PacingPolicy {
    /// All problems of the policy.
    pub fn problems(&self) -> Vec<PacingError> {
        let mut problems: Vec<_> =
            self.settings.problems().into_iter().map(PacingError::Gain).collect();
        if !(0.0..=1.0).contains(&self.ahead) {
            problems.push(PacingError::Ahead(self.ahead));
        }
        if self.is_fixed_price && self.settings.changes_prices() {
            problems.push(PacingError::FixedPrice(self.settings.name()));
        }
        problems
    }
}

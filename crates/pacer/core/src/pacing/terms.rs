//! How a campaign's budget is to be spent, and how it bids by that.

use crate::strategy::{BidPace, OutOfRange, StrategySettings, Week};

/// How a campaign's budget is to be spent.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingPolicy {
    /// By which strategy, with which gains.
    pub settings: StrategySettings,
    /// How far ahead of the traffic: 0 to 1. See [`crate::strategy::SpendTarget::front_loaded`].
    pub ahead: f64,
    /// What traffic is expected.
    pub forecast: TrafficForecast,
    /// Whether its price is not to be changed: then a strategy may only pass requests by.
    pub is_fixed_price: bool,
}

/// What traffic is expected in an open hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrafficForecast {
    /// The same in every one.
    #[default]
    Uniform,
    /// What was seen in the same hour of other weeks and days.
    Learned,
    /// By weights of the week's hours on the account's clocks.
    Weekly(Week),
}

/// How a campaign bids now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiddingStatus {
    /// By which strategy.
    pub strategy: &'static str,
    /// Whether it bids its price, and not a part of its value.
    pub is_fixed_price: bool,
    /// Until its slot ends.
    pub pace: BidPace,
}

/// Why a campaign cannot be paced so.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PacingError {
    /// A gain is out of its range.
    #[error("{0}")]
    Gain(OutOfRange),
    /// How far it is ahead is no number from 0 to 1.
    #[error("ahead = {0}: choose 0 to 1")]
    Ahead(f64),
    /// It would change a price that is fixed.
    #[error("{0} changes prices, and the price is fixed: choose asap, even or throttle")]
    FixedPrice(&'static str),
    /// No hour of the week is open.
    #[error("no hour of the week is open, or none has weight: open one")]
    NeverOpen,
}

impl PacingPolicy {
    /// Everything that is wrong with it.
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

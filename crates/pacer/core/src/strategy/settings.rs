//! The choice of a campaign's strategy and its gains: defaults, ranges, sources.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Bound of the dual, either way: a multiplier lies between `e^-5` and `e^5`.
pub const DUAL_MAX: f64 = 5.0;

/// How a campaign follows its target. Any strategy can take over from any other during a flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum StrategySettings {
    /// Bids at value for every request until the budget is spent: the baseline.
    Asap,
    /// Bids at value until the target curve is reached, then stops. Buying tools call this even.
    Even,
    /// Bids at value for a share of requests, which follows the target.
    Throttle(Throttle),
    /// A PID controller that acts on the logarithm of the multiplier.
    Pid(Pid),
    /// Dual descent with a fixed step.
    Adaptive(Adaptive),
    /// Dual descent per slot against a target that each slot solves again: the default.
    SlotDual(SlotDual),
}

impl Default for StrategySettings {
    fn default() -> Self {
        Self::SlotDual(SlotDual::default())
    }
}

/// Probabilistic throttling (Agarwal, Ghosh, Wei and You, "Budget Pacing for Targeted Online
/// Advertisements at LinkedIn", KDD 2014): the share grows by a factor while the campaign is behind
/// its target, and shrinks by another while it is ahead. Meant for campaigns that cannot change
/// their prices; elsewhere it loses value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Throttle {
    /// Factor of the share when behind: 1.01 to 2, by default 1.1.
    pub up: f64,
    /// Factor of the share when ahead: 0.5 to 0.99, by default 0.9.
    pub down: f64,
    /// The first share: 0.0001 to 1, by default 0.1 (slow start).
    pub start: f64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { up: 1.1, down: 0.9, start: 0.1 }
    }
}

/// A PID controller with an exponential actuator (Zhang, Rong, Wang, Zhu and Wang, "Feedback
/// Control of Real-Time Display Advertising", WSDM 2016): `bid = value · e^φ`, so that no bid is
/// negative. The sum of errors stays within the actuator's limits (anti-windup).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pid {
    /// Gain on a slot's relative error: 0 to 5, by default 0.1.
    pub proportional: f64,
    /// Gain on the sum of relative errors: 0.001 to 2, by default 0.05.
    pub integral: f64,
    /// Gain on the change of the relative error: 0 to 2, by default 0.02.
    pub derivative: f64,
    /// The first multiplier: 0.0068 to 1, by default 0.1.
    pub start: f64,
    /// The largest multiplier: 0.0068 to 148, by default 1, never above the value.
    pub multiplier_max: f64,
}

impl Default for Pid {
    fn default() -> Self {
        Self {
            proportional: 0.1,
            integral: 0.05,
            derivative: 0.02,
            start: 0.1,
            multiplier_max: 1.0,
        }
    }
}

/// Adaptive pacing (Balseiro and Gur, "Learning in Repeated Auctions with Budgets", Management
/// Science 2019): `bid = v / (1 + μ)`, `μ ← P[0, μ̄](μ − ε(ρ − z))` with budget per request `ρ`,
/// cost of a request `z` and `ε = step / (√T · ρ)`. Very sensitive to `step`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adaptive {
    /// Scale of the step size: 0.01 to 100, by default 2.
    pub step: f64,
    /// The first multiplier: 0.0068 to 1, by default 0.1.
    pub start: f64,
    /// The largest multiplier: 0.0068 to 1, by default 1.
    pub multiplier_max: f64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { step: 2.0, start: 0.1, multiplier_max: 1.0 }
    }
}

/// A dual multiplier per slot with a target that each slot's end solves again: `bid = v · e^-λ`,
/// `λ = θ − η ln c`, `θ ← clip(θ + η (spent − aim) / memory)`. This is dual mirror descent
/// (Balseiro, Lu and Mirrokni, "The Best of Many Worlds: Dual Mirror Descent for Online Allocation
/// Problems", Operations Research 2023) with a step in units of money, independent of the slot's
/// length:
///
/// - `aim` is the slot's part of the curve, for the requests that really came, times `c`.
/// - `c` corrects spend off the curve, and lowers the aim per request when more come than expected.
///   It ignores price changes within minutes, which would cost value to follow.
/// - `memory` is the spend over which errors are averaged: `2 e^p √(noise · budget)`, where `noise`
///   is the observed variance of spend per unit spent. So the dual rests on enough wins. At first
///   it is the spend so far plus four wins (Robbins and Monro, "A Stochastic Approximation Method",
///   1951).
/// - `p` falls while errors persist and rises while they alternate, from −2 to 1: with the best
///   memory they are uncorrelated (Mehra, "On the Identification of Variances and Adaptive Kalman
///   Filtering", IEEE Transactions on Automatic Control 1970).
///
/// Where a win costs its bid, the same step applies to the cost of bids, at half the gain because
/// the dual then moves prices as well as wins: `λ ← [λ − ε(ρ − c̃)]₊` (Wang, Yang, Deng and Kong,
/// "Learning to Bid in Repeated First-Price Auctions with Budgets", ICML 2023). There the bid
/// maximises `(v − (1 + λ) b) G(b)`; the distribution `G` of prices to beat is not observed here,
/// so the bid stays `v · e^-λ`. To keep a surplus anyway, set `multiplier_max` below 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlotDual {
    /// `η`, the dual's change per relative error: 0.01 to 2, by default 0.3, which is right if bids
    /// that are 3 % lower spend 10 % less.
    pub gain: f64,
    /// Share of the curve over which a small deviation is corrected: 0.01 to 1 (the whole rest), by
    /// default 0.3. A deviation of 2 % of the budget is corrected over half of it; the share grows
    /// where chance alone causes deviations above 1.4 %. A smaller share follows the curve more
    /// closely and buys less.
    pub catch_up: f64,
    /// How far the aim follows actual instead of expected requests: 0 to 1, by default 0.5. A
    /// larger value buys more in unforeseen bursts, and strays further from the curve.
    pub follow: f64,
    /// The first multiplier: 0.0068 to 1, by default 0.1. Low: unspent budget can be spent later.
    pub start: f64,
    /// The largest multiplier: 0.0068 to 148, by default 1, never above the value.
    pub multiplier_max: f64,
    /// The price of a win.
    pub pricing: AuctionPricing,
}

impl Default for SlotDual {
    fn default() -> Self {
        Self {
            gain: 0.3,
            catch_up: 0.3,
            follow: 0.5,
            start: 0.1,
            multiplier_max: 1.0,
            pricing: AuctionPricing::SecondPrice,
        }
    }
}

/// The price that a campaign's auctions charge the winner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuctionPricing {
    /// The price to beat.
    #[default]
    SecondPrice,
    /// The winner's bid.
    FirstPrice,
}

/// A gain outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {value}: choose {} to {}", .range.0, .range.1)]
pub struct OutOfRange {
    /// The gain's key.
    pub key: &'static str,
    /// The given value.
    pub value: f64,
    /// Least and greatest allowed value.
    pub range: (f64, f64),
}

const START: RangeInclusive<f64> = 0.0068..=1.0;
const MULTIPLIER: RangeInclusive<f64> = 0.0068..=148.0;

impl StrategySettings {
    /// Its name in configuration, on the command line and in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Asap => "asap",
            Self::Even => "even",
            Self::Throttle(_) => "throttle",
            Self::Pid(_) => "pid",
            Self::Adaptive(_) => "adaptive",
            Self::SlotDual(_) => "slot_dual",
        }
    }

    /// Whether it sets bid prices, rather than only choosing requests.
    pub const fn changes_prices(&self) -> bool {
        match self {
            Self::Asap | Self::Even | Self::Throttle(_) => false,
            Self::Pid(_) | Self::Adaptive(_) | Self::SlotDual(_) => true,
        }
    }

    /// All strategies with their defaults, baselines first.
    pub fn all() -> [Self; 6] {
        [
            Self::Asap,
            Self::Even,
            Self::Throttle(Throttle::default()),
            Self::Pid(Pid::default()),
            Self::Adaptive(Adaptive::default()),
            Self::default(),
        ]
    }

    /// The strategy of that name with its defaults. None if no strategy has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|settings| settings.name() == name)
    }

    fn gains(&mut self) -> Vec<(&'static str, &mut f64, RangeInclusive<f64>)> {
        match self {
            Self::Asap | Self::Even => Vec::new(),
            Self::Throttle(it) => vec![
                ("up", &mut it.up, 1.01..=2.0),
                ("down", &mut it.down, 0.5..=0.99),
                ("start", &mut it.start, 0.0001..=1.0),
            ],
            Self::Pid(it) => vec![
                ("proportional", &mut it.proportional, 0.0..=5.0),
                ("integral", &mut it.integral, 0.001..=2.0),
                ("derivative", &mut it.derivative, 0.0..=2.0),
                ("start", &mut it.start, START),
                ("multiplier_max", &mut it.multiplier_max, MULTIPLIER),
            ],
            Self::Adaptive(it) => vec![
                ("step", &mut it.step, 0.01..=100.0),
                ("start", &mut it.start, START),
                ("multiplier_max", &mut it.multiplier_max, START),
            ],
            Self::SlotDual(it) => vec![
                ("gain", &mut it.gain, 0.01..=2.0),
                ("catch_up", &mut it.catch_up, 0.01..=1.0),
                ("follow", &mut it.follow, 0.0..=1.0),
                ("start", &mut it.start, START),
                ("multiplier_max", &mut it.multiplier_max, MULTIPLIER),
            ],
        }
    }

    /// The gain of that key. None if the strategy has no such gain.
    pub fn gain(&mut self, key: &str) -> Option<&mut f64> {
        self.gains().into_iter().find(|(known, ..)| *known == key).map(|(_, gain, _)| gain)
    }

    /// Every gain out of its range.
    pub fn problems(&self) -> Vec<OutOfRange> {
        let mut all = *self;
        let outside = all.gains().into_iter().filter(|(_, value, range)| !range.contains(*value));
        outside
            .map(|(key, value, range)| OutOfRange {
                key,
                value: *value,
                range: (*range.start(), *range.end()),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;

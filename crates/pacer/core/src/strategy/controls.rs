//! The control variables of each strategy, and their update at the end of a slot.

mod dual;

use super::pace::BidPace;
use super::settings::{Adaptive, DUAL_MAX, Pid, StrategySettings, Throttle};
use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder};

/// A strategy's memory. All share the dual and the rate, so that one can take over from another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Controls {
    /// The logarithm of the divisor of values.
    pub(super) dual: f64,
    pub(super) rate: f64,
    /// The relative error of the last slot, or its mean over the memory of the default strategy.
    error: f64,
    /// The sum of relative errors, in units of the dual: the dual on the curve.
    integral: f64,
    /// Cost of a request if all are bid for, in nanos.
    cost: f64,
    /// Variance of spend per nano spent; 0 until known.
    noise: f64,
    /// The logarithm of a factor of the default strategy's memory.
    patience: f64,
    /// Spend while learning a dual, in nanos, up to the memory.
    learned: f64,
}

/// Figures of an ended slot, or with `_all` since the start of the flight; money in nanos.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotFrame {
    /// Share of all traffic expected until now.
    pub(super) traffic: f64,
    /// Share of all traffic expected in the slot.
    pub(super) traffic_slot: f64,
    pub(super) requests: f64,
    pub(super) requests_all: f64,
    pub(super) wins_all: f64,
    pub(super) spent: f64,
    pub(super) spent_all: f64,
    pub(super) budget: f64,
    /// For the slot, according to the curve alone.
    pub(super) planned: f64,
    /// Spent beyond the curve at the start of the slot.
    pub(super) ahead_before: f64,
    pub(super) ahead: f64,
    /// From the start of the slot to the end of the flight, according to the curve alone.
    pub(super) plan_left: f64,
    /// Over the whole curve.
    pub(super) base: f64,
    /// What the curve allows until the next slot ends.
    pub(super) allowance: f64,
}

impl Controls {
    pub(super) fn start(settings: &StrategySettings) -> Self {
        // Unused controls start low, for a strategy that takes over later.
        let (multiplier, rate) = match settings {
            StrategySettings::Asap | StrategySettings::Even => (CAUTIOUS_MULTIPLIER, CAUTIOUS_RATE),
            StrategySettings::Throttle(it) => (CAUTIOUS_MULTIPLIER, it.start),
            StrategySettings::Pid(it) => (it.start.min(it.multiplier_max), CAUTIOUS_RATE),
            StrategySettings::Adaptive(it) => (it.start.min(it.multiplier_max), CAUTIOUS_RATE),
            StrategySettings::SlotDual(it) => (it.start.min(it.multiplier_max), CAUTIOUS_RATE),
        };
        let dual = held(libm::log(1.0 / multiplier), -DUAL_MAX);
        Self {
            dual,
            rate,
            error: 0.0,
            integral: dual,
            cost: 0.0,
            noise: 0.0,
            patience: 0.0,
            learned: 0.0,
        }
    }

    pub(super) fn encode(&self, into: &mut StateEncoder<'_>) {
        self.figures().into_iter().for_each(|figure| into.f64(figure));
    }

    const fn figures(&self) -> [f64; 8] {
        let Self { dual, rate, error, integral, cost, noise, patience, learned } = *self;
        [dual, rate, error, integral, cost, noise, patience, learned]
    }

    pub(super) fn decode(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        Ok(Self {
            dual: from.f64_in("the dual", -DUAL_MAX..=DUAL_MAX)?,
            rate: from.f64_in("the rate", 0.0..=1.0)?,
            error: from.f64_in("the error", f64::MIN..=f64::MAX)?,
            integral: from.f64_in("the sum of errors", -DUAL_MAX..=DUAL_MAX)?,
            cost: from.f64_in("the cost of a request", 0.0..=MONEY_MAX)?,
            noise: from.f64_in("the noise", 0.0..=MONEY_MAX)?,
            patience: from.f64_in("the patience", PATIENCE_MIN..=PATIENCE_MAX)?,
            learned: from.f64_in("what was learned from", 0.0..=MONEY_MAX)?,
        })
    }

    /// The first version had two more figures of the default strategy, which are skipped.
    pub(super) fn decode_first(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        let dual = from.f64_in("the dual", -DUAL_MAX..=DUAL_MAX)?;
        let rate = from.f64_in("the rate", 0.0..=1.0)?;
        let error = from.f64_in("the error", f64::MIN..=f64::MAX)?;
        from.f64_in("the mean square error", 0.0..=f64::MAX)?;
        let integral = from.f64_in("the sum of errors", -DUAL_MAX..=DUAL_MAX)?;
        from.f64_in("the trust", f64::MIN..=f64::MAX)?;
        let cost = from.f64_in("the cost of a request", 0.0..=MONEY_MAX)?;
        Ok(Self { dual, rate, error, integral, cost, noise: 0.0, patience: 0.0, learned: 0.0 })
    }

    #[cfg(test)]
    pub(super) fn is_finite(&self) -> bool {
        self.figures().into_iter().all(f64::is_finite)
    }

    /// As if spend were on the curve.
    pub(super) const fn on_curve(self) -> Self {
        Self { dual: self.integral, ..self }
    }

    pub(super) fn pace(&self, settings: &StrategySettings) -> BidPace {
        match settings {
            StrategySettings::Asap => BidPace::FULL,
            StrategySettings::Even | StrategySettings::Throttle(_) => BidPace::new(1.0, self.rate),
            StrategySettings::Pid(_)
            | StrategySettings::Adaptive(_)
            | StrategySettings::SlotDual(_) => BidPace::new(libm::exp(-self.dual), 1.0),
        }
    }

    pub(super) fn stepped(self, settings: &StrategySettings, frame: &SlotFrame) -> Self {
        match settings {
            StrategySettings::Asap => self,
            StrategySettings::Even => self.even(frame),
            StrategySettings::Throttle(it) => self.throttle(it, frame),
            StrategySettings::Pid(it) => self.pid(it, frame),
            StrategySettings::Adaptive(it) => self.adaptive(it, frame),
            StrategySettings::SlotDual(it) => self.slot_dual(it, frame),
        }
    }

    /// Bids for the share of requests that the curve can pay for; none if it allows no spend.
    fn even(self, frame: &SlotFrame) -> Self {
        let bid_for = self.rate * frame.requests;
        let cost = match (bid_for >= 1.0, self.cost > 0.0) {
            (false, _) => self.cost,
            (true, false) => frame.spent / bid_for,
            (true, true) => self.cost + EVEN_MEMORY * (frame.spent / bid_for - self.cost),
        };
        let all = cost * frame.requests;
        let rate = if frame.allowance <= 0.0 {
            0.0
        } else if all > 0.0 {
            (frame.allowance / all).min(1.0)
        } else {
            (self.rate * 2.0).clamp(CAUTIOUS_RATE, 1.0)
        };
        Self { rate, cost, ..self }
    }

    fn throttle(self, it: &Throttle, frame: &SlotFrame) -> Self {
        if frame.is_idle() {
            return self;
        }
        let factor = if frame.ahead > 0.0 { it.down } else { it.up };
        Self { rate: (self.rate * factor).clamp(RATE_MIN, 1.0), ..self }
    }

    fn pid(self, it: &Pid, frame: &SlotFrame) -> Self {
        if frame.is_idle() {
            return self;
        }
        let error = frame.error(CATCH_UP);
        let least = least_dual(it.multiplier_max);
        let wanted = self.integral + it.integral * error;
        let raw = wanted + it.proportional * error + it.derivative * (error - self.error);
        let dual = held(raw, least);
        // Anti-windup: limits the sum to the actuator's range.
        let integral = held(wanted, least);
        Self { dual, integral, error, ..self }
    }

    fn adaptive(self, it: &Adaptive, frame: &SlotFrame) -> Self {
        if frame.is_idle() || frame.traffic <= 0.0 {
            return self;
        }
        let requests = frame.requests_all / frame.traffic;
        let per_request = frame.budget / requests;
        let over = frame.spent / per_request - frame.requests;
        let before = libm::exp(self.dual) - 1.0;
        let after = before + it.step / requests.sqrt() * over;
        let dual = libm::log(1.0 + after.max(0.0));
        let dual = held(dual, least_dual(it.multiplier_max));
        Self { dual, integral: dual, ..self }
    }
}

/// Share of each value to bid until one slot was seen.
const CAUTIOUS_MULTIPLIER: f64 = 0.1;

/// Share of requests to bid for until one slot was seen.
const CAUTIOUS_RATE: f64 = 1.0 / 64.0;

/// Weight of the last slot in the mean cost of a request.
const EVEN_MEMORY: f64 = 0.2;

/// Maximum cost in nanos: more cannot be spent.
const MONEY_MAX: f64 = u64::MAX as f64;

/// Minimum share: it grows back to 1 within a hundred slots.
const RATE_MIN: f64 = 0.0001;

/// Share of the plan over which PID corrects a deviation.
const CATCH_UP: f64 = 0.05;

/// Bounds of the logarithm of the memory's factor.
const PATIENCE_MIN: f64 = -2.0;
const PATIENCE_MAX: f64 = 1.0;

const ERROR_MAX: f64 = 3.0;

impl SlotFrame {
    /// Whether the slot shows nothing: no budget to spend, or no requests.
    fn is_idle(&self) -> bool {
        self.planned <= 0.0 || self.requests <= 0.0
    }

    /// Part of the plan over which a deviation is corrected: at least the slot, at most the rest.
    fn horizon(&self, catch_up: f64) -> f64 {
        (catch_up * self.base).min(self.plan_left).max(self.planned)
    }

    /// Excess of the slot's spend, relative to its part of the plan less earlier excess.
    fn error(&self, catch_up: f64) -> f64 {
        let corrected = self.planned * (1.0 - self.ahead_before / self.horizon(catch_up));
        let aim = corrected.max(self.planned / 8.0);
        ((self.spent - corrected.max(0.0)) / aim).min(ERROR_MAX)
    }
}

fn held(dual: f64, least: f64) -> f64 {
    if dual.is_nan() { DUAL_MAX } else { dual.clamp(least, DUAL_MAX) }
}

fn least_dual(multiplier_max: f64) -> f64 {
    let dual = libm::log(1.0 / multiplier_max);
    if dual.is_nan() { 0.0 } else { dual.clamp(-DUAL_MAX, DUAL_MAX) }
}

#[cfg(test)]
mod tests;

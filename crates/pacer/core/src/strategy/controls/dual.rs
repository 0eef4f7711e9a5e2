//! The default: dual descent slot by slot.

use super::{Controls, Frame, held, least_dual};
use crate::strategy::settings::{Pricing, SlotDual};

/// A slot that aims at so many wins counts half as much as a sure one.
const WINS_HALF: f64 = 8.0;

/// As long as there have been few wins, fewer do: the first ones teach most.
const WINS_HALF_FIRST: f64 = 1.0;
const WINS_PER_HALF: f64 = 16.0;

/// No slot moves the dual further.
const MOVE_MAX: f64 = 1.0;

/// No relative error counts for more: its square stays a number. The least is -1.
const ERROR_MAX: f64 = 100.0;

/// Requests of a slot count as at most so many times those that were expected.
const BURST_MAX: f64 = 8.0;

/// How much of the mean square error is that of the last slot.
const POWER_MEMORY: f64 = 0.05;

/// How fast the gain changes, and the logarithms of the least and the most of what it is multiplied
/// by.
const TRUST_RATE: f64 = 0.02;
pub(super) const TRUST_MIN: f64 = -3.0;
pub(super) const TRUST_MAX: f64 = 1.0;

impl Controls {
    pub(super) fn slot_dual(self, it: &SlotDual, frame: &Frame) -> Self {
        if frame.is_idle() {
            return self;
        }
        let aim = frame.aim(it);
        let cost = if frame.wins_all > 0.0 { frame.spent_all / frame.wins_all } else { 0.0 };
        let half = (WINS_HALF_FIRST + frame.wins_all / WINS_PER_HALF).min(WINS_HALF);
        // Towards the end there is no later slot that could say more.
        let scale = aim + half * cost * frame.still_to_come(it.catch_up);
        // Nothing is aimed at, and nothing was ever won: there is nothing to learn.
        let error = if scale > 0.0 { (frame.spent - aim) / scale } else { 0.0 };
        let error = error.min(ERROR_MAX);
        let power = self.power + POWER_MEMORY * (error * error - self.power);
        let alike = if power > 0.0 { (error * self.error / power).clamp(-1.0, 1.0) } else { 0.0 };
        let trust = (self.trust + TRUST_RATE * alike).clamp(TRUST_MIN, TRUST_MAX);
        let gain = match it.pricing {
            Pricing::SecondPrice => it.gain,
            Pricing::FirstPrice => it.gain / 2.0,
        };
        let moved = (gain * libm::exp(trust) * error).clamp(-MOVE_MAX, MOVE_MAX);
        let dual = held(self.dual + moved, least_dual(it.multiplier_max));
        Self { dual, integral: dual, error, power, trust, ..self }
    }
}

impl Frame {
    /// What the slot should have spent.
    fn aim(&self, it: &SlotDual) -> f64 {
        let expected = if self.traffic > 0.0 {
            self.requests_all * self.traffic_slot / self.traffic
        } else {
            0.0
        };
        let came = if expected > 0.0 { (self.requests / expected).min(BURST_MAX) } else { 1.0 };
        // At the end of the curve no traffic is to come that could make good what this slot leaves.
        let follow = it.follow * self.still_to_come(it.catch_up);
        let traffic = 1.0 + follow * (came - 1.0);
        let back = self.ahead_before / self.horizon(it.catch_up) * traffic.max(1.0);
        (self.planned * (traffic - back)).max(0.0)
    }

    /// 1, until less of the curve is left than what a deviation is made good over; then falling to
    /// 0.
    fn still_to_come(&self, catch_up: f64) -> f64 {
        (self.plan_left / (catch_up * self.base)).min(1.0)
    }
}

//! The default strategy: dual descent over enough spend to distinguish deviations from chance.
//!
//! One slot with few wins spends mostly by chance, so it moves the dual little. All measures are in
//! money, not in slots: the same day gives nearly the same duals for any length of slot.

use super::{Controls, MONEY_MAX, PATIENCE_MAX, PATIENCE_MIN, SlotFrame, held, least_dual};
use crate::strategy::settings::{AuctionPricing, SlotDual};

/// The memory, in square roots of noise times curve: long enough to keep the dual's noise cheap,
/// short enough to follow prices that change within hours.
const MEMORY: f64 = 2.0;

/// The shortest memory, as a share of the curve: three minutes of a day.
const MEMORY_MIN: f64 = 0.002;

/// Wins assumed before the first, to damp the first moves.
const WINS_FIRST: f64 = 4.0;

/// The assumed cost of a win before the first, in requests' budget on the curve.
const REQUESTS_A_WIN: f64 = 4.0;

const MOVE_MAX: f64 = 1.0;

/// A slot counts at most this multiple of the expected requests, plus this number.
const BURST_MAX: f64 = 8.0;

/// Weight of the last win in the noise.
const NOISE_MEMORY: f64 = 0.01;

/// Upper bound of the mean relative error; the lower is -1.
const ERROR_MAX: f64 = 3.0;

const PATIENCE_RATE: f64 = 0.1;

/// A deviation of this share of the curve is corrected twice as fast as a small one.
const DEVIATION: f64 = 0.02;

/// If chance causes deviations above this share of the curve, all are corrected slower.
const CHANCE: f64 = 0.014;

/// Bounds of a slot's aim per request, relative to the curve's.
const CORRECTION_MIN: f64 = 0.1;
const CORRECTION_MAX: f64 = 10.0;

/// Expected requests added to a slot's, so that a few extra by chance are not a burst.
const REQUESTS_ADDED: f64 = 20.0;

/// Share of the curve below which no later traffic could correct underspend.
const END: f64 = 0.08;

struct Deviation {
    /// Variance of spend per nano spent: above the cost of a win if costs differ.
    noise: f64,
    /// Spend over which deviations are averaged.
    memory: f64,
    aim: f64,
    error: f64,
}

impl Controls {
    pub(super) fn slot_dual(self, it: &SlotDual, frame: &SlotFrame) -> Self {
        if frame.is_idle() {
            return self;
        }
        let gain = match it.pricing {
            AuctionPricing::SecondPrice => it.gain,
            AuctionPricing::FirstPrice => it.gain / 2.0,
        };
        let slot = Deviation::of(&self, gain, frame);
        let learned = self.learned.min(slot.memory);
        let weight = frame.planned + learned + WINS_FIRST * slot.noise;
        let moved = (gain * slot.error / weight).clamp(-MOVE_MAX, MOVE_MAX);
        let least = least_dual(it.multiplier_max);
        let level = held(self.integral + moved, least);
        let (error, patience) = if learned < slot.memory {
            (0.0, self.patience)
        } else {
            (self.mean_error(&slot, frame), self.patience_after(&slot))
        };
        Self {
            dual: held(level - gain * libm::log(frame.correction(it, slot.noise)), least),
            integral: level,
            noise: self.noise_after(&slot, frame),
            learned: (learned + frame.spent.min(slot.aim)).min(slot.memory),
            error,
            patience,
            ..self
        }
    }

    /// The aim of the ended slot relative to the curve's, within the dual's range.
    fn correction(&self, gain: f64) -> f64 {
        libm::exp((self.integral - self.dual) / gain).clamp(CORRECTION_MIN, CORRECTION_MAX)
    }

    fn mean_error(&self, slot: &Deviation, frame: &SlotFrame) -> f64 {
        let part = (frame.planned / slot.memory).min(1.0);
        let error = self.error + part * (slot.error / frame.planned - self.error);
        error.clamp(-1.0, ERROR_MAX)
    }

    /// Persistent errors shorten the memory, alternating ones lengthen it.
    fn patience_after(&self, slot: &Deviation) -> f64 {
        let alike = (self.error * slot.error / slot.noise).clamp(-1.0, 1.0);
        (self.patience - PATIENCE_RATE * alike).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// The mean over some wins; before a flight's first win, the previous flight's, or 0.
    fn noise_after(&self, slot: &Deviation, frame: &SlotFrame) -> f64 {
        let Some(cost) = frame.cost() else { return self.noise };
        let wins = (slot.aim / cost).min(1.0);
        let square = if slot.aim > 0.0 { slot.error * slot.error / slot.aim } else { slot.noise };
        let noise = slot.noise + NOISE_MEMORY * wins * (square.min(frame.base) - slot.noise);
        noise.clamp(0.0, MONEY_MAX)
    }
}

impl Deviation {
    fn of(controls: &Controls, gain: f64, frame: &SlotFrame) -> Self {
        let noise = if controls.noise > 0.0 { controls.noise } else { frame.first_noise() };
        let memory = MEMORY * libm::exp(controls.patience) * (noise * frame.base).sqrt();
        let expected = frame.expected();
        let came = (frame.requests / expected).min(BURST_MAX + BURST_MAX / expected);
        let aim = frame.planned * came * controls.correction(gain);
        Self {
            noise,
            memory: memory.clamp(MEMORY_MIN * frame.base, frame.base),
            aim,
            error: frame.spent - aim,
        }
    }
}

impl SlotFrame {
    /// Expected requests in the slot, extrapolated from the flight so far.
    fn expected(&self) -> f64 {
        self.requests_all * self.traffic_slot / self.traffic
    }

    /// The mean cost of a win. None before the first.
    fn cost(&self) -> Option<f64> {
        (self.wins_all > 0.0).then(|| self.spent_all / self.wins_all)
    }

    fn first_noise(&self) -> f64 {
        let requests = REQUESTS_A_WIN * self.planned / self.expected();
        self.cost().unwrap_or(0.0).max(requests)
    }

    /// The next slot's aim per request, relative to the curve's.
    fn correction(&self, it: &SlotDual, noise: f64) -> f64 {
        let left = self.plan_left - self.planned;
        let chance = (noise * self.base).sqrt();
        let usual = chance.max(DEVIATION * self.base);
        let horizon = it.catch_up * self.base.max(chance / CHANCE);
        let horizon = horizon / (1.0 + self.ahead.abs() / usual);
        let back = 1.0 - self.ahead / horizon.min(left).max(self.planned);
        // Assumes requests as in the last slot, and asks less of each if more came than expected.
        let expected = self.expected();
        let came = (self.requests + REQUESTS_ADDED) / (expected + REQUESTS_ADDED);
        let follow = it.follow * (left / (END * self.base)).min(1.0);
        let share = (1.0 + follow * (came - 1.0)) / came;
        (back.max(0.0) * share).clamp(CORRECTION_MIN, CORRECTION_MAX)
    }
}

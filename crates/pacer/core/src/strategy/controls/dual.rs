//! The default: dual descent over as much spend as tells a deviation from chance.
//!
//! What one slot spends is mostly chance where it wins little, so a slot by itself moves the dual
//! little. Everything is measured in money, not in slots: the same day gives nearly the same duals,
//! whatever the length of a slot.

use super::{Controls, MONEY_MAX, PATIENCE_MAX, PATIENCE_MIN, SlotFrame, held, least_dual};
use crate::strategy::settings::{AuctionPricing, SlotDual};

/// The memory, in square roots of noise times curve: long enough for the noise of the dual to cost
/// little, short enough to follow prices that change within hours.
const MEMORY: f64 = 2.0;

/// The shortest memory, as a share of the curve: three minutes of a day.
const MEMORY_MIN: f64 = 0.002;

/// The first wins move the dual as little as if so many had been seen before.
const WINS_FIRST: f64 = 4.0;

/// Until a win has told what one costs, it costs as much as the curve has for so many requests.
const REQUESTS_A_WIN: f64 = 4.0;

/// No slot moves the dual further.
const MOVE_MAX: f64 = 1.0;

/// Requests of a slot count as at most so many times those that were expected, and so many more.
const BURST_MAX: f64 = 8.0;

/// How much of the noise is that of the last win.
const NOISE_MEMORY: f64 = 0.01;

/// The mean relative error counts as no more than this; the least is -1.
const ERROR_MAX: f64 = 3.0;

/// How fast patience changes.
const PATIENCE_RATE: f64 = 0.1;

/// A deviation from the curve by this share of it is made good twice as fast as a small one.
const DEVIATION: f64 = 0.02;

/// Where chance makes greater deviations than this share of the curve, all are made good as much
/// more slowly.
const CHANCE: f64 = 0.014;

/// A slot asks for no less than this part of what the curve has for its requests, and no more.
const CORRECTION_MIN: f64 = 0.1;
const CORRECTION_MAX: f64 = 10.0;

/// So many requests that come as expected are added to a slot's: else a few by chance are a burst.
const REQUESTS_ADDED: f64 = 20.0;

/// When less of the curve is left, no traffic is to come that could make good what is left unspent.
const END: f64 = 0.08;

/// What a slot spent beside what it should have; money in nanos.
struct Deviation {
    /// The mean square by which spend scatters, for each nano that is spent: more than the cost of a
    /// win, where costs differ.
    noise: f64,
    /// Over how much spend deviations are averaged before they are followed.
    memory: f64,
    /// What the slot should have spent.
    aim: f64,
    /// How much more it did.
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

    /// What the slot that ended was asked for, as a part of what the curve had for its requests: as
    /// far as the dual could go.
    fn correction(&self, gain: f64) -> f64 {
        libm::exp((self.integral - self.dual) / gain).clamp(CORRECTION_MIN, CORRECTION_MAX)
    }

    /// Of the memory, relative.
    fn mean_error(&self, slot: &Deviation, frame: &SlotFrame) -> f64 {
        let part = (frame.planned / slot.memory).min(1.0);
        let error = self.error + part * (slot.error / frame.planned - self.error);
        error.clamp(-1.0, ERROR_MAX)
    }

    /// Errors that persist call for a shorter memory, errors that alternate for a longer one: of the
    /// best memory they are unrelated.
    fn patience_after(&self, slot: &Deviation) -> f64 {
        let alike = (self.error * slot.error / slot.noise).clamp(-1.0, 1.0);
        (self.patience - PATIENCE_RATE * alike).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// The mean over some wins. Before the first win of a flight: as the flight before left it, 0 at first.
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
    /// How many requests were expected in the slot, by what has come until now.
    fn expected(&self) -> f64 {
        self.requests_all * self.traffic_slot / self.traffic
    }

    /// The mean of a win; none before the first.
    fn cost(&self) -> Option<f64> {
        (self.wins_all > 0.0).then(|| self.spent_all / self.wins_all)
    }

    fn first_noise(&self) -> f64 {
        let requests = REQUESTS_A_WIN * self.planned / self.expected();
        self.cost().unwrap_or(0.0).max(requests)
    }

    /// What part of what the curve has for a request the next slot is to spend on one.
    fn correction(&self, it: &SlotDual, noise: f64) -> f64 {
        let left = self.plan_left - self.planned;
        let chance = (noise * self.base).sqrt();
        let usual = chance.max(DEVIATION * self.base);
        let horizon = it.catch_up * self.base.max(chance / CHANCE);
        let horizon = horizon / (1.0 + self.ahead.abs() / usual);
        let back = 1.0 - self.ahead / horizon.min(left).max(self.planned);
        // Requests are taken to come as in the last slot, and each is asked for less where there are
        // more than expected.
        let expected = self.expected();
        let came = (self.requests + REQUESTS_ADDED) / (expected + REQUESTS_ADDED);
        let follow = it.follow * (left / (END * self.base)).min(1.0);
        let share = (1.0 + follow * (came - 1.0)) / came;
        (back.max(0.0) * share).clamp(CORRECTION_MIN, CORRECTION_MAX)
    }
}

//! The step at the end of a slot: from one state to the next.

use units::Nanos;

use super::controls::{Controls, SlotFrame};
use super::observed::ObservedTotals;
use super::pace::BidPace;
use super::settings::StrategySettings;
use super::target::SpendTarget;
use super::week::TIME_MAX_MS;
use crate::encoding::{StateDecodeError, StateDecoder, StateEncoder};

/// A strategy's memory of a flight between slots: 136 bytes, encoded to the bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrategyState {
    /// End of the last slot, to which the next two fields belong; 0 before the first.
    at_ms: u64,
    seen: ObservedTotals,
    /// The budget then, in nanos.
    budget: u64,
    /// The share of the target at the last change of the budget, where the curve restarts.
    base_share: f64,
    /// Spent by then, in nanos.
    base_spent: u64,
    controls: Controls,
    is_spent: bool,
}

/// The end of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEnd {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The end of the next slot.
    pub next_ms: u64,
    /// The flight's total budget: the tightest of its limits.
    pub budget: Nanos,
}

impl StrategyState {
    /// Before any observation.
    pub fn start(settings: &StrategySettings) -> Self {
        Self {
            at_ms: 0,
            seen: ObservedTotals::default(),
            budget: 0,
            base_share: 0.0,
            base_spent: 0,
            controls: Controls::start(settings),
            is_spent: false,
        }
    }

    pub(crate) fn encode(&self, into: &mut StateEncoder<'_>) {
        let Self { at_ms, seen, budget, base_share, base_spent, controls, is_spent } = self;
        into.u64(*at_ms);
        seen.encode(into);
        into.u64(*budget);
        into.f64(*base_share);
        into.u64(*base_spent);
        controls.encode(into);
        into.flag(*is_spent);
    }

    pub(crate) fn decode(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        Self::decode_with(from, Controls::decode)
    }

    /// Decodes the first version; the default strategy learns the noise of its spend anew.
    pub(crate) fn decode_first(from: &mut StateDecoder<'_>) -> Result<Self, StateDecodeError> {
        Self::decode_with(from, Controls::decode_first)
    }

    fn decode_with<'b>(
        from: &mut StateDecoder<'b>,
        controls: impl FnOnce(&mut StateDecoder<'b>) -> Result<Controls, StateDecodeError>,
    ) -> Result<Self, StateDecodeError> {
        let at_ms = from.u64_to("the time", TIME_MAX_MS)?;
        let (seen, budget) = (ObservedTotals::decode(from)?, from.u64()?);
        Ok(Self {
            at_ms,
            seen,
            budget,
            base_share: from.f64_in("the share", 0.0..=1.0)?,
            base_spent: from.u64_to("what was spent", budget)?,
            controls: controls(from)?,
            is_spent: from.flag("whether all is spent")?,
        })
    }

    pub(crate) const fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Attributes new observations to earlier slots, so that nothing is learned from them.
    #[must_use]
    pub(crate) fn skipped(self, observed: ObservedTotals) -> Self {
        Self { seen: self.seen.merged(observed), ..self }
    }

    /// The first state of the next flight, such as the next day: without observations, and with
    /// what was learned about prices. Deviations from the old curve are dropped.
    #[must_use]
    pub fn next_flight(self, settings: &StrategySettings) -> Self {
        Self { controls: self.controls.on_curve(), ..Self::start(settings) }
    }

    /// How to bid until the next slot ends.
    pub fn pace(&self, settings: &StrategySettings) -> BidPace {
        if self.is_spent { BidPace::NONE } else { self.controls.pace(settings) }
    }

    /// The logarithm of the divisor of values; 0 bids at value.
    pub const fn dual(&self) -> f64 {
        self.controls.dual
    }

    /// The share of requests bid for, if the strategy throttles.
    pub const fn rate(&self) -> f64 {
        self.controls.rate
    }

    /// Planned spend by a time, in nanos, on the last step's curve: the target's share of the
    /// budget, unless the budget changed.
    pub fn planned(&self, target: &SpendTarget, at_ms: u64) -> f64 {
        let (base, spent) = (self.base_share, self.base_spent as f64);
        let left = (self.budget as f64 - spent).max(0.0);
        let share = target.share(at_ms);
        if base >= 1.0 || share >= 1.0 {
            spent + left
        } else {
            spent + left * ((share - base) / (1.0 - base)).max(0.0)
        }
    }
}

/// The state after a slot. A slot that ends no later than the last one changes nothing. `observed`
/// are the latest cumulative figures of the flight, however incomplete.
#[must_use]
pub fn step(
    settings: &StrategySettings,
    target: &SpendTarget,
    state: StrategyState,
    observed: ObservedTotals,
    slot: SlotEnd,
) -> StrategyState {
    if slot.now_ms <= state.at_ms {
        return state;
    }
    let seen = state.seen.merged(observed);
    let planning = state.rebased(target, slot.budget.get());
    let frame = SlotFrame::new(target, &planning, seen, slot);
    let controls = planning.controls.stepped(settings, &frame);
    StrategyState {
        at_ms: slot.now_ms,
        seen,
        controls,
        is_spent: seen.spent >= planning.budget || slot.now_ms >= target.flight().end_ms,
        ..planning
    }
}

impl StrategyState {
    /// Changes the budget. The curve continues from the present spend to the new budget: the change
    /// is spread over the rest of the flight instead of corrected at once.
    fn rebased(self, target: &SpendTarget, budget: u64) -> Self {
        if budget == self.budget {
            return self;
        }
        let is_first = self.at_ms == 0;
        Self {
            budget,
            base_share: if is_first { 0.0 } else { target.share(self.at_ms) },
            base_spent: if is_first { 0 } else { self.seen.spent.min(budget) },
            ..self
        }
    }
}

impl SlotFrame {
    fn new(
        target: &SpendTarget,
        state: &StrategyState,
        seen: ObservedTotals,
        slot: SlotEnd,
    ) -> Self {
        let slot_seen = seen.since(state.seen);
        let plan = |at_ms| state.planned(target, at_ms);
        let (before, now) = (plan(state.at_ms), plan(slot.now_ms));
        let budget = state.budget as f64;
        let traffic = target.traffic(slot.now_ms);
        Self {
            traffic,
            traffic_slot: traffic - target.traffic(state.at_ms),
            requests: slot_seen.requests as f64,
            requests_all: seen.requests as f64,
            wins_all: seen.wins as f64,
            spent: slot_seen.spent as f64,
            spent_all: seen.spent as f64,
            budget,
            planned: now - before,
            ahead_before: state.seen.spent as f64 - before,
            ahead: seen.spent as f64 - now,
            plan_left: budget - before,
            base: budget - state.base_spent as f64,
            allowance: (plan(slot.next_ms) - seen.spent as f64).max(0.0),
        }
    }
}

const _: () = assert!(size_of::<StrategyState>() <= 136, "a hundred thousand states are 14 MB");

#[cfg(test)]
mod tests;

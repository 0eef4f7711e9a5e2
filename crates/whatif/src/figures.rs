//! The figures that judge a replay. It must not know how a replay is made or shown.

use serde::Serialize;
use units::Nanos;

use crate::curve::ratio;
use crate::optimum::Optimum;
use crate::replay::{ReplayResult, Sample};

/// How well a strategy spent a budget. Spend errors are sampled at the end of every slot, so that
/// equal durations count equally, whatever their traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Bids made.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// Cost of the wins.
    pub spent_nanos: u128,
    /// The part of the cost beyond the budget.
    pub overspent_nanos: u128,
    /// Spend as a share of the budget.
    pub delivery: f64,
    /// Value of the wins.
    pub value_nanos: u128,
    /// The same as a share of the optimum's value; 1 if that is zero.
    pub value_of_optimum: f64,
    /// Root mean square of spend minus the strategy's own curve, as a share of the budget.
    pub rmse_target: f64,
    /// The same against spend that is even over the flight.
    pub rmse_even: f64,
    /// When lack of budget first cost an auction, in milliseconds since 1970.
    pub exhausted_ms: Option<u64>,
    /// The same as a share of the flight.
    pub exhausted_at: Option<f64>,
    /// Root mean square change of the multiplier's logarithm between slots; 0 if it never changes.
    pub multiplier_volatility: f64,
}

/// A flight and its budget, which is above zero.
#[derive(Clone, Copy, Debug)]
pub struct FlightBudget {
    /// Start of the flight.
    pub start_ms: u64,
    /// End of the flight.
    pub end_ms: u64,
    /// The budget.
    pub budget: Nanos,
    /// The purchase that is optimal in hindsight.
    pub optimum: Optimum,
}

impl Figures {
    /// The figures of a run.
    pub fn of(strategy: &'static str, run: &ReplayResult, setting: &FlightBudget) -> Self {
        let &FlightBudget { start_ms, end_ms, budget, optimum } = setting;
        let length_ms = end_ms.saturating_sub(start_ms);
        let whole = u128::from(budget.get());
        let spent = |sample: &Sample| share(sample.spent_nanos, whole);
        let planned = |sample: &Sample| sample.planned_nanos / float(whole);
        let even = |sample: &Sample| ratio(sample.time_ms.saturating_sub(start_ms), length_ms);
        let error = |wanted: &dyn Fn(&Sample) -> f64| {
            root_mean_square(run.samples.iter().map(|sample| spent(sample) - wanted(sample)))
        };
        Self {
            strategy,
            bids: run.bids,
            wins: run.wins,
            spent_nanos: run.billed_nanos,
            overspent_nanos: run.billed_nanos.saturating_sub(whole),
            delivery: share(run.billed_nanos, whole),
            value_nanos: run.value_nanos,
            value_of_optimum: share(run.value_nanos, optimum.value_nanos),
            rmse_target: error(&planned),
            rmse_even: error(&even),
            exhausted_ms: run.exhausted_ms,
            exhausted_at: run.exhausted_ms.map(|time_ms| ratio(time_ms - start_ms, length_ms)),
            multiplier_volatility: volatility(&run.samples),
        }
    }
}

/// Slots without bids have no multiplier: this compares the ones before and after them.
fn volatility(samples: &[Sample]) -> f64 {
    let multipliers = samples.iter().filter_map(|sample| sample.multiplier);
    let logs: Vec<f64> = multipliers
        .filter(|multiplier| *multiplier > 0)
        .map(|multiplier| libm::log(float(multiplier.into())))
        .collect();
    root_mean_square(logs.windows(2).map(|pair| pair[1] - pair[0]))
}

/// Zero for no errors.
fn root_mean_square(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        errors.fold((0.0, 0u64), |(sum, count), error| (sum + error * error, count + 1));
    if count == 0 { 0.0 } else { (sum / float(count.into())).sqrt() }
}

/// One if the whole is zero.
pub(crate) fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 1.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "15 digits are more than anyone reads")]
fn float(nanos: u128) -> f64 {
    nanos as f64
}

#[cfg(test)]
mod tests;

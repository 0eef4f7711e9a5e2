//! What a replay is judged by. Knows nothing of how it was made or is shown.

use serde::Serialize;
use units::Nanos;

use crate::curve::ratio;
use crate::optimum::Optimum;
use crate::replay::{ReplayResult, Sample};

/// How well a strategy spent a budget.
///
/// Errors of spend are sampled at the end of every slot, so that each stretch of time counts alike,
/// whatever its traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Its name.
    pub strategy: &'static str,
    /// Bids made.
    pub bids: u64,
    /// Bids that won.
    pub wins: u64,
    /// What they cost.
    pub spent_nanos: u128,
    /// What of that is beyond the budget.
    pub overspent_nanos: u128,
    /// What was spent, as a share of the budget.
    pub delivery: f64,
    /// What wins are worth.
    pub value_nanos: u128,
    /// And as a share of what hindsight would have bought; 1 where that is nothing.
    pub value_of_optimum: f64,
    /// Root of the mean square of cumulative spend less the strategy's own curve, as a share of the
    /// budget.
    pub rmse_target: f64,
    /// The same beside a spend that is even over the time of the flight.
    pub rmse_even: f64,
    /// When the first auction was missed for lack of budget, in milliseconds since 1970.
    pub exhausted_ms: Option<u64>,
    /// The same as a share of the flight.
    pub exhausted_at: Option<f64>,
    /// Root of the mean square of what the logarithm of the multiplier changed by from one slot to
    /// the next; nothing where it never changes.
    pub multiplier_volatility: f64,
}

/// Of a flight from `start_ms` to `end_ms` with `budget`, which is not nothing.
#[derive(Clone, Copy, Debug)]
pub struct FlightBudget {
    /// When the flight begins.
    pub start_ms: u64,
    /// When it is over.
    pub end_ms: u64,
    /// What may be spent.
    pub budget: Nanos,
    /// What hindsight would have bought.
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

/// Slots in which nothing is bid for have no multiplier: what lies before and after them is
/// compared.
fn volatility(samples: &[Sample]) -> f64 {
    let multipliers = samples.iter().filter_map(|sample| sample.multiplier);
    let logs: Vec<f64> = multipliers
        .filter(|multiplier| *multiplier > 0)
        .map(|multiplier| libm::log(float(multiplier.into())))
        .collect();
    root_mean_square(logs.windows(2).map(|pair| pair[1] - pair[0]))
}

/// Nothing of nothing.
fn root_mean_square(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        errors.fold((0.0, 0u64), |(sum, count), error| (sum + error * error, count + 1));
    if count == 0 { 0.0 } else { (sum / float(count.into())).sqrt() }
}

/// The whole where that is nothing.
pub(crate) fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 1.0 } else { float(part) / float(whole) }
}

/// For measuring alone.
#[expect(clippy::cast_precision_loss, reason = "15 digits are more than anyone reads")]
fn float(nanos: u128) -> f64 {
    nanos as f64
}

#[cfg(test)]
mod tests;

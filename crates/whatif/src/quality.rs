//! Measures the strategies on streams of every kind, for the bench and the tests.
//!
//! The traffic forecast comes from the six days before: streams of the same kind from other seeds,
//! so that the day's bursts are not foreseen. Wins cost the second price. It must not know how
//! results are shown.

use pacer_core::strategy::{CampaignFlight, StrategySettings};
use serde::{Serialize, Serializer};
use units::Ppm;

use crate::figures::Figures;
use crate::generate::{self, DAY_MS, GenerateError, Profile};
use crate::simulate::{
    SimulateError, SimulateOptions as Simulation, SimulatedBudget, SimulatedForecast, simulate,
};
use crate::stream::StreamAuction;

/// Smallest value of the default strategy, as a share of the optimum.
pub const VALUE_MIN: f64 = 0.95;

/// Largest root mean square error of the default from its own curve, as a share of the budget.
pub const RMSE_MAX: f64 = 0.02;

/// Smallest share of the budget that the default spends.
pub const DELIVERY_MIN: f64 = 0.99;

/// Budgets as shares of what bidding at value would spend: 1/32 and 1/8.
pub const SHARES: [Ppm; 2] =
    [Ppm::new(31_250).expect("below the whole"), Ppm::new(125_000).expect("below the whole")];

/// What to measure.
#[derive(Clone, Debug)]
pub struct QualityOptions {
    /// Kinds of streams; by default [`generate::profile::STEADY`].
    pub profiles: Vec<Profile>,
    /// Budgets; by default [`SHARES`].
    pub shares: Vec<Ppm>,
    /// Strategies; by default all.
    pub strategies: Vec<StrategySettings>,
    /// Auctions of each stream, over a day; by default 200,000.
    pub auctions: u64,
    /// Seed of the streams; the next six are for the days before. By default 1.
    pub seed: u64,
}

impl Default for QualityOptions {
    fn default() -> Self {
        Self {
            profiles: generate::profile::STEADY.to_vec(),
            shares: SHARES.to_vec(),
            strategies: StrategySettings::all().to_vec(),
            auctions: 200_000,
            seed: 1,
        }
    }
}

/// One strategy, one budget, one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QualityRow {
    /// The kind of stream.
    pub profile: &'static str,
    /// The budget, in parts per million of what bidding at value would spend.
    #[serde(rename = "share_ppm", serialize_with = "as_parts")]
    pub share: Ppm,
    /// Whether it is the default strategy, to which the targets apply.
    pub is_default: bool,
    /// Its figures.
    pub figures: Figures,
}

impl QualityRow {
    /// The targets that it misses: `overspent`, `value`, `rmse`, `delivery`.
    pub fn missed(&self) -> Vec<&'static str> {
        let figures = &self.figures;
        let checks = [
            ("overspent", figures.overspent_nanos == 0),
            ("value", figures.value_of_optimum >= VALUE_MIN),
            ("rmse", figures.rmse_target <= RMSE_MAX),
            ("delivery", figures.delivery >= DELIVERY_MIN),
        ];
        checks.into_iter().filter(|(_, is_met)| !is_met).map(|(name, _)| name).collect()
    }
}

fn as_parts<S: Serializer>(share: &Ppm, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(share.get())
}

/// Why nothing is measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QualityError {
    /// A stream cannot be generated.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A simulation fails.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// Runs all strategies and budgets on all streams, in the order of profile, share and strategy.
///
/// # Errors
/// If an option is out of its range.
pub fn measure(options: &QualityOptions) -> Result<Vec<QualityRow>, QualityError> {
    let mut rows = Vec::new();
    for profile in &options.profiles {
        let stream = generate::GenerateOptions {
            auctions: options.auctions,
            seed: options.seed,
            ..generate::GenerateOptions::new(profile.clone())
        };
        let forecast = SimulatedForecast::learned(&days_before(&stream)?);
        let auctions: Vec<_> = generate::auctions(&stream)?.collect();
        let end_ms = stream.start_ms + stream.duration_ms;
        for &share in &options.shares {
            let simulation = Simulation {
                strategies: options.strategies.clone(),
                forecast: forecast.clone(),
                flight: Some(CampaignFlight { start_ms: stream.start_ms, end_ms }),
                ..Simulation::new(SimulatedBudget::Share(share))
            };
            let report = simulate(&auctions, &simulation)?;
            let default = StrategySettings::default().name();
            rows.extend(report.strategies.into_iter().map(|figures| QualityRow {
                profile: profile.name,
                share,
                is_default: figures.strategy == default,
                figures,
            }));
        }
    }
    Ok(rows)
}

/// Six days, each of a sixth of the traffic and its own seed.
fn days_before(stream: &generate::GenerateOptions) -> Result<Vec<StreamAuction>, GenerateError> {
    let mut auctions = Vec::new();
    for day in (1..=6).rev() {
        let before = generate::GenerateOptions {
            auctions: (stream.auctions / 6).max(1),
            seed: stream.seed.wrapping_add(day),
            start_ms: stream.start_ms - day * DAY_MS,
            ..stream.clone()
        };
        auctions.extend(generate::auctions(&before)?);
    }
    Ok(auctions)
}

#[cfg(test)]
mod tests;

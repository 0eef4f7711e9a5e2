//! How good the strategies are, on streams of every sort: what the bench prints and tests hold to.
//!
//! Traffic is forecast from the six days before, streams of the same sort that other seeds made:
//! their bursts were others, and those of the day are not foreseen. Wins cost the second price.
//! Knows nothing of how it is shown.

use pacer_core::strategy::{CampaignFlight, StrategySettings};
use serde::{Serialize, Serializer};
use units::Ppm;

use crate::figures::Figures;
use crate::generate::{self, DAY_MS, GenerateError, Profile};
use crate::simulate::{
    SimulateError, SimulateOptions as Simulation, SimulatedBudget, SimulatedForecast, simulate,
};
use crate::stream::StreamAuction;

/// Least value of the default, as a share of the optimum.
pub const VALUE_MIN: f64 = 0.95;

/// Largest root mean square error of the default beside its own curve, as a share of the budget.
pub const RMSE_MAX: f64 = 0.02;

/// Least share of the budget that the default spends.
pub const DELIVERY_MIN: f64 = 0.99;

/// Shares of what bidding at value would spend: 1/32 and 1/8.
pub const SHARES: [Ppm; 2] =
    [Ppm::new(31_250).expect("below the whole"), Ppm::new(125_000).expect("below the whole")];

/// What is measured.
#[derive(Clone, Debug)]
pub struct QualityOptions {
    /// The sorts of streams; by default [`generate::profile::STEADY`].
    pub profiles: Vec<Profile>,
    /// The budgets; by default [`SHARES`].
    pub shares: Vec<Ppm>,
    /// The strategies; by default all.
    pub strategies: Vec<StrategySettings>,
    /// How many auctions each stream has, over a day; by default 200,000.
    pub auctions: u64,
    /// The seed of the streams; the six above it are those of the days before. By default 1.
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
    /// The sort of stream.
    pub profile: &'static str,
    /// The budget, in parts per million of what bidding at value would spend.
    #[serde(rename = "share_ppm", serialize_with = "as_parts")]
    pub share: Ppm,
    /// Whether it is the strategy that campaigns have by default: the targets are its own.
    pub is_default: bool,
    /// What it did.
    pub figures: Figures,
}

impl QualityRow {
    /// Which targets it does not meet, by what was measured: none are left out, `overspent`,
    /// `value`, `rmse`, `delivery`.
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

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QualityError {
    /// A stream.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A run.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// Every strategy with every budget on every stream, by profile, share and strategy in their order.
///
/// # Errors
///
/// When an option is out of its range.
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

/// Six days of a sixth of the traffic each, of seeds of their own.
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

//! Runs strategies on a stream with a budget, next to the optimum: the content of `vickrey simulate
//! pacing`. It must not know files.

use std::fmt;

use pacer_core::strategy::{
    AuctionPricing, CampaignFlight, Forecast as Expected, HOURS, OutOfRange, SlotDual, SpendTarget,
    StrategySettings, TargetError, Week, ZoneOffsets,
};
use serde::Serialize;
use units::{Decimal, Nanos, Ppm};

use crate::curve::{Drawing, SpendCurve, ratio};
use crate::figures::{self, Figures, FlightBudget};
use crate::optimum::{self, Optimum, optimum};
use crate::replay::{self, ReplayResult, replay};
use crate::stream::StreamAuction;

/// Most slots of a flight: memory holds a sample of 64 bytes per slot and strategy.
pub const SLOTS_MAX: u64 = 2_000_000;

const HOUR_MS: u64 = 3_600_000;

/// The budget of the campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedBudget {
    /// An amount.
    Amount(Nanos),
    /// A share of what bidding at value without a budget would spend.
    Share(Ppm),
}

impl SimulatedBudget {
    /// Parses a currency amount such as `12.5`, rounded down to the nano. None if it is not a
    /// number, negative, or beyond 18 thousand million.
    pub fn amount(text: &str) -> Option<Self> {
        let (nanos, _) = Decimal::parse(text).ok()?.scaled(9)?;
        Some(Self::Amount(Nanos::new(nanos)))
    }

    /// Parses a share, `1/32`, `0.03125` or `3.125%`, rounded down to the millionth. None if it is
    /// not a number, zero, or more than the whole.
    pub fn share(text: &str) -> Option<Self> {
        let parts = if let Some((part, whole)) = text.split_once('/') {
            let (part, whole): (u64, u64) = (part.parse().ok()?, whole.parse().ok()?);
            part.checked_mul(Ppm::ONE.get().into())?.checked_div(whole)?
        } else if let Some(percent) = text.strip_suffix('%') {
            Decimal::parse(percent.trim_end()).ok()?.scaled(4)?.0
        } else {
            Decimal::parse(text).ok()?.scaled(6)?.0
        };
        let parts = u32::try_from(parts).ok().filter(|parts| *parts > 0)?;
        Ppm::new(parts).map(Self::Share)
    }
}

/// The target's traffic forecast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulatedForecast {
    /// Constant traffic.
    Uniform,
    /// The actual traffic by hour, or by 24th part of a short stream, without detail within it.
    Own,
    /// Traffic of another stream, by the hour of the week (UTC).
    Learned(Box<Week>),
}

impl SimulatedForecast {
    /// Learns from `auctions`: by the hour of the week if they cover a week, otherwise by the hour
    /// of the day. No hour counts as closed.
    pub fn learned(auctions: &[StreamAuction]) -> Self {
        let zone = ZoneOffsets::utc();
        let mut weights = [0u32; HOURS];
        for auction in auctions {
            let weight = &mut weights[zone.hour_of_week(auction.time_ms)];
            *weight = weight.saturating_add(1);
        }
        let (first, last) = (auctions.first(), auctions.last());
        let length_ms = first.zip(last).map_or(0, |(first, last)| last.time_ms - first.time_ms);
        if length_ms < (HOURS as u64 - 1) * HOUR_MS {
            for hour in 0..24 {
                let of_day = (hour..HOURS).step_by(24);
                let sum = of_day.clone().fold(0u32, |sum, at| sum.saturating_add(weights[at]));
                // An unseen day gets the mean of the seen ones.
                let days = of_day.clone().filter(|at| weights[*at] > 0).count().max(1);
                let mean = sum / u32::try_from(days).expect("a week has seven days");
                of_day.for_each(|at| weights[at] = mean);
            }
        }
        Self::Learned(Box::new(Week::weighted(&weights.map(|weight| weight.max(1)))))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Own => "own",
            Self::Learned(_) => "learned",
        }
    }
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// The budget of the campaign.
    pub budget: SimulatedBudget,
    /// The strategies with their gains; [`StrategySettings::all`] and [`StrategySettings::named`]
    /// have default gains. `pricing` applies to strategies that distinguish first and second
    /// prices.
    pub strategies: Vec<StrategySettings>,
    /// The price of a win: the price to beat (second price), or the bid (first price).
    pub pricing: AuctionPricing,
    /// The target's traffic forecast.
    pub forecast: SimulatedForecast,
    /// How far the target leads traffic, 0 to 1: with 1, three quarters are spent by the middle.
    pub ahead: f64,
    /// The flight; by default from the first auction to the last.
    pub flight: Option<CampaignFlight>,
    /// Slot length in milliseconds: the strategy decides once per slot. By default a 1440th of the
    /// flight, between a second and a minute.
    pub slot_ms: Option<u64>,
    /// Delay of win notices in milliseconds.
    pub notice_delay_ms: u64,
}

impl SimulateOptions {
    /// All strategies with default gains, second prices, the stream's own traffic, no delay.
    pub fn new(budget: SimulatedBudget) -> Self {
        Self {
            budget,
            strategies: StrategySettings::all().to_vec(),
            pricing: AuctionPricing::SecondPrice,
            forecast: SimulatedForecast::Own,
            ahead: 0.0,
            flight: None,
            slot_ms: None,
            notice_delay_ms: 0,
        }
    }
}

/// No strategy has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy `{0}`: choose all, {names}", names = StrategySettings::all().map(|it| it.name()).join(", "))]
pub struct NoStrategy(String);

/// Parses names of strategies, separated by commas, or `all`; each gets its default gains.
///
/// # Errors
/// Lists the existing names.
pub fn strategies(names: &str) -> Result<Vec<StrategySettings>, NoStrategy> {
    if names == "all" {
        return Ok(StrategySettings::all().to_vec());
    }
    let named = |name: &str| {
        StrategySettings::named(name).ok_or_else(|| NoStrategy(name.escape_debug().to_string()))
    };
    names.split(',').map(str::trim).map(named).collect()
}

/// Why nothing is simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum SimulateError {
    /// No auction in the flight.
    #[error("there are no auctions between {start_ms} and {end_ms} ms: move the flight")]
    NoAuctions { start_ms: u64, end_ms: u64 },
    /// The budget is zero, or a share of zero.
    #[error(
        "the budget is nothing: give an amount above 0 (bidding at value would spend {unconstrained})"
    )]
    NoBudget { unconstrained: Nanos },
    /// The unlimited spend overflows.
    #[error(
        "bidding at value would spend more than 18 thousand million: give an amount, not a share"
    )]
    Unbounded,
    /// A gain is out of range.
    #[error("strategy {strategy}: {problem}")]
    Gain { strategy: &'static str, problem: OutOfRange },
    /// The flight or the lead is out of range.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The flight has too many slots.
    #[error(
        "slots of {slot_ms} ms make more than {SLOTS_MAX} of a flight of {flight_ms} ms: give slots of {least_ms} ms or more"
    )]
    Slots { slot_ms: u64, flight_ms: u64, least_ms: u64 },
}

/// The results. As JSON: shares are numbers where 1 is the whole, money is in nanos.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// Auctions in the flight.
    pub auctions: u64,
    /// Start of the flight, in milliseconds since 1970.
    pub start_ms: u64,
    /// End of the flight.
    pub end_ms: u64,
    /// Slot length; slots are shorter towards the end of the flight.
    pub slot_ms: u64,
    /// The price of a win: `second_price` or `first_price`.
    pub pricing: AuctionPricing,
    /// The traffic forecast: `uniform`, `own` or `learned`.
    pub forecast: &'static str,
    /// How far the target runs ahead of traffic, 0 to 1.
    pub ahead: f64,
    /// The budget.
    pub budget_nanos: u64,
    /// Spend of bidding at value without a budget.
    pub unconstrained_nanos: u128,
    /// The optimum in hindsight.
    pub optimum: OptimumFigures,
    /// In the order of the given strategies.
    pub strategies: Vec<Figures>,
    /// Their spend and the target, for drawing.
    #[serde(skip)]
    pub curves: Drawing,
}

/// The optimum in hindsight within the budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OptimumFigures {
    /// Whole impressions.
    pub wins: u64,
    /// Their cost.
    pub spent_nanos: u64,
    /// Their value.
    pub value_nanos: u128,
    /// Value when spent hour by hour along the target, as a share of `value_nanos`.
    pub hourly: f64,
}

/// Spend of bidding at value on `auctions` without a budget.
pub fn unconstrained(auctions: &[StreamAuction], pricing: AuctionPricing) -> u128 {
    let won = auctions.iter().filter(|it| it.value.micros() > 0 && it.value >= it.market_price);
    let price = |auction: &StreamAuction| match pricing {
        AuctionPricing::SecondPrice => auction.market_price,
        AuctionPricing::FirstPrice => auction.value,
    };
    won.map(|auction| u128::from(price(auction).micros())).sum()
}

/// Spends a budget on `auctions`, which must be in order of time, with each strategy.
///
/// # Errors
/// If an option is invalid, or the flight has no auctions.
pub fn simulate(
    auctions: &[StreamAuction],
    options: &SimulateOptions,
) -> Result<SimulationReport, SimulateError> {
    let (flight, auctions) = flown(auctions, options.flight)?;
    let unconstrained_nanos = unconstrained(auctions, options.pricing);
    let budget = budget(options.budget, unconstrained_nanos)?;
    for settings in &options.strategies {
        if let Some(problem) = settings.problems().into_iter().next() {
            return Err(SimulateError::Gain { strategy: settings.name(), problem });
        }
    }
    let target = target(&options.forecast, flight, auctions)?.front_loaded(options.ahead)?;
    let slot_ms = slot(options.slot_ms, flight)?;
    let optimum = optimum(auctions, budget);
    let CampaignFlight { start_ms, end_ms } = flight;
    let setting = FlightBudget { start_ms, end_ms, budget, optimum };
    let mut strategies = Vec::with_capacity(options.strategies.len());
    let mut curves = Vec::with_capacity(options.strategies.len());
    for settings in &options.strategies {
        let settings = &priced(*settings, options.pricing);
        let run = replay(
            auctions,
            &replay::ReplayOptions {
                settings,
                target: &target,
                budget,
                pricing: options.pricing,
                slot_ms,
                notice_delay_ms: options.notice_delay_ms,
            },
        );
        strategies.push(Figures::of(settings.name(), &run, &setting));
        curves.push(spend(settings.name(), &run, &setting));
    }
    Ok(SimulationReport {
        auctions: auctions.len() as u64,
        start_ms,
        end_ms,
        slot_ms,
        pricing: options.pricing,
        forecast: options.forecast.name(),
        ahead: options.ahead,
        budget_nanos: budget.get(),
        unconstrained_nanos,
        optimum: figures(optimum, optimum::hourly(auctions, budget, &target)),
        strategies,
        curves: Drawing {
            title: format!("A budget of {budget} over {} auctions", auctions.len()),
            start_ms,
            end_ms,
            target: Some(target_curve(&target)),
            lines: curves,
            now_ms: None,
        },
    })
}

/// The flight, and the auctions within it.
fn flown(
    auctions: &[StreamAuction],
    flight: Option<CampaignFlight>,
) -> Result<(CampaignFlight, &[StreamAuction]), SimulateError> {
    let whole = || {
        let (first, last) = auctions.first().zip(auctions.last())?;
        Some(CampaignFlight { start_ms: first.time_ms, end_ms: last.time_ms + 1 })
    };
    let nothing = CampaignFlight { start_ms: 0, end_ms: 0 };
    let CampaignFlight { start_ms, end_ms } = flight.or_else(whole).unwrap_or(nothing);
    let first = auctions.partition_point(|auction| auction.time_ms < start_ms);
    let end = auctions.partition_point(|auction| auction.time_ms < end_ms);
    match auctions.get(first..end) {
        Some(within) if !within.is_empty() => Ok((CampaignFlight { start_ms, end_ms }, within)),
        _ => Err(SimulateError::NoAuctions { start_ms, end_ms }),
    }
}

fn budget(budget: SimulatedBudget, unconstrained_nanos: u128) -> Result<Nanos, SimulateError> {
    let nanos = match budget {
        SimulatedBudget::Amount(amount) => amount.get(),
        SimulatedBudget::Share(share) => {
            let part = unconstrained_nanos * u128::from(share.get()) / u128::from(Ppm::ONE.get());
            u64::try_from(part).map_err(|_| SimulateError::Unbounded)?
        }
    };
    if nanos == 0 {
        let most = u64::try_from(unconstrained_nanos).unwrap_or(u64::MAX);
        return Err(SimulateError::NoBudget { unconstrained: Nanos::new(most) });
    }
    Ok(Nanos::new(nanos))
}

fn slot(slot_ms: Option<u64>, flight: CampaignFlight) -> Result<u64, SimulateError> {
    let flight_ms = flight.end_ms.saturating_sub(flight.start_ms);
    let slot_ms = slot_ms.unwrap_or((flight_ms / 1_440).clamp(1_000, 60_000));
    if slot_ms == 0 || flight_ms / slot_ms > SLOTS_MAX {
        let least_ms = flight_ms / (SLOTS_MAX + 1) + 1;
        return Err(SimulateError::Slots { slot_ms, flight_ms, least_ms });
    }
    Ok(slot_ms)
}

fn target(
    forecast: &SimulatedForecast,
    flight: CampaignFlight,
    auctions: &[StreamAuction],
) -> Result<SpendTarget, TargetError> {
    let expected = match forecast {
        SimulatedForecast::Uniform => Expected::uniform(),
        SimulatedForecast::Learned(week) => {
            Expected::Weekly { week: Week::clone(week), zone: ZoneOffsets::utc() }
        }
        SimulatedForecast::Own => own_forecast(flight, auctions),
    };
    SpendTarget::new(flight, expected)
}

/// Auctions in each hour, or 24th part.
fn own_forecast(flight: CampaignFlight, auctions: &[StreamAuction]) -> Expected {
    let flight_ms = flight.end_ms.saturating_sub(flight.start_ms);
    let parts = flight_ms.div_ceil(HOUR_MS).clamp(24, SLOTS_MAX);
    let part_ms = flight_ms.div_ceil(parts).max(1);
    let part = |time_ms: u64| {
        usize::try_from((time_ms - flight.start_ms) / part_ms).expect("within the flight's parts")
    };
    let last = part(flight.end_ms.saturating_sub(1).max(flight.start_ms));
    let mut weights = vec![0u32; last + 1];
    for auction in auctions {
        let weight = &mut weights[part(auction.time_ms)];
        *weight = weight.saturating_add(1);
    }
    Expected::Given { part_ms, weights }
}

/// Adapts a strategy to the pricing.
fn priced(settings: StrategySettings, pricing: AuctionPricing) -> StrategySettings {
    match settings {
        StrategySettings::SlotDual(gains) => {
            StrategySettings::SlotDual(SlotDual { pricing, ..gains })
        }
        other => other,
    }
}

fn figures(optimum: Optimum, hourly_nanos: u128) -> OptimumFigures {
    let Optimum { value_nanos, spent, wins } = optimum;
    let hourly = figures::share(hourly_nanos, value_nanos);
    OptimumFigures { wins, spent_nanos: spent.get(), value_nanos, hourly }
}

fn spend(name: &str, run: &ReplayResult, setting: &FlightBudget) -> SpendCurve {
    let of_budget = |nanos: u128| {
        // At most the budget, so it fits 64 bits.
        ratio(u64::try_from(nanos).unwrap_or(u64::MAX), setting.budget.get())
    };
    let start = (setting.start_ms, 0.0);
    let samples = run.samples.iter().map(|it| (it.time_ms, of_budget(it.spent_nanos)));
    SpendCurve { name: name.to_owned(), points: std::iter::once(start).chain(samples).collect() }
}

/// The target's spend, at the resolution of the largest drawing.
fn target_curve(target: &SpendTarget) -> SpendCurve {
    const POINTS: u64 = 1_000;
    let CampaignFlight { start_ms, end_ms } = target.flight();
    let step = |number: u64| start_ms + (end_ms - start_ms).div_ceil(POINTS) * number;
    let points = (0..=POINTS).map(step).map(|time_ms| (time_ms, target.share(time_ms)));
    SpendCurve { name: "target".to_owned(), points: points.collect() }
}

impl fmt::Display for SimulatedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(amount) => write!(f, "{amount}"),
            Self::Share(share) => write!(f, "{share} of what bidding at value spends"),
        }
    }
}

#[cfg(test)]
mod tests;

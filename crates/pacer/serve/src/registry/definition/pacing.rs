//! Declares how a campaign paces: its strategy with gains, and its target curve.

use std::sync::Arc;

use pacer_core::definitions::amounts;
use pacer_core::pacing::{PacingPolicy, TrafficForecast};
use pacer_core::strategy::{AuctionPricing, HOURS, StrategySettings, Week};
use runtime::config::{Optional, Section};

const GAINS: [(&str, &str); 12] = [
    ("gain", "For slot_dual: strength of its corrections, 0.01 to 2."),
    (
        "catch_up",
        "For slot_dual: share of the curve over which a deviation is corrected, 0.01 to 1.",
    ),
    ("follow", "For slot_dual: how far it follows actual instead of expected requests, 0 to 1."),
    ("start", "Initial multiplier, or initial share of requests."),
    ("multiplier_max", "Maximum multiplier."),
    ("up", "For throttle: factor of the share of requests when behind plan, 1.01 to 2."),
    ("down", "For throttle: factor of the share of requests when ahead of plan, 0.5 to 0.99."),
    ("proportional", "For pid: gain on the relative error of a slot, 0 to 5."),
    ("integral", "For pid: gain on the sum of relative errors, 0.001 to 2."),
    ("derivative", "For pid: gain on the change of the relative error, 0 to 2."),
    ("step", "For adaptive: scale of the step size, 0.01 to 100."),
    ("ahead", "How far the spending curve runs ahead of the traffic, 0 to 1."),
];

/// Distinct pacings of a file's campaigns, which mostly use a few.
#[derive(Debug, Default)]
pub(in crate::registry) struct Pacings(Vec<Arc<PacingPolicy>>);

/// Most distinct pacings that each campaign is compared with.
const PACINGS_MAX: usize = 64;

impl Pacings {
    /// Shares the campaign's pacing with an equal earlier one.
    pub(in crate::registry) fn share(&mut self, own: &mut Arc<PacingPolicy>) {
        match self.0.iter().find(|known| *known == own) {
            Some(same) => *own = Arc::clone(same),
            None if self.0.len() < PACINGS_MAX => self.0.push(Arc::clone(own)),
            None => (),
        }
    }
}

pub(in crate::registry) fn read(s: &mut Section<'_>, is_fixed_price: bool) -> PacingPolicy {
    s.section("strategy", "Pacing: how the campaign spreads its spend.", |s| {
        read_table(s, is_fixed_price)
    })
}

fn read_table(s: &mut Section<'_>, is_fixed_price: bool) -> PacingPolicy {
    let known = StrategySettings::all().map(|settings| (settings.name(), settings));
    let named = s.one_of(
        "name",
        Optional("slot_dual"),
        &known,
        "Pacing strategy: asap, even, throttle, pid, adaptive or slot_dual. If absent: slot_dual, or \
         even if the price is fixed.",
    );
    let fallback =
        if is_fixed_price { StrategySettings::Even } else { StrategySettings::default() };
    let mut settings = named.unwrap_or(fallback);
    if is_fixed_price && settings.changes_prices() {
        let remedy = "changes prices, but the campaign's price is fixed: choose \"asap\", \
                      \"even\" or \"throttle\", or give a value instead of a price";
        s.problem("name", format!("\"{}\"", settings.name()), remedy);
    }
    let mut ahead = 0.0;
    for (key, doc) in GAINS {
        let Some(gain) = s.parsed(key, Optional("0.3"), amounts::gain, doc) else { continue };
        match (key, settings.gain(key)) {
            ("ahead", _) => ahead = gain,
            (_, Some(place)) => *place = gain,
            (_, None) => {
                let remedy = format!("is no gain of `{}`, remove it", settings.name());
                s.problem(key, gain, remedy);
            }
        }
    }
    if !(0.0..=1.0).contains(&ahead) {
        s.problem("ahead", ahead, "choose 0 to 1");
    }
    for wrong in settings.problems() {
        let remedy = format!("choose {} to {}", wrong.range.0, wrong.range.1);
        s.problem(wrong.key, wrong.value, remedy);
    }
    pricing(s, &mut settings);
    PacingPolicy { settings, ahead, forecast: forecast(s), is_fixed_price }
}

fn pricing(s: &mut Section<'_>, settings: &mut StrategySettings) {
    let known = [
        ("second_price", AuctionPricing::SecondPrice),
        ("first_price", AuctionPricing::FirstPrice),
    ];
    let doc = "For slot_dual: pricing of the auctions that it bids in, which determines what a win costs.";
    let Some(given) = s.one_of("pricing", Optional("second_price"), &known, doc) else { return };
    match settings {
        StrategySettings::SlotDual(it) => it.pricing = given,
        other => {
            let remedy = format!("is nothing that `{}` asks for, remove it", other.name());
            s.problem("pricing", "", remedy);
        }
    }
}

fn forecast(s: &mut Section<'_>) -> TrafficForecast {
    let known = [("uniform", TrafficForecast::Uniform), ("learned", TrafficForecast::Learned)];
    let named = s.one_of(
        "forecast",
        Optional("uniform"),
        &known,
        "Traffic that the spending curve expects: uniform, or as observed in earlier weeks.",
    );
    let weights = s.integers(
        "forecast_weights",
        Optional(&[1, 1, 2]),
        0..=u32::MAX,
        "Expected traffic instead of `forecast`: a weight for each of the 168 hours of the week, \
         from Monday 00:00, in the account's time zone.",
    );
    let Some(weights) = weights else { return named.unwrap_or_default() };
    if named.is_some() {
        s.problem("forecast", "", "is given beside `forecast_weights`: remove one of them");
    }
    let count = weights.len();
    match <[u32; HOURS]>::try_from(weights) {
        Ok(weights) if weights.iter().any(|weight| *weight > 0) => {
            return TrafficForecast::Weekly(Week::weighted(&weights));
        }
        Ok(_) => s.problem("forecast_weights", "", "are all 0: give some hour a weight"),
        Err(_) => {
            let remedy = format!("has {count} weights: give {HOURS}, one for each hour");
            s.problem("forecast_weights", "", remedy);
        }
    }
    TrafficForecast::default()
}

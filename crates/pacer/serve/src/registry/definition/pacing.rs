//! Declares how a campaign paces: its strategy with gains, and its target curve.

use std::sync::Arc;

use pacer_core::definitions::amounts;
use pacer_core::pacing::{PacingPolicy, TrafficForecast};
use pacer_core::strategy::{AuctionPricing, HOURS, StrategySettings, Week};
use runtime::config::{Optional, Section};

const GAINS: [(&str, &str); 12] = [
    ("gain", "Of slot_dual: how hard it corrects, 0.01 to 2."),
    ("catch_up", "Of slot_dual: over what share of the curve a deviation is made good."),
    ("follow", "Of slot_dual: how far it follows the requests that come, 0 to 1."),
    ("start", "The first multiplier, or the first share."),
    ("multiplier_max", "The largest multiplier."),
    ("up", "Of throttle: what the share grows by when behind, 1.01 to 2."),
    ("down", "Of throttle: what it shrinks by when ahead, 0.5 to 0.99."),
    ("proportional", "Of pid: per relative error, 0 to 5."),
    ("integral", "Of pid: per sum of relative errors, 0.001 to 2."),
    ("derivative", "Of pid: per change of the relative error, 0 to 2."),
    ("step", "Of adaptive: what the step size is scaled by, 0.01 to 100."),
    ("ahead", "How far the curve runs ahead of the traffic, 0 to 1."),
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
    s.section("strategy", "How it spends.", |s| read_table(s, is_fixed_price))
}

fn read_table(s: &mut Section<'_>, is_fixed_price: bool) -> PacingPolicy {
    let known = StrategySettings::all().map(|settings| (settings.name(), settings));
    let named = s.one_of(
        "name",
        Optional("slot_dual"),
        &known,
        "Which: asap, even, throttle, pid, adaptive or slot_dual. Absent: slot_dual, or even \
         where the price is fixed.",
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
    let doc = "Of slot_dual: what a win costs.";
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
        "Which traffic the curve expects: the same at any time, or as in the weeks before.",
    );
    let weights = s.integers(
        "forecast_weights",
        Optional(&[1, 1, 2]),
        0..=u32::MAX,
        "Instead of `forecast`: a weight for each of the 168 hours of the week, from Monday, \
         midnight to one, on the account's clocks.",
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

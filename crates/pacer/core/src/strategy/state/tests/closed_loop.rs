//! Each strategy in its own seeded market: it spends its budget, within bounds of deviation.

use super::super::super::settings::Adaptive;
use super::super::super::{DrawKey, Forecast, HOURS, ZoneOffsets};
use super::*;

/// The traffic and prices of a day.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Market {
    /// Traffic by hour, constant prices.
    Diurnal,
    /// Ten times the traffic for three minutes, twelve times a day.
    Bursts,
    /// Prices rise by half over the day.
    Drift,
}

/// Mean requests a minute by hour of the day.
const BY_HOUR: [u64; 24] =
    [10, 8, 6, 5, 5, 8, 15, 25, 35, 40, 42, 45, 45, 44, 42, 42, 45, 50, 60, 65, 60, 45, 30, 18];

/// The price to beat and the value, in micros. Values have a long tail.
type Auction = (u64, u64);

fn auctions(market: Market, seed: u64) -> Vec<Vec<Auction>> {
    let mut chance = Chance::new(seed);
    let minutes = (0..1_440u64).map(|minute| {
        let hour = usize::try_from(minute / 60).expect("an hour of the day");
        let is_burst = market == Market::Bursts && minute % 120 < 3;
        let mean = BY_HOUR[hour] * if is_burst { 10 } else { 1 };
        let drift = if market == Market::Drift { minute } else { 0 };
        let count = mean / 2 + chance.below(mean + 1);
        let auction = |chance: &mut Chance| {
            let price = 200_000 + chance.below(1_000_000) + chance.below(1_000_000);
            let tail = 1 + chance.below(4) * chance.below(4);
            let value = 100_000 + chance.below(800_000) * tail;
            (price * (2_880 + drift) / 2_880, value)
        };
        (0..count).map(|_| auction(&mut chance)).collect()
    });
    minutes.collect()
}

fn target() -> SpendTarget {
    let weights: [u32; HOURS] =
        std::array::from_fn(|hour| u32::try_from(BY_HOUR[hour % 24]).expect("it is small"));
    let flight = CampaignFlight { start_ms: START_MS, end_ms: START_MS + 1_440 * MINUTE_MS };
    let forecast = Forecast::Weekly { week: Week::weighted(&weights), zone: ZoneOffsets::utc() };
    SpendTarget::new(flight, forecast).expect("a day")
}

#[derive(Debug, Default)]
struct Run {
    budget: u64,
    spent: u64,
    value: u64,
    /// Maximum and mean square of spend beyond the curve, as shares of the budget.
    ahead_max: f64,
    square: f64,
    stopped: Option<u64>,
}

fn run(settings: &StrategySettings, market: Market, part: u64) -> Run {
    let (target, key) = (target(), DrawKey::new([3; 16]));
    let minutes = auctions(market, 7);
    let all = minutes.iter().flatten().filter(|(price, value)| value >= price);
    let budget = all.map(|(price, _)| price).sum::<u64>() / part;
    let mut run = Run { budget, ..Run::default() };
    let mut state = StrategyState::start(settings);
    let mut seen = ObservedTotals::default();
    for (number, auctions) in (1..).zip(&minutes) {
        let pace = state.pace(settings);
        if pace == BidPace::NONE {
            run.stopped.get_or_insert(number);
        }
        for (price, value) in auctions {
            seen.requests += 1;
            let draw = key.draw(&seen.requests.to_le_bytes(), 1);
            let Ok(bid) = decide(pace, Cpm::new(*value).expect("a price"), draw) else { continue };
            // As the ledger does: bids above the remainder are not made.
            if bid.micros() > budget - seen.spent {
                continue;
            }
            seen.bids += 1;
            if bid.micros() >= *price {
                seen.wins += 1;
                seen.spent += price;
                run.value += value;
            }
        }
        let end = SlotEnd { budget: Nanos::new(budget), ..minute(number) };
        state = step(settings, &target, state, seen, end);
        let ahead = (seen.spent as f64 - state.planned(&target, end.now_ms)) / budget as f64;
        run.ahead_max = run.ahead_max.max(ahead);
        run.square += ahead * ahead / 1_440.0;
    }
    Run { spent: seen.spent, ..run }
}

/// Checks the minimum of delivery and the maximum root mean square deviation from the curve.
#[track_caller]
fn check(settings: &StrategySettings, delivery: f64, deviation: f64) {
    for market in [Market::Diurnal, Market::Bursts, Market::Drift] {
        for part in [8, 32] {
            let run = run(settings, market, part);
            let what = format!("{} {market:?} 1/{part}: {run:?}", settings.name());
            assert!(run.spent <= run.budget, "{what}");
            assert!(run.spent as f64 >= run.budget as f64 * delivery, "{what}");
            assert!(run.square.sqrt() <= deviation, "{} {what}", run.square.sqrt());
        }
    }
}

#[test]
fn each_strategy_spends_its_budget() {
    check(&StrategySettings::default(), 0.995, 0.02);
    check(&StrategySettings::Pid(Pid::default()), 0.99, 0.03);
    check(&StrategySettings::Adaptive(Adaptive::default()), 0.95, 0.1);
    check(&StrategySettings::Throttle(Throttle::default()), 0.95, 0.06);
    check(&StrategySettings::Even, 0.97, 0.03);
    check(&StrategySettings::Asap, 0.995, 0.7);
}

#[test]
fn asap_is_done_long_before_the_day_and_stops() {
    for part in [8, 32] {
        let run = run(&StrategySettings::Asap, Market::Diurnal, part);
        assert!(run.ahead_max > 0.5, "{run:?}");
        assert!(run.stopped.is_none_or(|slot| slot < 1_000), "{run:?}");
    }
}

/// Bids above the remainder are not made; strategies bid until nothing remains.
#[test]
fn who_has_spent_to_the_nano_asks_no_more() {
    for settings in strategies() {
        let target = target();
        let state = StrategyState::start(&settings);
        let seen = ObservedTotals { requests: 9, bids: 9, wins: 9, spent: BUDGET.get() - 1 };
        let left = step(&settings, &target, state, seen, minute(9));
        assert!(!left.is_spent);
        let none = step(
            &settings,
            &target,
            left,
            ObservedTotals { spent: BUDGET.get(), ..seen },
            minute(10),
        );
        assert_eq!(none.pace(&settings), BidPace::NONE);
    }
}

#[test]
fn even_is_never_ahead_of_its_curve() {
    for market in [Market::Diurnal, Market::Drift] {
        let run = run(&StrategySettings::Even, market, 8);
        // By more than the chance of one slot.
        assert!(run.ahead_max < 0.01, "{run:?}");
    }
}

/// For the same money, bid multipliers buy more than throttles.
#[test]
fn duals_buy_more_than_throttles() {
    for market in [Market::Diurnal, Market::Bursts, Market::Drift] {
        let value = |settings| run(&settings, market, 32).value as f64;
        let throttled = value(StrategySettings::Throttle(Throttle::default()));
        for settings in [StrategySettings::default(), StrategySettings::Pid(Pid::default())] {
            assert!(value(settings) > 1.5 * throttled, "{} {market:?}", settings.name());
        }
    }
}

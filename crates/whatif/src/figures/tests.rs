//! Figures of runs computed by hand.

use super::*;

const HALF: u64 = 1 << 31;

fn setting(budget: u64, optimum_value: u128) -> FlightBudget {
    FlightBudget {
        start_ms: 1_000,
        end_ms: 2_000,
        budget: Nanos::new(budget),
        optimum: Optimum { value_nanos: optimum_value, spent: Nanos::new(budget), wins: 1 },
    }
}

fn sample(time_ms: u64, spent_nanos: u128, planned_nanos: f64, multiplier: Option<u64>) -> Sample {
    Sample { time_ms, spent_nanos, planned_nanos, multiplier }
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-9, "{got} is not {want}");
}

#[test]
fn figures_are_as_by_hand() {
    let run = ReplayResult {
        auctions: 9,
        bids: 7,
        wins: 5,
        billed_nanos: 150,
        value_nanos: 300,
        exhausted_ms: Some(1_750),
        samples: vec![
            sample(1_250, 60, 40.0, Some(HALF)),
            sample(1_500, 100, 100.0, Some(2 * HALF)),
            sample(1_750, 120, 160.0, None),
            sample(2_000, 150, 200.0, Some(HALF / 2)),
        ],
    };
    let figures = Figures::of("even", &run, &setting(200, 400));
    assert_eq!((figures.strategy, figures.bids, figures.wins), ("even", 7, 5));
    assert_eq!((figures.spent_nanos, figures.overspent_nanos, figures.value_nanos), (150, 0, 300));
    near(figures.delivery, 0.75);
    near(figures.value_of_optimum, 0.75);
    // Of 200: ahead by 0.1, on target, behind by 0.2 and by 0.25.
    near(figures.rmse_target, ((0.01 + 0.0 + 0.04 + 0.0625) / 4.0f64).sqrt());
    // Even spend is a quarter, a half, three quarters and all of it.
    near(figures.rmse_even, ((0.0025 + 0.0 + 0.0225 + 0.0625) / 4.0f64).sqrt());
    assert_eq!(figures.exhausted_ms, Some(1_750));
    near(figures.exhausted_at.unwrap(), 0.75);
    // Doubled, then quartered, without the slot that has no bids.
    let ln2 = std::f64::consts::LN_2;
    near(figures.multiplier_volatility, ((ln2 * ln2 + 4.0 * ln2 * ln2) / 2.0).sqrt());
}

#[test]
fn nothing_is_measured_of_nothing() {
    let figures = Figures::of("asap", &ReplayResult::default(), &setting(10, 0));
    near(figures.value_of_optimum, 1.0);
    near(figures.delivery, 0.0);
    near(figures.rmse_target + figures.rmse_even + figures.multiplier_volatility, 0.0);
    assert_eq!(figures.exhausted_at, None);
}

#[test]
fn what_is_billed_beyond_the_budget_shows() {
    let run = ReplayResult { billed_nanos: 11, ..ReplayResult::default() };
    assert_eq!(Figures::of("asap", &run, &setting(10, 1)).overspent_nanos, 1);
}

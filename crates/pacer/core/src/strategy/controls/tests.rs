//! Single steps of each strategy, by hand.

use super::*;
use crate::strategy::settings::{Pricing, SlotDual};

/// A slot of the hundredth part of a curve over 10,000, on its curve when it began, with the
/// traffic that was expected, and ten wins of 10 in 100 requests.
const PLAIN: Frame = Frame {
    traffic: 0.5,
    traffic_slot: 0.01,
    requests: 100.0,
    requests_all: 5_000.0,
    wins_all: 500.0,
    spent: 100.0,
    spent_all: 5_000.0,
    budget: 10_000.0,
    planned: 100.0,
    ahead_before: 0.0,
    ahead: 0.0,
    plan_left: 5_100.0,
    base: 10_000.0,
    allowance: 100.0,
};

fn near(is: f64, want: f64) {
    assert!((is - want).abs() < 1e-9, "{is}, not {want}");
}

fn controls(dual: f64) -> Controls {
    Controls { dual, integral: dual, ..Controls::start(&Settings::default()) }
}

#[track_caller]
fn check_dual(it: SlotDual, dual: f64, frame: &Frame, want: f64) {
    near(controls(dual).slot_dual(&it, frame).dual, want);
}

#[test]
fn slot_dual_moves_by_the_relative_error() {
    let it = SlotDual { gain: 0.5, catch_up: 0.1, follow: 1.0, ..SlotDual::default() };
    let spent = |spent| Frame { spent, ..PLAIN };
    // Eight wins of 10 count half: an error is beside 180.
    check_dual(it, 2.0, &PLAIN, 2.0);
    check_dual(it, 2.0, &spent(190.0), 2.25);
    check_dual(it, 2.0, &spent(10.0), 1.75);
    check_dual(it, 2.0, &spent(0.0), 2.0 - 0.5 / 1.8);
    check_dual(it, 2.0, &spent(1e9), 3.0);
    check_dual(it, 4.5, &spent(1e9), 5.0);
    check_dual(it, 0.1, &spent(0.0), 0.0);
    let dear = SlotDual { multiplier_max: 148.0, ..it };
    check_dual(dear, 0.0, &spent(10.0), -0.25);
    check_dual(dear, -4.9, &spent(0.0), libm::log(1.0 / 148.0));
    check_dual(SlotDual { pricing: Pricing::FirstPrice, ..it }, 2.0, &spent(190.0), 2.125);
    // Few wins so far: the first ones teach more.
    let few = Frame { wins_all: 16.0, spent_all: 160.0, ..spent(160.0) };
    check_dual(it, 2.0, &few, 2.0 + 0.5 * 60.0 / 120.0);
    let none = Frame { wins_all: 0.0, spent_all: 0.0, ..spent(0.0) };
    check_dual(it, 2.0, &none, 1.5);
    // With half of a tenth of the curve left, half as many do.
    let late = Frame { plan_left: 500.0, ..spent(170.0) };
    check_dual(it, 2.0, &late, 2.25);
}

#[test]
fn slot_dual_aims_at_what_the_curve_and_the_traffic_ask() {
    let it = SlotDual { gain: 0.5, catch_up: 0.1, follow: 1.0, ..SlotDual::default() };
    let aims = |frame: Frame, aim| check_dual(it, 2.0, &Frame { spent: aim, ..frame }, 2.0);
    // 200 too much, to be made good over a tenth of the curve: a fifth less.
    aims(Frame { ahead_before: 200.0, ..PLAIN }, 80.0);
    aims(Frame { ahead_before: -200.0, ..PLAIN }, 120.0);
    aims(Frame { ahead_before: 1_200.0, ..PLAIN }, 0.0);
    aims(Frame { ahead_before: 9_000.0, ..PLAIN }, 0.0);
    // Twice the requests, twice the aim, and twice as fast back to the curve.
    aims(Frame { requests: 200.0, ..PLAIN }, 200.0);
    aims(Frame { requests: 200.0, ahead_before: 200.0, ..PLAIN }, 160.0);
    aims(Frame { requests: 50.0, ahead_before: 200.0, ..PLAIN }, 30.0);
    aims(Frame { requests: 1e6, ..PLAIN }, 800.0);
    aims(Frame { requests: 200.0, plan_left: 500.0, ..PLAIN }, 150.0);
    // In the last slot all that is left, whatever the traffic.
    aims(Frame { plan_left: 100.0, ahead_before: 30.0, ..PLAIN }, 70.0);
    aims(Frame { plan_left: 100.0, ahead_before: -30.0, ..PLAIN }, 130.0);
    let fixed = SlotDual { follow: 0.0, ..it };
    check_dual(fixed, 2.0, &Frame { requests: 200.0, ..PLAIN }, 2.0);
}

#[test]
fn slot_dual_trusts_errors_that_persist() {
    let it = SlotDual::default();
    let spent = |spent| Frame { spent, ..PLAIN };
    let run_for = |slots, spends: [f64; 2]| {
        (0..slots).fold(controls(2.0), |before, number| {
            // Held where it is, so that only the gain differs.
            Controls { dual: 2.0, ..before.slot_dual(&it, &spent(spends[number % 2])) }
        })
    };
    let run = |spends| run_for(100, spends);
    assert!(run([160.0, 160.0]).trust > 0.5);
    assert!(run([160.0, 40.0]).trust < -1.0);
    assert!(run([160.0, 100.0]).trust.abs() < 0.1);
    near(run_for(1_000, [160.0, 160.0]).trust, 1.0);
    near(run_for(1_000, [160.0, 40.0]).trust, -3.0);
    // One slot beyond all others does not count for more than a hundred times its aim.
    near(run_for(1, [1e9, 0.0]).power, 0.05 * 100.0 * 100.0);
}

#[test]
fn adaptive_moves_by_the_cost_of_requests() {
    let it = Adaptive { step: 2.0, ..Adaptive::default() };
    let step = |dual, frame: &Frame| controls(dual).adaptive(&it, frame).dual;
    // 10,000 requests at 1 each; a step of 2 over 100.
    near(step(1.0, &PLAIN), 1.0);
    near(step(1.0, &Frame { spent: 150.0, ..PLAIN }), libm::log(libm::exp(1.0) + 1.0));
    near(step(2.0, &Frame { spent: 0.0, ..PLAIN }), libm::log(libm::exp(2.0) - 2.0));
    near(step(0.1, &Frame { spent: 0.0, ..PLAIN }), 0.0);
    near(step(4.9, &Frame { spent: 1e9, ..PLAIN }), 5.0);
    let low = Adaptive { multiplier_max: 0.5, ..it };
    near(controls(1.0).adaptive(&low, &Frame { spent: 0.0, ..PLAIN }).dual, libm::log(2.0));
}

#[test]
fn pid_adds_three_terms_and_does_not_wind_up() {
    let it = Pid { proportional: 0.4, integral: 0.2, derivative: 0.1, ..Pid::default() };
    let first = controls(2.0).pid(&it, &Frame { spent: 150.0, ..PLAIN });
    near(first.dual, 2.0 + 0.7 * 0.5);
    near(first.integral, 2.1);
    let second = first.pid(&it, &Frame { spent: 100.0, ..PLAIN });
    near(second.dual, 2.1 - 0.05);
    near(first.pid(&it, &Frame { spent: 1e9, ..PLAIN }).integral, 2.7);
    // A day without a win: the sum stays at the limit, and one slot brings it back.
    let starved =
        (0..500).fold(controls(2.0), |it_is, _| it_is.pid(&it, &Frame { spent: 0.0, ..PLAIN }));
    near(starved.dual, 0.0);
    near(starved.integral, 0.0);
    assert!(starved.pid(&it, &Frame { spent: 200.0, ..PLAIN }).dual > 0.5);
    let flooded =
        (0..500).fold(controls(2.0), |it_is, _| it_is.pid(&it, &Frame { spent: 1_000.0, ..PLAIN }));
    near(flooded.dual, 5.0);
    near(flooded.integral, 5.0);
    assert!(flooded.pid(&it, &Frame { spent: 0.0, ..PLAIN }).dual < 4.5);
}

#[test]
fn throttle_grows_and_shrinks_by_factors() {
    let it = Throttle::default();
    let step = |rate, ahead| {
        Controls { rate, ..controls(0.0) }.throttle(&it, &Frame { ahead, ..PLAIN }).rate
    };
    for (rate, ahead, want) in [
        (0.5, -1.0, 0.55),
        (0.5, 0.0, 0.55),
        (0.5, 1.0, 0.45),
        (0.95, -1.0, 1.0),
        (0.000_105, 1.0, 0.000_1),
    ] {
        near(step(rate, ahead), want);
    }
}

#[test]
fn even_asks_for_what_the_curve_has_money_for() {
    let start = Controls::start(&Settings::Even);
    // One of 64 requests costs 10: all 6,400 would cost 64,000, and there is money for 1,000.
    let frame = Frame { requests: 6_400.0, spent: 1_000.0, allowance: 1_000.0, ..PLAIN };
    let seen = start.even(&frame);
    near(seen.rate, 1.0 / 64.0);
    near(start.even(&Frame { allowance: 500.0, ..frame }).rate, 1.0 / 128.0);
    near(start.even(&Frame { allowance: 1e9, ..frame }).rate, 1.0);
    near(start.even(&Frame { allowance: 0.0, ..frame }).rate, 0.0);
    // Nothing was won: the share doubles until something is.
    near(start.even(&Frame { spent: 0.0, ..frame }).rate, 1.0 / 32.0);
    // None was bid for: what is known of costs stays, and bids go on when the curve allows.
    let stopped = Controls { rate: 0.0, ..seen };
    near(stopped.even(&Frame { spent: 0.0, ..frame }).rate, 1.0 / 64.0);
    // Costs are remembered for some slots.
    near(seen.even(&Frame { spent: 2_000.0, ..frame }).cost, 12.0);
}

#[test]
fn who_takes_over_goes_on_from_there() {
    let dual = controls(2.0);
    for settings in Settings::all() {
        let multiplier = dual.pace(&settings).multiplier();
        let want = match settings.name() {
            "pid" | "adaptive" | "slot_dual" => libm::exp(-2.0),
            _ => 1.0,
        };
        near(multiplier as f64 / 4_294_967_296.0, want);
    }
    // A controller goes on from where a dual is, and a dual that was not turned is low.
    let pid = Pid { derivative: 0.0, ..Pid::default() };
    for before in [
        dual.slot_dual(&SlotDual::default(), &Frame { spent: 190.0, ..PLAIN }),
        dual.adaptive(&Adaptive::default(), &Frame { spent: 190.0, ..PLAIN }),
    ] {
        assert!(before.dual > 2.01);
        near(before.pid(&pid, &PLAIN).dual, before.dual);
    }
    for settings in [Settings::Asap, Settings::Even, Settings::Throttle(Throttle::default())] {
        near(Controls::start(&settings).dual, libm::log(10.0));
    }
    near(Controls::start(&Settings::default()).rate, 1.0 / 64.0);
    for settings in [
        Settings::Pid(Pid { multiplier_max: 0.05, ..Pid::default() }),
        Settings::Adaptive(Adaptive { multiplier_max: 0.05, ..Adaptive::default() }),
        Settings::SlotDual(SlotDual { multiplier_max: 0.05, ..SlotDual::default() }),
    ] {
        near(Controls::start(&settings).dual, libm::log(20.0));
    }
}

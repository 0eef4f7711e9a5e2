//! Single steps of each strategy, by hand.

use super::*;
use crate::strategy::settings::{AuctionPricing, SlotDual};

/// A hundredth of a curve over 10,000, on the curve; ten wins of 10 in 100 requests.
const PLAIN: SlotFrame = SlotFrame {
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
    Controls { dual, integral: dual, ..Controls::start(&StrategySettings::default()) }
}

/// With a noise of 16 per nano: a memory of 800, and usual deviations of 400.
fn settled(dual: f64) -> Controls {
    Controls { noise: 16.0, learned: 800.0, ..controls(dual) }
}

#[test]
fn slot_dual_moves_by_the_error_beside_what_it_remembers() {
    let it = SlotDual { gain: 0.5, ..SlotDual::default() };
    let spent = |spent| SlotFrame { spent, ..PLAIN };
    // The slot's 100, 336 learned, and four wins with a noise of 16 each.
    let check_by = |it: &SlotDual, dual: f64, frame: &SlotFrame, want: f64| {
        let before = Controls { learned: 336.0, ..settled(dual) };
        near(before.slot_dual(it, frame).dual, want);
    };
    check_by(&it, 2.0, &PLAIN, 2.0);
    check_by(&it, 2.0, &spent(200.0), 2.1);
    check_by(&it, 2.0, &spent(0.0), 1.9);
    check_by(&it, 2.0, &spent(1e9), 3.0);
    check_by(&it, 4.5, &spent(1e9), 5.0);
    check_by(&it, 0.05, &spent(0.0), 0.0);
    let dear = SlotDual { multiplier_max: 148.0, ..it };
    check_by(&dear, 0.0, &spent(0.0), -0.1);
    check_by(&dear, -4.99, &spent(0.0), libm::log(1.0 / 148.0));
    check_by(&SlotDual { pricing: AuctionPricing::FirstPrice, ..it }, 2.0, &spent(200.0), 2.05);
    // The memory is at most what distinguishes a deviation from chance, and shorter at first.
    let moved = |before: Controls, frame: &SlotFrame| before.slot_dual(&it, frame).dual - 2.0;
    near(moved(Controls { learned: 1e9, ..settled(2.0) }, &spent(0.0)), -50.0 / 964.0);
    near(moved(Controls { patience: -1e-9, ..settled(2.0) }, &spent(0.0)), -50.0 / 964.0);
    near(moved(Controls { learned: 0.0, ..settled(2.0) }, &spent(0.0)), -50.0 / 164.0);
    // A win is assumed to cost the mean, and before the first one the budget of four requests.
    near(moved(controls(2.0), &spent(0.0)), -50.0 / 140.0);
    let none = SlotFrame { wins_all: 0.0, spent_all: 0.0, ..spent(0.0) };
    near(moved(controls(2.0), &none), -50.0 / 116.0);
    near(controls(2.0).slot_dual(&it, &none).noise, 0.0);
}

#[test]
fn slot_dual_remembers_noise_until_the_next_flight_wins() {
    let it = SlotDual { gain: 0.5, ..SlotDual::default() };
    let none = SlotFrame { wins_all: 0.0, spent_all: 0.0, spent: 0.0, ..PLAIN };
    let after = settled(2.0).on_curve().slot_dual(&it, &none).slot_dual(&it, &none);
    near(after.noise, 16.0);
    near(after.learned, 800.0);
}

#[test]
fn slot_dual_aims_at_what_it_asked_for() {
    let it = SlotDual { gain: 0.5, follow: 1.0, ..SlotDual::default() };
    // The distance of the dual from its level makes a slot spend this part of its own.
    let aims = |part: f64, frame: SlotFrame, aim: f64| {
        let before = Controls { dual: 2.0 - 0.5 * libm::log(part), ..settled(2.0) };
        near(before.slot_dual(&it, &SlotFrame { spent: aim, ..frame }).integral, 2.0);
    };
    aims(1.0, PLAIN, 100.0);
    aims(0.7, PLAIN, 70.0);
    aims(0.01, PLAIN, 10.0);
    aims(100.0, PLAIN, 1_000.0);
    aims(1.0, SlotFrame { requests: 200.0, ..PLAIN }, 200.0);
    aims(0.7, SlotFrame { requests: 50.0, ..PLAIN }, 35.0);
    aims(1.0, SlotFrame { requests: 1e6, ..PLAIN }, 808.0);
}

#[test]
fn slot_dual_asks_for_what_the_curve_and_the_traffic_ask() {
    let it = SlotDual { gain: 0.5, catch_up: 0.1, follow: 1.0, ..SlotDual::default() };
    let asks_of = |it: &SlotDual, noise, frame: SlotFrame, part: f64| {
        let after = Controls { noise, learned: 1e9, ..controls(2.0) }.slot_dual(it, &frame);
        near((after.integral - after.dual) / 0.5, libm::log(part));
    };
    // Chance causes deviations of 140: 1.4 %.
    let asks = |frame: SlotFrame, part| asks_of(&it, 1.96, frame, part);
    asks(PLAIN, 1.0);
    // An excess of 200 is 2 %, so corrected over half of a tenth of the curve.
    asks(SlotFrame { ahead: 200.0, ..PLAIN }, 0.6);
    asks(SlotFrame { ahead: -200.0, ..PLAIN }, 1.4);
    asks(SlotFrame { ahead: 20.0, ..PLAIN }, 0.978);
    asks(SlotFrame { ahead: 9_000.0, ..PLAIN }, 0.1);
    asks(SlotFrame { ahead: -9_000.0, ..PLAIN }, 10.0);
    // Four times the chance, four times the part of the curve.
    asks_of(
        &it,
        31.36,
        SlotFrame { ahead: 200.0, ..PLAIN },
        1.0 - 200.0 / (4_000.0 * 560.0 / 760.0),
    );
    asks(SlotFrame { ahead: 200.0, plan_left: 400.0, ..PLAIN }, 1.0 / 3.0);
    asks(SlotFrame { ahead: -200.0, plan_left: 300.0, ..PLAIN }, 2.0);
    // 120 more than 20 and the expected 100: twice as many.
    let burst = SlotFrame { requests: 220.0, ..PLAIN };
    asks(burst, 1.0);
    asks_of(&SlotDual { follow: 0.0, ..it }, 1.96, burst, 0.5);
    asks_of(&SlotDual { follow: 0.5, ..it }, 1.96, burst, 0.75);
    // No others follow near the end: half the effect with half of the last 8 % left, then none.
    asks(SlotFrame { plan_left: 500.0, ..burst }, 0.75);
    asks(SlotFrame { plan_left: 100.0, ..burst }, 0.5);
}

/// Otherwise the dual would fall beyond its range: the aim counts only as far as the dual reached.
#[test]
fn slot_dual_does_not_wind_up() {
    let it = SlotDual::default();
    let behind = SlotFrame { spent: 0.0, ahead: -2_000.0, ..PLAIN };
    let starved = (0..500).fold(settled(2.0), |before, _| before.slot_dual(&it, &behind));
    assert_eq!((starved.dual, starved.integral), (0.0, 0.0));
    let rich = SlotFrame { spent: 1_000.0, ..PLAIN };
    let after = (0..20).fold(starved, |before, _| before.slot_dual(&it, &rich));
    assert!(after.dual > 0.5, "{}", after.dual);
}

#[test]
fn slot_dual_is_patient_unless_errors_persist() {
    let it = SlotDual::default();
    let spent = |spent| SlotFrame { spent, ..PLAIN };
    let run_for = |slots, spends: [f64; 2]| {
        (0..slots).fold(settled(2.0), |before, number| {
            let after = before.slot_dual(&it, &spent(spends[number % 2]));
            // Kept constant, so that only patience differs.
            Controls { dual: 2.0, integral: 2.0, noise: 16.0, learned: 1e9, ..after }
        })
    };
    let run = |spends| run_for(100, spends).patience;
    assert!(run([130.0, 130.0]) < -0.5, "{}", run([130.0, 130.0]));
    assert!(run([160.0, 40.0]) > 0.5, "{}", run([160.0, 40.0]));
    assert!(run([110.0, 100.0]).abs() < 0.5, "{}", run([110.0, 100.0]));
    near(run_for(2_000, [190.0, 190.0]).patience, -2.0);
    near(run_for(2_000, [160.0, 40.0]).patience, 1.0);
    assert!(run_for(100, [1e9, 1e9]).error <= 3.0);
    // Nothing is judged while learning.
    let learning = Controls { learned: 10.0, error: 2.0, ..settled(2.0) };
    let after = learning.slot_dual(&it, &spent(130.0));
    assert_eq!((after.patience, after.error, after.learned), (0.0, 0.0, 110.0));
    near(settled(2.0).slot_dual(&it, &PLAIN).learned, 800.0);
}

#[test]
fn slot_dual_knows_by_how_much_spend_scatters() {
    let it = SlotDual::default();
    let noise = |frame: &SlotFrame| settled(2.0).slot_dual(&it, frame).noise;
    // An excess of 100 over 100: a mean square of 100 per planned nano.
    near(noise(&SlotFrame { spent: 200.0, ..PLAIN }), 16.0 + 0.01 * (100.0 - 16.0));
    near(noise(&PLAIN), 16.0 - 0.01 * 16.0);
    // A slot that aims at a tenth of a win counts a tenth.
    let small = SlotFrame { planned: 1.0, spent: 1.0, ..PLAIN };
    near(noise(&small), 16.0 - 0.001 * 16.0);
    near(noise(&SlotFrame { spent: 1e9, ..PLAIN }), 16.0 + 0.01 * (10_000.0 - 16.0));
}

/// Otherwise shorter slots would make a strategy follow chance.
#[test]
fn slot_dual_moves_as_far_in_many_slots_as_in_one() {
    let it = SlotDual::default();
    let one = settled(2.0).slot_dual(&it, &SlotFrame { spent: 150.0, ..PLAIN });
    let part =
        SlotFrame { traffic_slot: 0.001, requests: 10.0, planned: 10.0, spent: 15.0, ..PLAIN };
    let many = (0..10).fold(settled(2.0), |before, _| before.slot_dual(&it, &part));
    assert!((one.dual - 2.0) > 0.01, "{}", one.dual);
    assert!((many.dual - one.dual).abs() < 0.15 * (one.dual - 2.0), "{} {}", many.dual, one.dual);
}

#[test]
fn adaptive_moves_by_the_cost_of_requests() {
    let it = Adaptive { step: 2.0, ..Adaptive::default() };
    let step = |dual, frame: &SlotFrame| controls(dual).adaptive(&it, frame).dual;
    // 10,000 requests at 1 each; a step of 2 over 100.
    near(step(1.0, &PLAIN), 1.0);
    near(step(1.0, &SlotFrame { spent: 150.0, ..PLAIN }), libm::log(libm::exp(1.0) + 1.0));
    near(step(2.0, &SlotFrame { spent: 0.0, ..PLAIN }), libm::log(libm::exp(2.0) - 2.0));
    near(step(0.1, &SlotFrame { spent: 0.0, ..PLAIN }), 0.0);
    near(step(4.9, &SlotFrame { spent: 1e9, ..PLAIN }), 5.0);
    let low = Adaptive { multiplier_max: 0.5, ..it };
    near(controls(1.0).adaptive(&low, &SlotFrame { spent: 0.0, ..PLAIN }).dual, libm::log(2.0));
}

#[test]
fn pid_adds_three_terms_and_does_not_wind_up() {
    let it = Pid { proportional: 0.4, integral: 0.2, derivative: 0.1, ..Pid::default() };
    let first = controls(2.0).pid(&it, &SlotFrame { spent: 150.0, ..PLAIN });
    near(first.dual, 2.0 + 0.7 * 0.5);
    near(first.integral, 2.1);
    let second = first.pid(&it, &SlotFrame { spent: 100.0, ..PLAIN });
    near(second.dual, 2.1 - 0.05);
    near(first.pid(&it, &SlotFrame { spent: 1e9, ..PLAIN }).integral, 2.7);
    // After a day without a win the sum is at its limit, and one slot brings it back.
    let starved =
        (0..500).fold(controls(2.0), |it_is, _| it_is.pid(&it, &SlotFrame { spent: 0.0, ..PLAIN }));
    near(starved.dual, 0.0);
    near(starved.integral, 0.0);
    assert!(starved.pid(&it, &SlotFrame { spent: 200.0, ..PLAIN }).dual > 0.5);
    let flooded = (0..500)
        .fold(controls(2.0), |it_is, _| it_is.pid(&it, &SlotFrame { spent: 1_000.0, ..PLAIN }));
    near(flooded.dual, 5.0);
    near(flooded.integral, 5.0);
    assert!(flooded.pid(&it, &SlotFrame { spent: 0.0, ..PLAIN }).dual < 4.5);
}

#[test]
fn throttle_grows_and_shrinks_by_factors() {
    let it = Throttle::default();
    let step = |rate, ahead| {
        Controls { rate, ..controls(0.0) }.throttle(&it, &SlotFrame { ahead, ..PLAIN }).rate
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
    let start = Controls::start(&StrategySettings::Even);
    // One of 64 requests costs 10: all 6,400 would cost 64,000, with a budget of 1,000.
    let frame = SlotFrame { requests: 6_400.0, spent: 1_000.0, allowance: 1_000.0, ..PLAIN };
    let seen = start.even(&frame);
    near(seen.rate, 1.0 / 64.0);
    near(start.even(&SlotFrame { allowance: 500.0, ..frame }).rate, 1.0 / 128.0);
    near(start.even(&SlotFrame { allowance: 1e9, ..frame }).rate, 1.0);
    near(start.even(&SlotFrame { allowance: 0.0, ..frame }).rate, 0.0);
    near(start.even(&SlotFrame { spent: 0.0, ..frame }).rate, 1.0 / 32.0);
    // Without bids the cost is remembered, and bids resume when the curve allows.
    let stopped = Controls { rate: 0.0, ..seen };
    near(stopped.even(&SlotFrame { spent: 0.0, ..frame }).rate, 1.0 / 64.0);
    near(seen.even(&SlotFrame { spent: 2_000.0, ..frame }).cost, 12.0);
}

#[test]
fn who_takes_over_goes_on_from_there() {
    let dual = controls(2.0);
    for settings in StrategySettings::all() {
        let multiplier = dual.pace(&settings).multiplier();
        let want = match settings.name() {
            "pid" | "adaptive" | "slot_dual" => libm::exp(-2.0),
            _ => 1.0,
        };
        near(multiplier as f64 / 4_294_967_296.0, want);
    }
    // A controller continues from a dual's value; an unused dual is low.
    let pid = Pid { derivative: 0.0, ..Pid::default() };
    for before in [
        dual.slot_dual(&SlotDual::default(), &SlotFrame { spent: 190.0, ..PLAIN }),
        dual.adaptive(&Adaptive::default(), &SlotFrame { spent: 190.0, ..PLAIN }),
    ] {
        assert!(before.dual > 2.01);
        near(before.pid(&pid, &PLAIN).dual, before.dual);
    }
    for settings in [
        StrategySettings::Asap,
        StrategySettings::Even,
        StrategySettings::Throttle(Throttle::default()),
    ] {
        near(Controls::start(&settings).dual, libm::log(10.0));
    }
    near(Controls::start(&StrategySettings::default()).rate, 1.0 / 64.0);
    for settings in [
        StrategySettings::Pid(Pid { multiplier_max: 0.05, ..Pid::default() }),
        StrategySettings::Adaptive(Adaptive { multiplier_max: 0.05, ..Adaptive::default() }),
        StrategySettings::SlotDual(SlotDual { multiplier_max: 0.05, ..SlotDual::default() }),
    ] {
        near(Controls::start(&settings).dual, libm::log(20.0));
    }
}

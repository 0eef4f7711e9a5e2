//! The guard under faults, over many seeds.
//!
//! `SIM_SEEDS` sets the number of seeds for each kind of scenario.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use exchange_core::guard::{BreakerLimits, CallRate, GuardLimits};
use faults::Chance;
use sim::guard::checks::{self, Illness};
use sim::guard::{GuardScenario, GuardTrace, Health, NetworkFaults, ScenarioPhase, Stall, run};

/// A check of a trace against its scenario.
type Check = fn(&GuardScenario, &GuardTrace) -> Result<(), String>;

/// Seeds if `SIM_SEEDS` is not set.
const SEEDS: u64 = 20;

fn seeds() -> u64 {
    std::env::var("SIM_SEEDS").ok().map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

fn count(number: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(number).unwrap()).unwrap()
}

/// The violation or panic of a run. None if it passes.
fn problem(setup: &GuardScenario, check: Check) -> Option<String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| check(setup, &run(setup))));
    match outcome {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap(),
            )
        }
    }
}

fn holds(scenario: fn(u64) -> GuardScenario, check: Check) {
    for seed in 0..seeds() {
        let setup = scenario(seed);
        if let Some(problem) = problem(&setup, check) {
            panic!("seed {seed}: {problem}\n{setup:?}");
        }
    }
}

fn rate(chance: &mut Chance) -> CallRate {
    let qps = chance.one_of(&[1, 3, 20, 150, 1_000, 4_000]);
    let burst = chance.within((qps / 4).max(1)..=(qps * 2).max(4));
    CallRate { qps: count(qps), burst: count(burst) }
}

/// Mixed demand: idle shards, bursts, and a busiest shard that changes.
fn restless(chance: &mut Chance, shards: usize, length_ms: u64) -> Vec<ScenarioPhase> {
    let starts = (0..length_ms).step_by(700);
    let mut phase = |from_ms| {
        let mut rates: Vec<u64> =
            (0..shards).map(|_| chance.one_of(&[0, 0, 2, 10, 50, 300])).collect();
        let busiest = usize::try_from(chance.within(0..=shards as u64 - 1)).unwrap();
        rates[busiest] = chance.one_of(&[100, 1_000, 5_000]);
        ScenarioPhase { from_ms, rates }
    };
    starts.map(&mut phase).collect()
}

/// All faults at once: lost, late, repeated and overtaken messages, stalls, changed limits, and a
/// DSP that fails in every way.
fn havoc(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0x4a_0c);
    let length_ms = 16_000;
    let shards = usize::try_from(chance.one_of(&[1, 2, 5, 9])).unwrap();
    let limits = |chance: &mut Chance| GuardLimits {
        rate: Some(rate(chance)),
        in_flight_max: Some(count(chance.one_of(&[1, 2, 7, 30, 200]))),
        breaker: chance.happens(500_000).then(|| BreakerLimits {
            window: Duration::from_secs(2),
            calls_min: 10,
            ..BreakerLimits::default()
        }),
    };
    let mut at_ms = 0;
    let mut stalls = Vec::new();
    for _ in 0..chance.within(0..=6) {
        let shard = chance.within(0..=shards as u64);
        let shard = usize::try_from(shard).ok().filter(|shard| *shard < shards);
        at_ms += chance.within(100..=2_000);
        let until_ms = at_ms + chance.within(50..=1_500);
        stalls.push(Stall { shard, from_ms: at_ms, until_ms });
    }
    let health = [
        Health::Well,
        Health::FastErrors(1_000_000),
        Health::Hangs,
        Health::Hurried,
        Health::FastErrors(400_000),
    ];
    // The governor is awake when limits change: a change does not wait.
    stalls.retain(|stall| stall.shard.is_some() || stall.until_ms < 9_000);
    GuardScenario {
        seed,
        shards,
        tick_ms: 5,
        length_ms,
        limits: limits(&mut chance),
        changes: (0..chance.within(0..=3))
            .map(|n| (9_000 + 2_000 * n, limits(&mut chance)))
            .collect(),
        faults: NetworkFaults {
            delay_ms_max: chance.one_of(&[0, 30, 150, 400]),
            lost_ppm: chance.one_of(&[0, 10_000, 200_000]),
            repeated_ppm: chance.one_of(&[0, 50_000, 300_000]),
        },
        demand: restless(&mut chance, shards, length_ms),
        health: (0..8).map(|n| (n * 2_000, chance.one_of(&health))).collect(),
        stalls,
        pauses: Vec::new(),
    }
}

fn limits_hold(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    checks::rate_is_kept(setup, trace)?;
    checks::cap_is_kept(setup, trace, 5_000)
}

#[test]
fn no_window_has_more_calls_than_allowed_and_no_moment_more_in_flight() {
    holds(havoc, limits_hold);
}

/// Consecutive reloads that change nothing, with calls in flight.
fn reloads(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0x9e_10);
    let limits = GuardLimits {
        rate: Some(rate(&mut chance)),
        in_flight_max: Some(count(chance.one_of(&[1, 6, 40]))),
        breaker: None,
    };
    let mut setup = GuardScenario::steady(seed, limits, vec![100, 400, 30], 8_000);
    setup.changes = (1..8).map(|n| (n * 950, limits)).collect();
    setup.health = vec![(0, chance.one_of(&[Health::Hangs, Health::Well]))];
    setup
}

fn nothing_is_forgotten(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    checks::rate_is_kept(setup, trace)?;
    checks::cap_is_kept(setup, trace, 0)
}

#[test]
fn a_reload_forgets_nothing() {
    holds(reloads, nothing_is_forgotten);
}

/// Very unequal demand around the limit; the busiest shard changes once.
fn skewed(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0x5e_ed);
    let shards = usize::try_from(chance.one_of(&[1, 2, 4, 16])).unwrap();
    let qps = chance.one_of(&[100, 500, 2_000]);
    let load = chance.one_of(&[50, 90, 100, 150, 400]);
    let length_ms = 20_000;
    let phases = [0, 9_000].map(|from_ms| {
        let busiest = usize::try_from(chance.within(0..=shards as u64 - 1)).unwrap();
        let wanted = qps * load / 100;
        let small = wanted / 5 / shards as u64;
        let rates =
            (0..shards).map(|s| if s == busiest { wanted * 4 / 5 } else { small }).collect();
        ScenarioPhase { from_ms, rates }
    });
    let rate = CallRate::per_second(count(qps));
    let cap = chance.happens(500_000).then(|| count(qps.max(4 * shards as u64)));
    let limits = GuardLimits { in_flight_max: cap, ..GuardLimits::of_rate(rate) };
    let mut setup = GuardScenario::steady(seed, limits, vec![0; shards], length_ms);
    setup.demand = phases.to_vec();
    setup.faults = NetworkFaults { delay_ms_max: 30, lost_ppm: 5_000, repeated_ppm: 5_000 };
    setup
}

fn nearly_all_is_called(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    limits_hold(setup, trace)?;
    checks::throughput(setup, trace, 2_000, 950_000)
}

#[test]
fn what_is_wanted_and_allowed_is_called_wherever_it_is_wanted() {
    holds(skewed, nearly_all_is_called);
}

/// Up to 64 shards, one of them much busier, that share one call per second.
fn famine(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0xfa_00);
    let shards = usize::try_from(chance.one_of(&[3, 16, 64])).unwrap();
    let mut rates: Vec<u64> = (0..shards).map(|_| chance.one_of(&[10, 20])).collect();
    rates[0] = 500;
    let limits = GuardLimits::of_rate(CallRate::per_second(count(1)));
    let mut setup = GuardScenario::steady(seed, limits, rates, shards as u64 * 8_000);
    setup.tick_ms = 25;
    setup
}

fn each_has_its_turn(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    limits_hold(setup, trace)?;
    checks::nobody_starves(setup, trace, setup.shards as u64 * 5_000)?;
    checks::throughput(setup, trace, 2_000, 950_000)
}

#[test]
fn nobody_starves_at_one_call_a_second() {
    for seed in 0..seeds().div_ceil(10) {
        let setup = famine(seed);
        assert_eq!(problem(&setup, each_has_its_turn), None, "seed {seed}");
    }
}

/// Fewer permits than shards with constant demand.
fn crowd(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0xc0_0d);
    let shards = usize::try_from(chance.one_of(&[3, 8, 16])).unwrap();
    let cap = count(chance.one_of(&[1, 2, 5]));
    let limits = GuardLimits { in_flight_max: Some(cap), ..GuardLimits::NONE };
    let rates = (0..shards).map(|_| chance.one_of(&[100, 400])).collect();
    GuardScenario::steady(seed, limits, rates, shards as u64 * 8_000)
}

fn permits_go_round(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    checks::cap_is_kept(setup, trace, 0)?;
    checks::nobody_starves(setup, trace, setup.shards as u64 * 5_000)
}

#[test]
fn permits_go_round_where_there_are_fewer_than_shards() {
    holds(crowd, permits_go_round);
}

const ILL_FROM_MS: u64 = 15_000;
const ILL_UNTIL_MS: u64 = 27_000;

/// A DSP that is well, then fails every call, then is well again.
fn illness(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0x111);
    let shards = usize::try_from(chance.one_of(&[1, 4, 16])).unwrap();
    let wanted = chance.one_of(&[200, 800, 2_000]);
    let mut limits = GuardLimits::default();
    if chance.happens(300_000) {
        limits.rate = Some(CallRate::per_second(count(wanted * 2 / 3)));
    }
    let rates = vec![wanted / shards as u64; shards];
    let mut setup = GuardScenario::steady(seed, limits, rates, 48_000);
    let ill = chance.one_of(&[Health::FastErrors(1_000_000), Health::Hangs]);
    setup.health = vec![(0, Health::Well), (ILL_FROM_MS, ill), (ILL_UNTIL_MS, Health::Well)];
    setup.faults = NetworkFaults { delay_ms_max: 40, lost_ppm: 20_000, repeated_ppm: 20_000 };
    setup
}

/// Within the bounds that [`BreakerLimits`] documents.
fn is_throttled_and_recovers(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    let limits = setup.limits.breaker.unwrap();
    let slack_ms = 500;
    let share = u64::from(limits.error_share_max.get());
    let window_ms = u64::try_from(limits.window.as_millis()).unwrap();
    let interval_ms = u64::try_from(limits.probe_interval.as_millis()).unwrap();
    let wanted: u64 = (0..setup.shards).map(|shard| setup.rate(shard, 0)).sum();
    let doublings = (wanted.div_ceil(limits.probe_qps.get().into())).next_power_of_two().ilog2();
    let timeout_ms = 100;
    checks::illness_is_answered(
        trace,
        &Illness {
            from_ms: ILL_FROM_MS,
            until_ms: ILL_UNTIL_MS,
            opens_ms: window_ms * share / 1_000_000 + timeout_ms + slack_ms,
            closes_ms: (2 + u64::from(doublings)) * (interval_ms + 100) + timeout_ms + slack_ms,
            probes: CallRate::per_second(limits.probe_qps),
        },
    )?;
    checks::throughput(setup, trace, ILL_UNTIL_MS + 15_000, 950_000)
}

#[test]
fn an_ill_dsp_is_throttled_in_time_and_trusted_again_in_time() {
    holds(illness, is_throttled_and_recovers);
}

/// A DSP that is late because it had too little time, or errs within its limit.
fn blameless(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0xb1a);
    let health = chance.one_of(&[Health::Hurried, Health::FastErrors(100_000), Health::Well]);
    let mut setup = GuardScenario::steady(seed, GuardLimits::default(), vec![300; 3], 20_000);
    setup.health = vec![(0, Health::Well), (4_000, health)];
    setup
}

fn is_not_throttled(_: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    checks::stays_closed(trace)
}

#[test]
fn what_is_not_a_dsps_fault_does_not_throttle_it() {
    holds(blameless, is_not_throttled);
}

/// A DSP that is paused for three seconds.
fn pause(seed: u64) -> GuardScenario {
    let mut chance = Chance::new(seed ^ 0x9a);
    let limits = match chance.within(0..=2) {
        0 => GuardLimits::NONE,
        1 => GuardLimits::of_rate(CallRate::per_second(count(100))),
        _ => GuardLimits { in_flight_max: Some(count(20)), ..GuardLimits::default() },
    };
    let mut setup = GuardScenario::steady(seed, limits, vec![50; 4], 12_000);
    setup.pauses = vec![(3_000, 6_000)];
    setup.faults = NetworkFaults { delay_ms_max: 60, lost_ppm: 50_000, repeated_ppm: 50_000 };
    setup
}

fn is_quiet_while_paused(setup: &GuardScenario, trace: &GuardTrace) -> Result<(), String> {
    checks::pauses_are_kept(setup, trace)?;
    checks::throughput(setup, trace, 8_000, 950_000)
}

#[test]
fn a_paused_dsp_is_left_alone_and_called_again_afterwards() {
    holds(pause, is_quiet_while_paused);
}

#[test]
fn without_limits_nothing_is_ever_refused() {
    let mut setup = GuardScenario::steady(1, GuardLimits::NONE, vec![5_000, 0, 20], 5_000);
    setup.health = vec![(0, Health::Hangs)];
    let stall = |shard| Stall { shard, from_ms: 1_000, until_ms: 2_000 };
    setup.stalls = vec![stall(None), stall(Some(0))];
    let trace = run(&setup);
    assert_eq!(trace.refused, []);
    assert!(trace.calls.len() > 20_000);
}

#[test]
fn while_the_governor_stalls_shards_use_what_they_hold_and_no_more() {
    let rate = CallRate { qps: count(100), burst: count(100) };
    let mut setup = GuardScenario::steady(1, GuardLimits::of_rate(rate), vec![300; 4], 20_000);
    setup.stalls = vec![Stall { shard: None, from_ms: 5_000, until_ms: 15_000 }];
    let trace = run(&setup);
    assert_eq!(limits_hold(&setup, &trace), Ok(()));
    let during = trace.calls.iter().filter(|(at_ms, _)| (5_000..15_000).contains(at_ms)).count();
    assert!(during <= 100, "{during} calls without a governor");
    assert!(trace.calls.iter().any(|(at_ms, _)| *at_ms > 15_500));
}

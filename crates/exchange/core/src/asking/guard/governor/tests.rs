//! Grants, step by step: what is leased, moved, recalled and conserved.

use std::time::Duration;

use super::*;
use crate::asking::guard::limits::BreakerLimits;
use crate::asking::guard::message::STEP;
use crate::asking::guard::shard::{BreakerTrial, CallHealth, CallPermit, GuardRefusal, ShardGuard};

fn number(of: u32) -> NonZeroU32 {
    NonZeroU32::new(of).expect("a limit is not 0")
}

fn rate(qps: u32, burst: u32) -> GuardLimits {
    GuardLimits::of_rate(CallRate { qps: number(qps), burst: number(burst) })
}

fn cap(in_flight_max: u32) -> GuardLimits {
    GuardLimits { in_flight_max: Some(number(in_flight_max)), ..GuardLimits::NONE }
}

struct Case {
    governor: Governor,
    shards: Vec<ShardGuard>,
    now: Tick,
    calls: Vec<(usize, (CallPermit, BreakerTrial))>,
}

impl Case {
    fn new(limits: GuardLimits, shards: usize) -> Self {
        let governor = Governor::new(limits, shards, Tick::ZERO);
        let shards = governor.grants().iter().map(ShardGuard::new).collect();
        Self { governor, shards, now: Tick::ZERO, calls: Vec::new() }
    }

    fn step(&mut self) {
        self.now = self.now.after(STEP);
        let reports: Vec<_> = self.shards.iter_mut().map(ShardGuard::report).collect();
        for grant in self.governor.step(self.now, &reports) {
            self.shards[grant.shard].apply(grant);
        }
    }

    /// Tries calls on each shard; returns how many are made.
    fn call(&mut self, wanted: &[usize]) -> Vec<usize> {
        let mut made = vec![0; wanted.len()];
        for (shard, wanted) in wanted.iter().enumerate() {
            for _ in 0..*wanted {
                if let Ok(call) = self.shards[shard].acquire() {
                    made[shard] += 1;
                    self.calls.push((shard, call));
                }
            }
        }
        made
    }

    fn end_all(&mut self, end: CallHealth) {
        for (shard, (permit, trial)) in self.calls.drain(..) {
            self.shards[shard].report_outcome(trial, end);
            self.shards[shard].release(permit);
        }
    }

    fn calls_in(&mut self, steps: usize, wanted: &[usize]) -> Vec<usize> {
        let mut made = vec![0; wanted.len()];
        for _ in 0..steps {
            self.step();
            for (sum, made) in made.iter_mut().zip(self.call(wanted)) {
                *sum += made;
            }
            self.end_all(CallHealth::Good);
        }
        made
    }
}

#[test]
fn without_limits_all_is_open_from_the_start_and_stays_so() {
    let mut case = Case::new(GuardLimits::NONE, 2);
    assert_eq!(case.call(&[500, 0]), [500, 0]);
    case.step();
    assert_eq!(case.call(&[500, 1]), [500, 1]);
    case.step();
    let status = case.governor.status();
    assert_eq!((status.state, status.level, status.in_flight), (BreakerState::Closed, None, 1_001));
}

#[test]
fn a_rate_starts_empty_and_a_cap_at_once() {
    let limits = GuardLimits { in_flight_max: Some(number(7)), ..rate(1_000, 1_000) };
    let mut case = Case::new(limits, 3);
    assert_eq!(case.shards[0].acquire().err(), Some(GuardRefusal::Qps));
    case.step();
    case.step();
    // All 7 are granted, as evenly as possible, before any is used.
    let permits: u64 = case.governor.grants().iter().filter_map(|grant| grant.permits).sum();
    assert_eq!(permits, 7);
    assert_eq!(case.call(&[3, 3, 3]).iter().sum::<usize>(), 7);
}

#[test]
fn tokens_follow_demand_and_come_back_from_who_is_idle() {
    let mut case = Case::new(rate(1_000, 1_000), 4);
    case.calls_in(20, &[0; 4]);
    let made = case.calls_in(20, &[80, 0, 0, 0]);
    assert!(made[0] >= 1_550, "{made:?}");
    case.calls_in(2, &[0, 80, 0, 0]);
    let made = case.calls_in(20, &[0, 80, 0, 0]);
    assert!(made[1] >= 1_550, "{made:?}");
    case.calls_in(20, &[200; 4]);
    let made = case.calls_in(20, &[200; 4]);
    let sum: usize = made.iter().sum();
    assert!((1_950..=2_000).contains(&sum), "{made:?}");
    assert!(made.iter().all(|made| (450..550).contains(made)), "{made:?}");
}

#[test]
fn a_burst_just_before_a_step_is_not_made_good_by_it() {
    let mut case = Case::new(rate(1_000, 100), 1);
    case.calls_in(5, &[0]);
    let held =
        |case: &Case| case.governor.status().outstanding + case.governor.status().level.unwrap();
    assert_eq!(held(&case), 100);
    let made = case.call(&[100])[0] as u64;
    assert!(made >= 50);
    // The bucket was full until now: used tokens accrue from now on.
    case.step();
    assert_eq!(held(&case), 100 - made);
    case.step();
    assert_eq!(held(&case), 100);
}

#[test]
fn permits_follow_demand_and_are_never_more_than_the_cap() {
    let mut case = Case::new(cap(12), 3);
    assert_eq!(case.call(&[20, 0, 0]), [4, 0, 0]);
    for _ in 0..4 {
        case.step();
        case.call(&[20, 0, 0]);
    }
    let in_use =
        |case: &Case| -> Vec<_> { case.shards.iter().map(ShardGuard::in_flight).collect() };
    assert_eq!(in_use(&case), [12, 0, 0]);
    for _ in 0..4 {
        case.step();
        assert_eq!(case.call(&[0, 20, 0]), [0, 0, 0]);
    }
    case.end_all(CallHealth::Good);
    for _ in 0..60 {
        case.step();
        case.call(&[0, 20, 0]);
        assert!(in_use(&case).iter().sum::<u32>() <= 12);
    }
    assert_eq!(in_use(&case), [0, 12, 0]);
}

#[test]
fn a_pause_stops_calls_and_recalls_what_is_leased() {
    let limits = GuardLimits { in_flight_max: Some(number(10)), ..rate(100, 100) };
    let mut case = Case::new(limits, 2);
    case.calls_in(30, &[3, 3]);
    case.governor.pause(true);
    case.step();
    assert_eq!(case.shards[0].acquire().err(), Some(GuardRefusal::Paused));
    case.step();
    let status = case.governor.status();
    assert_eq!(
        (status.state, status.outstanding, status.level),
        (BreakerState::Paused, 0, Some(100))
    );
    case.governor.pause(false);
    case.step();
    case.step();
    assert_eq!(case.call(&[1, 1]), [1, 1]);
}

#[test]
fn other_limits_hold_from_the_next_step_and_mint_nothing() {
    let mut case = Case::new(rate(100, 100), 2);
    case.calls_in(30, &[0, 0]);
    let before = case.governor.status();
    let held = before.outstanding + before.level.unwrap();
    assert_eq!(held, 100);
    for limits in [rate(100, 100), rate(1_000, 1_000)] {
        case.governor = case.governor.with_limits(limits, case.now);
        let status = case.governor.status();
        assert_eq!(status.outstanding + status.level.unwrap(), held);
    }
    case.governor = case.governor.with_limits(rate(10, 5), case.now);
    case.step();
    case.step();
    let made: usize = case.call(&[100, 100]).iter().sum();
    assert!(made <= 6, "{made}");
    case.governor = case.governor.with_limits(GuardLimits::NONE, case.now);
    case.step();
    assert_eq!(case.call(&[500, 500]), [500, 500]);
    case.governor = case.governor.with_limits(rate(10, 500), case.now);
    case.step();
    assert!(case.call(&[500, 500]).iter().sum::<usize>() <= 1);
    // A new cap with calls in flight: none until enough have ended.
    case.governor = case.governor.with_limits(cap(50), case.now);
    case.step();
    case.step();
    assert_eq!(case.shards[0].acquire().err(), Some(GuardRefusal::InFlight));
    case.end_all(CallHealth::Neutral);
    case.step();
    case.step();
    assert_eq!(case.call(&[60, 60]).iter().sum::<usize>(), 50);
}

#[test]
fn errors_throttle_to_probes_and_health_closes_again() {
    let limits = GuardLimits {
        breaker: Some(BreakerLimits { calls_min: 10, ..BreakerLimits::default() }),
        ..GuardLimits::NONE
    };
    let mut case = Case::new(limits, 2);
    case.step();
    assert_eq!(case.call(&[20, 0]), [20, 0]);
    case.end_all(CallHealth::Bad);
    case.step();
    let allowance = number(5);
    let status = case.governor.status();
    assert_eq!(
        (status.state, status.good, status.bad),
        (BreakerState::Throttled { allowance }, 0, 20)
    );
    assert_eq!(case.shards[0].acquire().err(), Some(GuardRefusal::Breaker));
    let mut probes = 0;
    for _ in 0..20 {
        case.step();
        probes += case.call(&[20, 20]).iter().sum::<usize>();
        case.end_all(CallHealth::Bad);
    }
    assert!((5..=15).contains(&probes), "{probes}");
    let made: usize = case.calls_in(120, &[20, 20]).iter().sum();
    assert_eq!(case.governor.status().state, BreakerState::Closed);
    assert!(made > 1_000);
    assert_eq!(case.call(&[500, 500]), [500, 500]);
    // A reload ends throttling only if it changes the breaker.
    case.end_all(CallHealth::Bad);
    case.step();
    let kept = case.governor.clone().with_limits(limits, case.now).status().state;
    assert_eq!(kept, BreakerState::Throttled { allowance });
    case.governor = case.governor.with_limits(GuardLimits::NONE, case.now);
    case.step();
    assert_eq!(case.call(&[9, 9]), [9, 9]);
}

#[test]
fn repeated_and_overtaken_reports_change_nothing() {
    let mut governor = Governor::new(rate(100, 100), 1, Tick::ZERO);
    let mut shard = ShardGuard::new(&governor.grants()[0]);
    let second = Tick::ZERO.after(Duration::from_secs(1));
    shard.apply(&governor.step(second, &[])[0]);
    let mut calls: Vec<_> = (0..10).map(|_| shard.acquire().unwrap()).collect();
    let old = shard.report();
    calls.drain(..).for_each(|(permit, _)| shard.release(permit));
    let new = shard.report();
    governor.step(second, &[new, old, new, old]);
    let status = governor.status();
    assert_eq!((status.in_flight, status.outstanding + status.level.unwrap()), (0, 90));
}

#[test]
#[should_panic(expected = "at most what it was granted")]
fn a_shard_that_spends_more_than_it_has_stops_the_process() {
    let mut governor = Governor::new(rate(100, 100), 1, Tick::ZERO);
    let mut shard = ShardGuard::new(&governor.grants()[0]);
    let report = GuardReport { consumed: 1, ..shard.report() };
    governor.step(Tick::ZERO, &[report]);
}

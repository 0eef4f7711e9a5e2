//! When the breaker throttles, doubles, falls back and closes.

use std::time::Duration;

use super::*;

fn per_second(qps: u32) -> NonZeroU32 {
    NonZeroU32::new(qps).expect("a rate is not 0")
}

fn limits() -> BreakerLimits {
    BreakerLimits { calls_min: 20, ..BreakerLimits::default() }
}

struct Case {
    breaker: CircuitBreaker,
    now: Tick,
    qps_max: Option<NonZeroU32>,
}

impl Case {
    fn new(limits: BreakerLimits) -> Self {
        Self { breaker: CircuitBreaker::new(limits, Tick::ZERO), now: Tick::ZERO, qps_max: None }
    }

    #[track_caller]
    fn check(&mut self, ms: u64, (good, bad, attempts): (u64, u64, u64), want: BreakerChange) {
        self.now = self.now.after(Duration::from_millis(ms));
        let got = self.breaker.step(self.now, OutcomeCounts { good, bad }, attempts, self.qps_max);
        assert_eq!(got, want, "at {:?}", self.now);
    }

    fn throttled(limits: BreakerLimits) -> Self {
        let mut case = Self::new(limits);
        case.check(100, (0, 50, 50), BreakerChange::Throttled(limits.probe_qps));
        case
    }
}

#[test]
fn over_the_share_of_enough_results_throttles() {
    let probes = BreakerChange::Throttled(per_second(5));
    for (good, bad, want) in [
        (0, 19, BreakerChange::None),
        (0, 20, probes),
        (17, 3, BreakerChange::None),
        (16, 4, probes),
        (850, 150, BreakerChange::None),
        (849, 151, probes),
        (1_000, 0, BreakerChange::None),
        (u64::MAX / 4, u64::MAX / 4, probes),
    ] {
        Case::new(limits()).check(100, (good, bad, 0), want);
    }
    // Results add up over the window, and earlier ones are forgotten.
    let mut case = Case::new(limits());
    case.check(100, (0, 10, 0), BreakerChange::None);
    case.check(9_000, (9, 0, 0), BreakerChange::None);
    case.check(100, (0, 1, 0), probes);
    let mut case = Case::new(limits());
    case.check(100, (0, 19, 0), BreakerChange::None);
    case.check(11_000, (0, 19, 0), BreakerChange::None);
}

#[test]
fn healthy_intervals_double_the_allowance_until_it_suffices() {
    let mut case = Case::throttled(limits());
    let raised = |qps| BreakerChange::Raised(per_second(qps));
    case.check(500, (3, 0, 20), BreakerChange::None);
    case.check(500, (2, 0, 20), raised(10));
    // Exactly the tolerated share of bad results.
    case.check(1_000, (17, 3, 40), raised(20));
    case.check(1_000, (20, 0, 40), raised(40));
    assert_eq!(case.breaker.allowance(), Some(per_second(40)));
    case.check(1_000, (40, 0, 40), BreakerChange::Closed);
    assert_eq!(case.breaker.allowance(), None);
    assert_eq!(case.breaker.counts().total(), 0);
    case.check(100, (1, 3, 4), BreakerChange::None);
}

#[test]
fn what_may_not_be_asked_anyway_is_not_waited_for() {
    let mut case = Case::throttled(limits());
    case.qps_max = Some(per_second(8));
    case.check(1_000, (5, 0, 1_000), BreakerChange::Raised(per_second(10)));
    case.check(1_000, (5, 0, 1_000), BreakerChange::Closed);
}

#[test]
fn bad_intervals_fall_back_to_probes() {
    let probes = BreakerChange::Throttled(per_second(5));
    let mut case = Case::throttled(limits());
    case.check(1_000, (4, 1, 100), probes);
    case.check(1_000, (5, 0, 100), BreakerChange::Raised(per_second(10)));
    case.check(1_000, (10, 0, 100), BreakerChange::Raised(per_second(20)));
    case.check(900, (1, 18, 100), BreakerChange::None);
    // Enough results before the interval ends.
    case.check(50, (0, 1, 0), probes);
    case.check(1_000, (0, 5, 100), probes);
}

#[test]
fn too_few_results_are_waited_for() {
    let mut case = Case::throttled(limits());
    case.check(1_000, (0, 0, 100), BreakerChange::None);
    case.check(1_000, (2, 0, 100), BreakerChange::None);
    case.check(5_000, (0, 0, 100), BreakerChange::None);
    case.check(100, (1, 0, 0), BreakerChange::Raised(per_second(10)));
    // If an interval yields only one result, one suffices.
    let mut case = Case::throttled(BreakerLimits { probe_qps: per_second(1), ..limits() });
    case.check(1_000, (0, 0, 100), BreakerChange::None);
    case.check(100, (1, 0, 100), BreakerChange::Raised(per_second(2)));
    // The breaker closes once its allowance meets the demand.
    let mut case = Case::throttled(limits());
    case.check(2_000, (3, 0, 3), BreakerChange::Closed);
}

//! A provider that fails above a number of calls at a time, and users with many calls for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use units::{SplitMix64, Tick};

use super::{OPTIONS, at_ms, call};
use crate::schedule::{
    AttemptEnd, AttemptOutcome, AttemptPermit, CallClass, ProviderLane, ProviderLaneOptions,
    StartedCall,
};

/// What is simulated.
#[derive(Clone, Copy)]
struct World {
    calls: u64,
    /// The provider fails calls beyond so many at a time.
    provider_max: usize,
    /// What the lane knows of that.
    known: bool,
    service: Duration,
    /// Calls in a thousand that fail whatever the load.
    failures_ppt: u64,
    /// Whether it says that it is busy, instead of failing.
    says_busy: bool,
    /// Whether calls beyond its number take longer instead of failing.
    slows: bool,
    /// How much later the lane learns of ends, at most: those who read answers have much to do at times.
    lag: Duration,
    /// The least time between calls on their way: those who make them have much to do, except at times.
    pace: Duration,
    seed: u64,
}

const WORLD: World = World {
    calls: 5_327,
    provider_max: 10,
    known: true,
    service: Duration::from_millis(20),
    failures_ppt: 0,
    says_busy: false,
    slows: false,
    lag: Duration::ZERO,
    pace: Duration::ZERO,
    seed: 1,
};

/// What happened.
#[derive(Debug, Default)]
struct Course {
    answered: u64,
    given_up: u64,
    attempts: u64,
    overshot: u64,
    in_flight_max: usize,
    elapsed: Duration,
}

/// The provider, and the way to it.
#[derive(Default)]
struct SimulatedProvider {
    calls: u64,
    /// When the last call arrived.
    arrived: Tick,
    /// When the calls end that are being answered.
    answering: BinaryHeap<Reverse<Tick>>,
}

struct SimulatedCall {
    /// When the lane learns of its end.
    seen: Tick,
    is_beyond: bool,
    is_failing: bool,
}

impl SimulatedProvider {
    fn begin(&mut self, world: World, now: Tick, random: &mut SplitMix64) -> SimulatedCall {
        // Of a hundred calls, the last twenty come as fast as they can.
        let pace = if self.calls % 100 < 80 { world.pace } else { Duration::ZERO };
        self.calls += 1;
        self.arrived = self.arrived.after(pace).max(now);
        while self.answering.peek().is_some_and(|Reverse(ends)| *ends <= self.arrived) {
            self.answering.pop();
        }
        let is_beyond = self.answering.len() >= world.provider_max && !world.slows;
        let is_failing = is_beyond || random.bits() % 1_000 < world.failures_ppt;
        // A provider with too much to do says so at once.
        let spread = Duration::from_micros(random.bits() % 4_000);
        let beside = u32::try_from(self.answering.len() / world.provider_max).expect("few");
        let service = if world.slows { world.service * (1 + beside) } else { world.service };
        let took = if is_beyond { Duration::from_millis(1) } else { service + spread };
        let ends = self.arrived.after(took);
        if !is_beyond {
            self.answering.push(Reverse(ends));
        }
        // Now and then all that has come is read at once.
        let lag = u64::try_from(world.lag.as_nanos()).expect("short").max(1);
        let seen = Tick::from_nanos(ends.nanos().next_multiple_of(lag));
        SimulatedCall { seen, is_beyond, is_failing }
    }
}

/// Runs all calls, which come at once from 50 users, a tenth of them of the background.
fn simulated(world: World) -> Course {
    let concurrency_max = world.known.then(|| u32::try_from(world.provider_max).expect("few"));
    let options =
        ProviderLaneOptions { concurrency_max, waiting_max: 10_000, seed: world.seed, ..OPTIONS };
    let mut lane = ProviderLane::new(options);
    let mut random = SplitMix64::new(world.seed);
    for number in 0..world.calls {
        let class = if number % 10 == 0 { CallClass::Background } else { CallClass::Operator };
        let mut call = call(number, class, random.bits() % 50);
        call.deadline = at_ms(1_000_000_000);
        lane.submit(call, Tick::ZERO).expect("room");
    }
    let mut course = Course::default();
    let mut now = Tick::ZERO;
    // By the time of their end; whether they fail.
    let mut running: BinaryHeap<Reverse<(Tick, u64)>> = BinaryHeap::new();
    let mut provider = SimulatedProvider::default();
    let mut permits: Vec<Option<(AttemptPermit, bool)>> = Vec::new();
    loop {
        while let Some(next) = lane.next(now) {
            let StartedCall::Start(permit) = next else {
                course.given_up += 1;
                continue;
            };
            let SimulatedCall { seen, is_beyond, is_failing } =
                provider.begin(world, now, &mut random);
            course.overshot += u64::from(is_beyond);
            running.push(Reverse((seen, permits.len() as u64)));
            permits.push(Some((permit, is_failing)));
            course.in_flight_max = course.in_flight_max.max(running.len());
            assert_eq!(running.len(), lane.status().in_flight as usize);
        }
        let wakes = lane.wakes(now).filter(|wakes| now < *wakes);
        let ends = running.peek().map(|Reverse((ends, _))| *ends);
        let Some(next) = wakes.into_iter().chain(ends).min() else { break };
        now = next;
        while let Some(Reverse((ends, at))) = running.peek().copied()
            && ends <= now
        {
            running.pop();
            let at = usize::try_from(at).expect("an index");
            let (permit, is_failing) = permits[at].take().expect("it ends once");
            let outcome = match is_failing {
                true if world.says_busy => AttemptOutcome::Busy(Some(Duration::from_millis(10))),
                true => AttemptOutcome::Failed,
                false => AttemptOutcome::Answered,
            };
            match lane.end(permit, outcome, now) {
                AttemptEnd::Again => (),
                AttemptEnd::Over if is_failing => course.given_up += 1,
                AttemptEnd::Over => course.answered += 1,
            }
        }
    }
    let status = lane.status();
    assert_eq!((status.in_flight, status.waiting), (0, 0), "all permits came back");
    assert_eq!(course.answered + course.given_up, world.calls, "each call ends once");
    course.attempts = status.attempts;
    assert!(status.retries <= course.answered / 10 + 20, "{course:?} {status:?}");
    course.elapsed = now.since(Tick::ZERO);
    course
}

/// The time that the calls need at least.
fn needed(world: World) -> Duration {
    let service = world.service + Duration::from_millis(2);
    service * u32::try_from(world.calls).expect("few")
        / u32::try_from(world.provider_max).expect("few")
}

#[test]
fn a_limit_that_is_known_is_never_passed() {
    for seed in 0..20 {
        for provider_max in [1, 3, 10, 64] {
            let world = World { seed, provider_max, ..WORLD };
            let course = simulated(world);
            assert_eq!((course.overshot, course.given_up), (0, 0), "{course:?}");
            assert_eq!(course.attempts, world.calls);
            assert!(course.in_flight_max <= provider_max);
            assert!(course.elapsed < needed(world) * 105 / 100, "{course:?}");
        }
    }
}

#[test]
fn a_limit_that_is_unknown_is_found_with_few_calls_too_many() {
    for seed in 0..20 {
        for provider_max in [1, 2, 3, 5, 10, 30, 64, 100] {
            let says_busy = seed % 2 == 0;
            let world = World { seed, provider_max, known: false, says_busy, ..WORLD };
            let course = simulated(world);
            assert_eq!(course.given_up, 0, "{provider_max}: {course:?}");
            assert!(course.overshot * 20 <= world.calls, "{provider_max}: {course:?}");
            assert!(course.attempts * 10 <= world.calls * 11, "{provider_max}: {course:?}");
            // A higher limit takes more steps to be found.
            let percent = if provider_max < 100 { 125 } else { 135 };
            assert!(course.elapsed < needed(world) * percent / 100, "{provider_max}: {course:?}");
        }
    }
}

/// More calls seem to run than the provider has to answer.
#[test]
fn a_limit_is_found_although_answers_are_read_late() {
    for seed in 0..20 {
        for provider_max in [3, 7, 10, 30] {
            for (lag, pace) in [(1, 0), (3, 0), (10, 0), (1, 400), (1, 1_000), (3, 300)] {
                let (lag, pace) = (Duration::from_millis(lag), Duration::from_micros(pace));
                let service = Duration::from_millis(2);
                for calls in [300, 800, WORLD.calls] {
                    let world = World { calls, seed, provider_max, service, lag, pace, ..WORLD };
                    let course = simulated(World { known: false, ..world });
                    assert_eq!(course.given_up, 0, "{provider_max}, {lag:?}: {course:?}");
                    let most = 20 + world.calls / 20;
                    assert!(course.overshot <= most, "{provider_max}, {lag:?}: {course:?}");
                }
            }
        }
    }
}

#[test]
fn a_provider_that_slows_is_not_given_ever_more() {
    for seed in 0..20 {
        for provider_max in [1, 3, 10] {
            let world = World { seed, provider_max, known: false, slows: true, ..WORLD };
            let course = simulated(world);
            assert_eq!((course.given_up, course.attempts), (0, world.calls), "{course:?}");
            assert!(course.in_flight_max <= 8 * provider_max + 8, "{provider_max}: {course:?}");
        }
    }
}

#[test]
fn failures_that_are_not_of_load_cost_little() {
    for seed in 0..20 {
        for known in [true, false] {
            let world = World { seed, known, failures_ppt: 10, ..WORLD };
            let course = simulated(world);
            assert_eq!(course.given_up, 0, "{course:?}");
            assert!(course.attempts * 10 <= world.calls * 11, "{course:?}");
            assert!(course.elapsed < needed(world) * 2, "{course:?}");
        }
    }
}

#[test]
fn retries_stay_within_their_budget() {
    // A quarter fails, of which a tenth of the others can be made again: the rest is given up.
    for seed in 0..20 {
        let course = simulated(World { failures_ppt: 250, seed, ..WORLD });
        let retries = course.attempts - WORLD.calls;
        assert!(retries * 11 > course.answered, "nearly all of the budget is used: {course:?}");
        assert!(course.given_up > WORLD.calls / 10, "{course:?}");
    }
}

#[test]
fn nothing_starves() {
    let mut lane = ProviderLane::new(ProviderLaneOptions { waiting_max: 10_000, ..OPTIONS });
    for number in 0..5_000 {
        let class = CallClass::ALL[number % 3];
        lane.submit(call(number as u64, class, 1), Tick::ZERO).expect("room");
    }
    let (mut since, mut longest) = ([0_u32; 3], [0_u32; 3]);
    for _ in 0..1_500 {
        let Some(StartedCall::Start(permit)) = lane.next(Tick::ZERO) else { panic!("calls wait") };
        let class = permit.call().class as usize;
        since.iter_mut().for_each(|since| *since += 1);
        longest[class] = longest[class].max(since[class]);
        since[class] = 0;
        lane.end(permit, AttemptOutcome::Answered, Tick::ZERO);
    }
    // Some may never have had a turn.
    for class in 0..3 {
        longest[class] = longest[class].max(since[class]);
    }
    // Bids wait for two others at most, operators for eight bids and a background call.
    assert!(longest[0] <= 3 && longest[1] <= 10 && longest[2] <= 34, "{longest:?}");
}

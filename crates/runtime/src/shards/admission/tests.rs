//! Admission on a test clock, and on a real single-threaded runtime.

use tokio::task::{LocalSet, spawn_local};

use super::*;
use crate::shards::metrics::unix_seconds;

const LIMITS: AdmissionLimits = AdmissionLimits {
    wait_max: Duration::from_millis(5),
    burst_wait_max: Duration::from_millis(50),
    in_flight_max: 100,
};

const STARTS: usize = STARTS_MAX as usize;

fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn admission(limits: AdmissionLimits, busy: BusyClock) -> Admission {
    let counters = Arc::new(Padded::new(ShardCounters::default()));
    Admission::new(limits, Arc::new(busy), counters)
}

/// Checks the verdict on a request that arrives `busy_ms` after the shard was last idle, has
/// waited, and has `ahead` requests of a millisecond each before it.
#[track_caller]
fn check(busy_ms: u64, wait_ms: u64, ahead: usize, want: Option<Overload>) {
    let busy = BusyClock::default();
    let origin = busy.origin;
    busy.park(origin + ms_of(50));
    busy.unpark(origin + ms_of(51));
    let admission = admission(LIMITS, busy);
    admission.0.cost.set(ms_of(1));
    admission.0.waiting.borrow_mut().extend((0..ahead).map(|_| oneshot::channel().0));
    let now = origin + ms_of(51 + busy_ms);
    let got = admission.overload(now, ms_of(wait_ms));
    assert_eq!(got, want, "{busy_ms} ms, {wait_ms} ms, {ahead}");
}

#[test]
fn a_shard_without_a_pause_lets_nobody_wait_for_long() {
    let refused = Some(Overload::Wait);
    //   busy wait ahead
    check(100, 9_999, 0, None);
    check(100, 9_999, 50, None);
    check(100, 0, 51, refused);
    check(101, 4, 1, None);
    check(101, 5, 1, refused);
    check(101, 9_999, 0, None);
    check(101, 2, 3, None);
    check(101, 2, 4, refused);
    check(9_999, 0, 0, None);
}

#[test]
fn a_look_at_the_sockets_is_no_pause() {
    let busy = BusyClock::default();
    let origin = busy.origin;
    busy.unpark(origin + ms_of(10));
    for ms in 11..200 {
        busy.park(origin + ms_of(ms));
        busy.unpark(origin + ms_of(ms) + Duration::from_micros(99));
    }
    assert_eq!(busy.busy(origin + ms_of(200)), ms_of(190));
    busy.park(origin + ms_of(200));
    busy.unpark(origin + ms_of(200) + IDLE_MIN);
    assert_eq!(busy.busy(origin + ms_of(200) + IDLE_MIN), Duration::ZERO);
}

/// The hooks on a runtime like a shard's: yielding is not idle, sleeping is.
#[test]
fn a_runtime_tells_when_it_has_nothing_to_do() {
    let busy = Arc::new(BusyClock::default());
    let runtime = with_hooks(&mut Builder::new_current_thread(), &busy).enable_all().build();
    runtime.unwrap().block_on(async {
        tokio::time::sleep(ms_of(1)).await;
        let began = Instant::now();
        while began.elapsed() < ms_of(20) {
            yield_now().await;
        }
        assert!(busy.busy(Instant::now()) >= ms_of(20), "yielding is no pause");
        let asleep = Instant::now();
        tokio::time::sleep(ms_of(1)).await;
        assert!(busy.busy(Instant::now()) <= asleep.elapsed(), "sleeping is one");
    });
}

/// Runs `test` on local tasks, with an admission that starts requests.
fn running(limits: AdmissionLimits, test: impl AsyncFnOnce(Admission)) {
    let admission = admission(limits, BusyClock::default());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        spawn_local(admission.clone().run());
        test(admission).await;
    });
}

#[test]
fn a_few_requests_begin_between_two_looks_at_the_sockets() {
    running(LIMITS, async |admission| {
        let begun = Rc::new(RefCell::new(Vec::new()));
        for number in 0..2 * STARTS + 1 {
            let (admission, begun) = (admission.clone(), Rc::clone(&begun));
            spawn_local(async move {
                let request = admission.admit(Instant::now()).await.unwrap();
                begun.borrow_mut().push(number);
                std::future::pending::<()>().await;
                drop(request);
            });
        }
        let mut seen = Vec::new();
        while begun.borrow().len() <= 2 * STARTS {
            yield_now().await;
            let now = begun.borrow().len();
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        assert!(seen.windows(2).all(|pair| pair[1] - pair[0] <= STARTS), "{seen:?}");
        assert!(begun.borrow().is_sorted(), "in the order in which they came");
        assert_eq!(admission.0.in_flight.get(), 2 * STARTS + 1);
    });
}

#[test]
fn dear_requests_begin_one_by_one() {
    let admission = admission(LIMITS, BusyClock::default());
    for (micros, starts) in [(0, 8), (500, 8), (501, 7), (2_000, 2), (2_001, 1), (60_000, 1)] {
        admission.0.cost.set(Duration::from_micros(micros));
        assert_eq!(admission.starts_max(), starts, "{micros} µs");
    }
}

#[test]
fn a_pause_is_no_cost_and_all_that_began_share_a_turn() {
    let admission = admission(LIMITS, BusyClock::default());
    let cost = || admission.0.cost.get();
    admission.0.begun.set(4);
    for _ in 0..100 {
        admission.note_turn(ms_of(1));
    }
    assert!((Duration::from_micros(249)..=Duration::from_micros(251)).contains(&cost()));
    let before = cost();
    admission.note_turn(ms_of(1_000));
    assert!(cost() < before * 3 / 2, "{:?}", cost());
}

#[test]
fn one_whose_caller_has_gone_takes_nobodys_turn() {
    running(LIMITS, async |admission| {
        let admit = || admission.admit(Instant::now());
        let mut begun = Vec::new();
        for _ in 0..STARTS {
            begun.push(admit().await.unwrap());
        }
        let mut gone = Box::pin(admit());
        tokio::select! {
            biased;
            _ = &mut gone => panic!("it begins in the next turn"),
            () = std::future::ready(()) => (),
        }
        assert_eq!(admission.0.in_flight.get(), STARTS + 1);
        drop(gone);
        drop(admit().await.unwrap());
        assert_eq!(admission.0.in_flight.get(), STARTS);
    });
}

#[test]
fn what_is_taken_on_is_counted_until_it_is_dropped() {
    running(AdmissionLimits { in_flight_max: 2, ..LIMITS }, async |admission| {
        let counters = Arc::clone(&admission.0.counters);
        let admit = || admission.admit(Instant::now());
        let first = admit().await.unwrap();
        let second = admit().await.unwrap();
        assert_eq!(counters.in_flight.value(), 2);
        assert_eq!(admit().await.unwrap_err(), Overload::InFlight);
        drop(first);
        drop((second, admit().await.unwrap()));
        assert_eq!(counters.in_flight.value(), 0);
        let refused = Overload::ALL.map(|reason| counters.refused[reason as usize].value());
        assert_eq!((refused, counters.waits.snapshot().count()), ([0, 1], 3));
        assert!(unix_seconds() - 30 < counters.refused_at_s.value());
    });
}

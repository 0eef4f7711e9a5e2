//! How handshakes share the time of a shard.

use super::*;

const QUARTER: Ppm = Ppm::new(250_000).unwrap();

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Handshakes begun in a second, as many each millisecond as may, at `cost` each.
fn begun_in_a_second(cost: Duration) -> u32 {
    let start = Instant::now();
    let handshakes = Handshakes::new(start);
    let mut begun = 0;
    for at in 0..1_000 {
        while let Ok(turn) = handshakes.begin(start + ms(at), QUARTER) {
            handshakes.end(turn, cost);
            begun += 1;
        }
    }
    begun
}

#[test]
fn they_take_their_share_whatever_one_costs() {
    for cost_us in [50, 400, 5_000] {
        let took =
            Duration::from_micros(cost_us) * begun_in_a_second(Duration::from_micros(cost_us));
        // Plus a burst and the last one.
        let most = ms(250) + BURST + Duration::from_micros(cost_us);
        assert!((ms(245)..=most).contains(&took), "{cost_us} µs: {took:?}");
    }
}

#[test]
fn what_is_under_way_counts_before_it_ends() {
    let start = Instant::now();
    let handshakes = Handshakes::new(start);
    let begun = std::iter::from_fn(|| handshakes.begin(start, QUARTER).ok()).count();
    assert_eq!(begun, 7, "2 ms of 0.3 ms each, and one that passes it");
    let wait = handshakes.begin(start, QUARTER).unwrap_err();
    assert_eq!(wait, Duration::from_micros(400), "0.1 ms at a quarter");
    assert!(handshakes.begin(start + wait, QUARTER).is_ok());
}

/// A silent DSP must not make handshakes look cheap, nor a costly failure be free.
#[test]
fn what_fails_is_charged_and_says_nothing_of_the_cost() {
    let start = Instant::now();
    let handshakes = Handshakes::new(start);
    for _ in 0..100 {
        handshakes.cancel(handshakes.begin(start, QUARTER).unwrap(), Duration::ZERO);
    }
    assert_eq!(handshakes.account.get().cost, COST_AT_FIRST);
    handshakes.cancel(handshakes.begin(start, QUARTER).unwrap(), ms(10));
    assert_eq!(handshakes.begin(start, QUARTER).unwrap_err(), ms(32), "8 ms at a quarter");
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_order() {
    let handshakes = Handshakes::new(Instant::now());
    let come = std::cell::RefCell::new(Vec::new());
    let one = async |number: u32| {
        let turn = handshakes.turn(QUARTER).await;
        handshakes.end(turn, ms(3));
        come.borrow_mut().push(number);
    };
    tokio::join!(one(1), one(2), one(3), one(4));
    assert_eq!(*come.borrow(), [1, 2, 3, 4]);
}

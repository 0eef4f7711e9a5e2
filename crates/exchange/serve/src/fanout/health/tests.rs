//! Addresses that fail, rest, and are tried again.

use super::*;

const BACKOFF: Backoff =
    Backoff { unanswered_max: 2, min: Duration::from_millis(50), max: Duration::from_millis(150) };

fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 80))
}

fn attempt(began: Instant) -> ConnectAttempt {
    ConnectAttempt { address: address(), began }
}

fn setup() -> (AddressHealths, impl Fn(u64) -> Instant) {
    let start = Instant::now();
    (AddressHealths::default(), move |ms| start + Duration::from_millis(ms))
}

#[test]
fn pauses_double_up_to_the_most_and_end_with_an_answer() {
    let (mut healths, at) = setup();
    let steps = [
        // began, refused, number of the pause, until
        (0, 10, Some(1), 60),
        (5, 20, None, 60), // Began with the first.
        (60, 70, Some(2), 170),
        (170, 170, Some(3), 320), // Not 200 ms, which exceeds the longest pause.
        (320, 330, Some(4), 480),
    ];
    for (began, refused, pause, until) in steps {
        let paused = healths.refused(attempt(at(began)), at(refused), BACKOFF);
        assert_eq!(paused, pause, "{began}");
        assert!(!healths.allows(address(), at(until - 1)), "{began}");
        assert!(healths.allows(address(), at(until)), "{began}");
    }
    healths.answered(attempt(at(319)));
    assert!(!healths.allows(address(), at(479)), "an old connection, on which it goes on");
    healths.answered(attempt(at(480)));
    assert!(healths.allows(address(), at(331)));
    assert_eq!(healths.refused(attempt(at(481)), at(481), BACKOFF), Some(1));
}

#[test]
fn after_a_pause_one_is_tried_at_a_time() {
    let (mut healths, at) = setup();
    healths.tried(address());
    assert!(healths.allows(address(), at(0)), "nothing is amiss");
    healths.refused(attempt(at(0)), at(0), BACKOFF);
    healths.tried(address());
    assert!(!healths.allows(address(), at(60)));
    healths.unused(attempt(at(10))); // Before the pause: it was not on trial.
    assert!(!healths.allows(address(), at(60)));
    healths.unused(attempt(at(55)));
    assert!(healths.allows(address(), at(60)));
    healths.tried(address());
    assert_eq!(healths.refused(attempt(at(60)), at(61), BACKOFF), Some(2));
    assert!(healths.allows(address(), at(161)));
}

#[test]
fn some_connections_without_an_answer_are_borne() {
    let (mut healths, at) = setup();
    let ends = |healths: &mut AddressHealths, ms| {
        healths.ended_unanswered(attempt(at(0)), at(ms), BACKOFF)
    };
    assert_eq!(ends(&mut healths, 1), None);
    assert_eq!(ends(&mut healths, 2), None);
    healths.answered(attempt(at(0)));
    assert_eq!(ends(&mut healths, 3), None);
    assert_eq!(ends(&mut healths, 4), None);
    assert!(healths.allows(address(), at(4)));
    assert_eq!(ends(&mut healths, 5), Some(1));
    assert!(!healths.allows(address(), at(54)));
    assert_eq!(ends(&mut healths, 60), None, "it began with those before the pause");
    assert!(healths.allows(address(), at(60)));
}

#[test]
fn a_trial_without_an_answer_ends_in_another_pause() {
    let (mut healths, at) = setup();
    healths.refused(attempt(at(0)), at(0), BACKOFF);
    healths.tried(address());
    assert_eq!(healths.ended_unanswered(attempt(at(50)), at(60), BACKOFF), Some(2));
    assert!(healths.allows(address(), at(160)));
}

#[test]
fn addresses_that_have_gone_are_forgotten() {
    let (mut healths, at) = setup();
    healths.refused(attempt(at(0)), at(0), BACKOFF);
    healths.keep(&[address()]);
    assert!(!healths.allows(address(), at(0)));
    healths.keep(&[]);
    assert!(healths.allows(address(), at(0)));
}

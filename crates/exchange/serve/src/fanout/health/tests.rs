//! Addresses that fail, rest, and are tried again.

use super::*;

const BACKOFF: Backoff =
    Backoff { barren_max: 2, min: Duration::from_millis(50), max: Duration::from_millis(150) };

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
    let (mut standings, at) = setup();
    let steps = [
        // began, refused, number of the pause, until
        (0, 10, Some(1), 60),
        (5, 20, None, 60), // Began with the first.
        (60, 70, Some(2), 170),
        (170, 170, Some(3), 320), // Not 200 ms, which exceeds the longest pause.
        (320, 330, Some(4), 480),
    ];
    for (began, refused, pause, until) in steps {
        let paused = standings.refused(attempt(at(began)), at(refused), BACKOFF);
        assert_eq!(paused, pause, "{began}");
        assert!(!standings.allows(address(), at(until - 1)), "{began}");
        assert!(standings.allows(address(), at(until)), "{began}");
    }
    standings.answered(attempt(at(319)));
    assert!(!standings.allows(address(), at(479)), "an old connection, on which it goes on");
    standings.answered(attempt(at(480)));
    assert!(standings.allows(address(), at(331)));
    assert_eq!(standings.refused(attempt(at(481)), at(481), BACKOFF), Some(1));
}

#[test]
fn after_a_pause_one_is_tried_at_a_time() {
    let (mut standings, at) = setup();
    standings.tried(address());
    assert!(standings.allows(address(), at(0)), "nothing is amiss");
    standings.refused(attempt(at(0)), at(0), BACKOFF);
    standings.tried(address());
    assert!(!standings.allows(address(), at(60)));
    standings.unused(attempt(at(10))); // Before the pause: it was not on trial.
    assert!(!standings.allows(address(), at(60)));
    standings.unused(attempt(at(55)));
    assert!(standings.allows(address(), at(60)));
    standings.tried(address());
    assert_eq!(standings.refused(attempt(at(60)), at(61), BACKOFF), Some(2));
    assert!(standings.allows(address(), at(161)));
}

#[test]
fn some_connections_without_an_answer_are_borne() {
    let (mut standings, at) = setup();
    let ends =
        |standings: &mut AddressHealths, ms| standings.barren(attempt(at(0)), at(ms), BACKOFF);
    assert_eq!(ends(&mut standings, 1), None);
    assert_eq!(ends(&mut standings, 2), None);
    standings.answered(attempt(at(0)));
    assert_eq!(ends(&mut standings, 3), None);
    assert_eq!(ends(&mut standings, 4), None);
    assert!(standings.allows(address(), at(4)));
    assert_eq!(ends(&mut standings, 5), Some(1));
    assert!(!standings.allows(address(), at(54)));
    assert_eq!(ends(&mut standings, 60), None, "it began with those before the pause");
    assert!(standings.allows(address(), at(60)));
}

#[test]
fn a_trial_without_an_answer_ends_in_another_pause() {
    let (mut standings, at) = setup();
    standings.refused(attempt(at(0)), at(0), BACKOFF);
    standings.tried(address());
    assert_eq!(standings.barren(attempt(at(50)), at(60), BACKOFF), Some(2));
    assert!(standings.allows(address(), at(160)));
}

#[test]
fn addresses_that_have_gone_are_forgotten() {
    let (mut standings, at) = setup();
    standings.refused(attempt(at(0)), at(0), BACKOFF);
    standings.keep(&[address()]);
    assert!(!standings.allows(address(), at(0)));
    standings.keep(&[]);
    assert!(standings.allows(address(), at(0)));
}

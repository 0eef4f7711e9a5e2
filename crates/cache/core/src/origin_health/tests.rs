//! An origin that fails and recovers.

use super::*;

const PAUSE: Duration = Duration::from_secs(1);

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn one_request_at_a_time_tries_what_failed_too_often() {
    let health = OriginHealth::new(HealthRules { failures_max: 3, pause: PAUSE });
    for _ in 0..2 {
        assert!(health.admits(at(0)));
        assert_eq!(health.record(false, at(0)), None);
    }
    // An answer in between begins the count anew.
    assert_eq!(health.record(true, at(0)), None);
    assert_eq!(
        [(); 3].map(|()| health.record(false, at(10))),
        [None, None, Some(HealthChange::Down)]
    );
    assert!(!health.is_up() && !health.admits(at(1_009)));
    // One tries in each pause, whatever becomes of those before.
    assert!(health.admits(at(1_010)) && !health.admits(at(1_010)));
    assert_eq!(health.record(false, at(1_500)), None);
    assert!(!health.admits(at(2_009)) && health.admits(at(2_010)));
    assert_eq!(health.record(true, at(2_600)), Some(HealthChange::Up));
    assert!(health.is_up() && health.admits(at(2_600)) && health.admits(at(2_600)));
}

#[test]
fn an_origin_may_be_asked_whatever_happens() {
    let health = OriginHealth::new(HealthRules { failures_max: 0, pause: PAUSE });
    assert!((0..100).all(|_| health.record(false, at(0)).is_none() && health.admits(at(0))));
    assert!(health.is_up());
}

//! Items return at their tick.

use super::*;

fn advanced(wheel: &mut Wheel<u64>, now: u64) -> Vec<u64> {
    let mut due = Vec::new();
    wheel.advance(now, &mut due);
    due
}

#[test]
fn items_come_back_at_their_tick_and_not_before() {
    let mut wheel = Wheel::new();
    let slots = SLOTS as u64;
    for due in [3, slots - 1, slots, slots + 3, 10 * slots + 3] {
        wheel.insert(due, due);
    }
    assert!(advanced(&mut wheel, 2).is_empty());
    assert_eq!(advanced(&mut wheel, 3), [3]);
    assert!(advanced(&mut wheel, 3).is_empty()); // A clock that stands still.
    assert_eq!(advanced(&mut wheel, slots - 1), [slots - 1]);
    assert_eq!(advanced(&mut wheel, slots), [slots]);
    assert_eq!(advanced(&mut wheel, 2 * slots), [slots + 3]);
    assert!(!wheel.is_empty());
    assert!(advanced(&mut wheel, 10 * slots + 2).is_empty());
    assert_eq!(advanced(&mut wheel, 10 * slots + 3), [10 * slots + 3]);
    assert!(wheel.is_empty());
}

#[test]
fn a_past_tick_is_due_at_the_next_advance() {
    let mut wheel = Wheel::new();
    assert!(advanced(&mut wheel, 100).is_empty());
    wheel.insert(5, 5);
    assert!(advanced(&mut wheel, 100).is_empty());
    assert_eq!(advanced(&mut wheel, 101), [5]);
}

#[test]
fn a_long_leap_loses_nothing() {
    let mut wheel = Wheel::new();
    for due in 0..5_000 {
        wheel.insert(due, due);
    }
    let mut all = advanced(&mut wheel, 1_000_000);
    all.sort_unstable();
    assert_eq!(all, (0..5_000).collect::<Vec<_>>());
    assert!(wheel.is_empty());
}

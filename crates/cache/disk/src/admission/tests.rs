//! Keys that were seen, and those that are mistaken for them.

use super::*;

#[test]
fn a_key_is_known_from_its_second_time_on_for_a_generation() {
    let seen = SeenKeys::new();
    let key = |at: usize| KeyHash::of(&format!("http://one/{at}"));
    assert!(!seen.see(key(0)));
    assert!(seen.see(key(0)));
    let mistaken = (1..KEYS_MAX).filter(|at| seen.see(key(*at))).count();
    assert!(mistaken < KEYS_MAX / 200, "{mistaken} of {KEYS_MAX} were not seen before");
    assert!(seen.see(key(0)), "a generation is remembered until the next is full");
    for at in KEYS_MAX..4 * KEYS_MAX {
        seen.see(key(at));
    }
    let remembered = (1..1_000).filter(|at| seen.see(key(*at))).count();
    assert!(remembered < 20, "{remembered} of 1000 old ones are remembered");
}

//! Streams with frequent and rare keys.

use super::*;

#[test]
fn frequent_keys_are_found_among_many_within_their_errors() {
    let mut keys = HotKeys::default();
    let mut rare = 0_u32;
    let mut hot = [0_u64; 3];
    for at in 0..20_000_usize {
        let which = at % 20;
        match hot.get_mut(which) {
            Some(count) => {
                *count += 1;
                keys.count(&format!("hot {which}"), 1);
            }
            None => {
                rare += 1;
                keys.count(&format!("rare {rare}"), 1);
            }
        }
    }
    assert_eq!(keys.counts.len(), COUNTED_MAX);
    for (which, met) in hot.iter().enumerate() {
        let count = keys.counts[&*format!("hot {which}")];
        assert!(count.requests >= *met && count.requests - count.error <= *met, "{count:?}");
    }
}

#[test]
fn counts_fade() {
    let mut keys = HotKeys::default();
    for _ in 0..HALVED_AFTER {
        keys.count("old", 1);
    }
    for _ in 0..HALVED_AFTER / 16 {
        keys.count("new", 8);
    }
    let requests = |key: &str| keys.counts[key].requests;
    assert_eq!((requests("old"), requests("new")), (HALVED_AFTER / 4, HALVED_AFTER / 4));
    assert_eq!(keys.requests(), HALVED_AFTER / 2);
}

//! Places that are announced, written and forgotten.

use super::*;

const HASH: KeyHash = KeyHash(5);

fn at(segment: u32) -> Location {
    Location { segment, offset: 24, bytes: 1 }
}

#[test]
fn a_resource_counts_from_when_it_is_written_unless_something_newer_came() {
    let index = DiskIndex::new();
    let ticket = index.announce(HASH);
    assert!(index.contains(HASH) && index.awaits(HASH, ticket));
    assert_eq!((index.find(HASH), index.entries()), (None, 0));
    assert!(index.written(HASH, ticket, at(1)));
    assert_eq!((index.find(HASH), index.entries()), (Some(at(1)), 1));

    let second = index.announce(HASH);
    assert_eq!(index.find(HASH), None, "the older one is void");
    let third = index.announce(HASH);
    assert!(!index.written(HASH, second, at(2)));
    index.withdraw(HASH, second);
    assert!(index.written(HASH, third, at(3)));

    let fourth = index.announce(HASH);
    assert_eq!(index.forget(HASH), Forgotten::Pending);
    assert!(!index.written(HASH, fourth, at(4)));
    assert_eq!((index.forget(HASH), index.entries()), (Forgotten::Nothing, 0));
}

#[test]
fn only_what_is_meant_is_forgotten() {
    let index = DiskIndex::new();
    index.recovered(HASH, at(1));
    assert!(!index.forget_at(HASH, at(2)));
    assert_eq!(index.find(HASH), Some(at(1)));
    index.recovered(KeyHash(6), at(2));
    let pending = index.announce(KeyHash(7));
    index.evict_before(2);
    assert_eq!((index.find(HASH), index.find(KeyHash(6))), (None, Some(at(2))));
    assert!(index.awaits(KeyHash(7), pending));
    assert_eq!(index.forget(KeyHash(6)), Forgotten::Written);
}

//! The permutation is invertible, and successive ids are unrelated.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// Undoes [`permuted`]: an invertible function repeats no output.
fn restored(key: &[u8; 16], output: u128) -> u128 {
    (0..ROUNDS).rev().fold(output, |block, round| {
        let (left, right) = halves(block);
        joined(right ^ round_value(key, round, left), left)
    })
}

proptest! {
    #[test]
    fn every_id_comes_of_one_input(key: [u8; 16], input: u128) {
        prop_assert_eq!(restored(&key, permuted(&key, input)), input);
        prop_assert_eq!(permuted(&key, restored(&key, input)), input);
    }
}

#[test]
fn no_two_shards_share_an_id() {
    let mut seen = HashSet::new();
    for shard in 0..4 {
        let mut ids = AuctionIds::new([7; 16], shard);
        for _ in 0..10_000 {
            let id = ids.next_id();
            let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert!(id.len() == 32 && id.bytes().all(is_digit), "{id}");
            assert!(seen.insert(id));
        }
    }
}

/// Each bit of successive ids differs in half of all cases, for any key.
#[test]
fn neighbours_have_nothing_in_common() {
    for key in [[0; 16], [7; 16], [0xff; 16]] {
        let ids: Vec<u128> = (0..4096).map(|input| permuted(&key, input)).collect();
        for bit in 0..128 {
            let is_flip = |pair: &[u128]| (pair[0] ^ pair[1]) >> bit & 1 == 1;
            let flips = ids.windows(2).filter(|pair| is_flip(pair)).count();
            assert!((1800..2300).contains(&flips), "bit {bit} of {key:?}: {flips} of 4095");
        }
    }
}

#[test]
fn each_bit_of_the_key_matters() {
    let mut seen = HashSet::from([permuted(&[0; 16], 1)]);
    for bit in 0..128 {
        let key = (1_u128 << bit).to_be_bytes();
        assert!(seen.insert(permuted(&key, 1)), "bit {bit}");
    }
}

/// With equal rounds, the network would be its own inverse except for the order of the halves, so
/// an id would reveal its input.
#[test]
fn rounds_differ() {
    let swapped = |block: u128| block.rotate_left(64);
    let key = [7; 16];
    assert_ne!(swapped(permuted(&key, swapped(permuted(&key, 1)))), 1);
}

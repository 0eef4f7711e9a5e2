//! Bytes that are truncated, flipped, or never were a record.

use proptest::prelude::*;

use super::*;

const SEEDS: [u64; 5] = [0, 3, 7, 20, 47];

#[test]
fn a_part_of_a_record_is_none() {
    for seed in SEEDS {
        let held = held(&Case::drawn(seed));
        for len in 0..held.record.len() {
            assert!(AuctionRecord::decode(&held.record[..len]).is_err(), "seed {seed}: {len}");
        }
        let longer = [&held.record[..], b"\0"].concat();
        assert!(AuctionRecord::decode(&longer).is_err(), "seed {seed}");
    }
}

/// A flipped bit is an error or a difference, or changes only a value that is not recomputed: an
/// id, a time, a tie. It never leaves the record the same, nor changes sales unnoticed.
#[test]
fn a_flipped_bit_never_passes_for_another_result() {
    let (mut errors, mut differences, mut told) = (0, 0, 0);
    for seed in SEEDS {
        let held = held(&Case::drawn(seed));
        let whole = AuctionRecord::decode(&held.record).expect("it was just written");
        for bit in 0..held.record.len() * 8 {
            let mut damaged = held.record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let Ok(record) = AuctionRecord::decode(&damaged) else {
                errors += 1;
                continue;
            };
            assert_ne!(record, whole, "seed {seed}, bit {bit}");
            match replay(&record, &held.generation) {
                Err(_) => differences += 1,
                Ok(ReplayOutcome::Same) => {
                    assert_eq!(record.sales, whole.sales, "seed {seed}, bit {bit}");
                    for (bid, was) in record.bids.iter().zip(&whole.bids) {
                        let is_computed = bid.worth.is_some() && was.worth.is_some();
                        assert!(!is_computed || bid.fate == was.fate, "seed {seed}, bit {bit}");
                    }
                    told += 1;
                }
                Ok(other) => panic!("seed {seed}, bit {bit}: {other:?}"),
            }
        }
    }
    assert!(errors > 1000 && differences > 1000 && told > 1000, "{errors} {differences} {told}");
}

#[test]
fn a_damaged_generation_is_never_the_same() {
    let market = market();
    let rates = rates_in(&market);
    let mut whole = Vec::new();
    encode_generation(&in_force(&market, &rates), &mut whole).unwrap();
    let shown = |inputs: &GenerationRecord| format!("{inputs:?}");
    let want = shown(&GenerationRecord::decode(&whole).unwrap());
    for len in 0..whole.len() {
        assert!(GenerationRecord::decode(&whole[..len]).is_err(), "{len}");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let got = GenerationRecord::decode(&damaged).map(|inputs| shown(&inputs));
        assert_ne!(got.as_ref(), Ok(&want), "bit {bit}");
    }
}

fn ended(content: &[u8]) -> Vec<u8> {
    let mut record = content.to_vec();
    record.extend([0xfd, 0x7f]);
    record.extend(u32::try_from(content.len()).expect("it is short").to_le_bytes());
    record
}

proptest! {
    #[test]
    fn no_bytes_panic(content in prop::collection::vec(any::<u8>(), 0..300)) {
        let generation = recorded_generation(&market());
        let _ = replayed(&ended(&content), &generation);
        let _ = GenerationRecord::decode(&ended(&content));
    }

    /// Several bytes change and the length is valid, so only the decoder can notice.
    #[test]
    fn no_change_of_a_record_panics(
        seed in 0..40u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let held = held(&Case::drawn(seed));
        let mut content = held.record[..held.record.len() - 6].to_vec();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let _ = replayed(&ended(&content), &held.generation);
    }
}

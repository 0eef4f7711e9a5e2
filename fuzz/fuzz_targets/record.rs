//! Any bytes as the record of an auction and of its generation: refused, replayed identically, or
//! with a reported difference; and masked values stay masked.
#![no_main]

use exchange_core::record::{AuctionRecord, GenerationRecord, replay};
use exchange_core::{GeoMask, Masks};
use libfuzzer_sys::fuzz_target;

/// The generation that auctions of the corpus name.
const GENERATION: &[u8] = include_bytes!("../../crates/events/golden/v1/generation.bin");

fuzz_target!(|data: &[u8]| {
    let known = GenerationRecord::decode(GENERATION).expect("a sound record");
    let other = GenerationRecord::decode(data);
    if let Ok(record) = AuctionRecord::decode(data) {
        for generation in [Some(&known), other.as_ref().ok()].into_iter().flatten() {
            if let Err(difference) = replay(&record, generation) {
                assert!(!difference.to_string().is_empty());
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let masks = Masks { user_ids: true, ip: true, geo: GeoMask::Remove, profile: true };
        if let Some(masked) = masks.apply(text) {
            let masked = String::from_utf8(masked).expect("text stays text");
            assert_eq!(masks.apply(&masked).as_deref(), Some(masked.as_bytes()));
        }
    }
});

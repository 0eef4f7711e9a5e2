//! Any text as a filter of the log: refused with a position and a message of four lines, or parsed
//! to a filter that prints and parses to itself and can match any auction.
#![no_main]

use audit::{AuctionRecord, Filter};
use libfuzzer_sys::fuzz_target;

/// An auction with bids of every kind.
const AUCTION: &[u8] = include_bytes!("../../crates/events/golden/v1/auction.bin");
const NOW_US: u64 = 1_795_334_400_000_000;

fuzz_target!(|text: &str| {
    match Filter::parse(text, NOW_US) {
        Ok(filter) => {
            assert_eq!(Filter::parse(filter.text(), NOW_US).as_ref(), Ok(&filter));
            let window = filter.window();
            let record = AuctionRecord::decode(AUCTION).expect("it is one");
            if filter.matches(&record, None) {
                assert!(window.holds(record.arrival_unix_us / 1000));
            }
        }
        Err(error) => {
            assert!(text.get(error.at.clone()).is_some());
            let lines = if text.trim().is_empty() { 2 } else { 4 };
            assert_eq!(error.to_string().lines().count(), lines);
        }
    }
});

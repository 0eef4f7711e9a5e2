//! Any bytes as a stream of auctions: refused with a position, or auctions in order of time that
//! are written back identically.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif::stream::{StreamOptions, StreamWriter, read};

fuzz_target!(|data: &[u8]| {
    let options = StreamOptions { rows_max: 1_000, line_max: 200 };
    let Ok(auctions) = read(data, options) else { return };
    assert!(auctions.is_sorted_by_key(|auction| auction.time_ms));
    let mut writer = StreamWriter::new(Vec::new()).expect("memory takes it");
    for auction in &auctions {
        writer.write(auction).expect("memory takes it");
    }
    let written = writer.finish().expect("memory takes it");
    let again = read(&written[..], StreamOptions { line_max: 4_096, ..options });
    assert_eq!(again.expect("it was written"), auctions);
});

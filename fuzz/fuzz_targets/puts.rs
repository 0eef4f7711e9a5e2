//! The body of a POST to Prebid Cache: whatever a client sends, it is refused or within limits.

#![no_main]

use cache_core::fields::dates::Seconds;
use cache_core::puts::{PutLimits, parse_puts};
use libfuzzer_sys::fuzz_target;

const LIMITS: PutLimits = PutLimits { count_max: 4, value_max: 256, ttl_max: Seconds(60) };

fuzz_target!(|body: &[u8]| {
    match parse_puts(body, LIMITS) {
        Ok(values) => {
            assert!(values.len() <= LIMITS.count_max);
            for value in values {
                assert!(value.content.len() < LIMITS.value_max);
                assert!((Seconds(1)..=LIMITS.ttl_max).contains(&value.ttl));
                let text = str::from_utf8(&value.content).expect("it is text");
                if value.content_type == "application/json" {
                    serde_json::from_str::<&serde_json::value::RawValue>(text).expect("it is JSON");
                }
            }
        }
        // The sentence is bounded, whatever it quotes.
        Err(refusal) => assert!(refusal.to_string().len() < 512),
    }
});

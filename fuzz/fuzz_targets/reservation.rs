//! Any bytes as a reservation's token: refused, or the only text of their content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pacer_core::shard::token::TokenKey;

fuzz_target!(|data: &[u8]| {
    let key = TokenKey::new(std::array::from_fn(|at| at as u8));
    if let Ok(token) = key.open(data) {
        assert_eq!(key.seal(&token).as_str().as_bytes(), data);
    }
});

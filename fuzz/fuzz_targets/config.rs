//! Any text as a configuration: every problem is reported, nothing panics.
#![no_main]

use exchange_serve::ExchangeConfig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) = runtime::config::parse("fuzz.toml", text, ExchangeConfig::read) {
        assert!(problems.to_string().contains("nothing was started"));
    }
});

//! Any text as a configuration: every problem is reported, nothing panics.
#![no_main]

use exchange_serve::ExchangeConfig;
use libfuzzer_sys::fuzz_target;
use record::RecordConfig;
use runtime::config::Section;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = |s: &mut Section<'_>| (RecordConfig::read(s), ExchangeConfig::read(s));
    if let Err(problems) = runtime::config::parse("fuzz.toml", text, read) {
        assert!(problems.to_string().contains("nothing was started"));
    }
});

//! Any text as a query: refused at a place of it, or parsed to a query that prints and parses to
//! itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lookup_core::query::{KeyAttributes, QueryLimits, Vocabulary, parse, to_json};

fuzz_target!(|text: &str| {
    let open = KeyAttributes { has_others: true, ..KeyAttributes::default() };
    let size = KeyAttributes { known: ["size".to_owned()].into(), has_others: false };
    let keys = [("dataset", open), ("file", size), ("run", KeyAttributes::default())];
    let known = Vocabulary::of(keys.map(|(key, of)| (key.to_owned(), of)).into());
    let limits = QueryLimits { bytes_max: 4 << 10, ..QueryLimits::default() };
    match parse(text, &known, limits) {
        Ok(query) => {
            let printed = query.to_string();
            let again = parse(&printed, &known, QueryLimits::default());
            assert_eq!(again.as_ref(), Ok(&query), "{printed}");
            assert_eq!(again.map(|query| query.to_string()), Ok(printed));
            assert!(to_json(&query).is_object());
        }
        Err(error) => {
            assert!(error.text.get(error.at.clone()).is_some());
            assert!(!error.remedy.is_empty());
        }
    }
});

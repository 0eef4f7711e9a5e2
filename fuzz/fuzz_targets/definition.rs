//! Any text as accounts and campaigns, in TOML and JSON: every problem is reported, nothing panics,
//! and a stored definition reads back unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pacer_core::store::StoredKind;
use pacer_serve::registry::testing::{PriceRules, check_body, check_text};
use serde_json::{Map, Value};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match check_text::<PriceRules>("fuzz.toml", text) {
        Ok(kept) => same(StoredKind::Account, &kept["account"])
            .and(same(StoredKind::Campaign, &kept["campaign"])),
        Err(problems) => {
            assert!(problems.count() > 0);
            None
        }
    };
    let Ok(Value::Object(body)) = serde_json::from_str(text) else { return };
    for kind in StoredKind::ALL {
        if let Ok(kept) = check_body::<PriceRules>(kind, &body) {
            let kept: Map<String, Value> = serde_json::from_str(&kept).expect("it is kept as JSON");
            assert_kept(kind, &kept);
        }
    }
});

/// All definitions of a kind, as from a file.
fn same(kind: StoredKind, kept: &Value) -> Option<()> {
    for definition in kept.as_array()? {
        // A campaign's account may have another currency or time zone.
        if kind == StoredKind::Account {
            assert_kept(kind, definition.as_object()?);
        }
    }
    Some(())
}

fn assert_kept(kind: StoredKind, kept: &Map<String, Value>) {
    let again = check_body::<PriceRules>(kind, kept).expect("what is kept reads");
    let again: Map<String, Value> = serde_json::from_str(&again).expect("it is kept as JSON");
    assert_eq!(again, *kept);
}

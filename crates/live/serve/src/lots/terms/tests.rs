//! Tests of `terms`: what an operator may write, and each way to get it wrong.

use serde_json::{Value, json};

use super::*;

fn whole() -> Value {
    json!({
        "id": "home-1", "title": "Home page", "currency": "USD", "impressions": 1000,
        "rules": "english", "start_price": "2.00", "reserve": "5",
        "increments": [{ "from": "0", "increment": "0.10" }, { "from": "10", "increment": "0.5" }],
        "soft_close": { "window_ms": 60000, "extension_ms": 60000, "total_max_ms": 600_000 },
        "opens_ms": 1000, "closes_ms": 2000, "payment": "at_close", "invited": ["a/b"],
        "bids_max": 50,
        "deal": { "id": "d-1", "publisher": "pub", "starts_ms": 3000, "ends_ms": 4000, "priority": 2 },
    })
}

#[test]
fn whole_terms_are_read() {
    let cpm = |micros| Cpm::new(micros).expect("a price");
    let band = |from, increment| IncrementBand { from: cpm(from), increment: cpm(increment) };
    let want = LotTerms {
        id: LotId::parse("home-1").expect("an id"),
        title: "Home page".to_owned(),
        currency: Currency::USD,
        impressions: 1000,
        rules: LotRules::English(EnglishTerms {
            increments: IncrementBands(vec![band(0, 100_000), band(10_000_000, 500_000)]),
            soft_close: Some(SoftClose {
                window_ms: 60_000,
                extension_ms: 60_000,
                total_max_ms: 600_000,
            }),
        }),
        start_price: cpm(2_000_000),
        reserve: Some(cpm(5_000_000)),
        opens_ms: 1000,
        closes_ms: 2000,
        payment: LotPayment::AtClose,
        invited: vec!["a/b".to_owned()],
        bids_max: 50,
        deal: LotDeal {
            id: "d-1".to_owned(),
            publisher: Some("pub".to_owned()),
            starts_ms: 3000,
            ends_ms: 4000,
            priority: 2,
        },
    };
    assert_eq!(TermsText::parse(&whole().to_string()), Ok(want));
}

#[test]
fn most_fields_have_defaults() {
    let short = json!({
        "id": "a", "currency": "EUR", "impressions": 1, "start_price": "1", "opens_ms": 0,
        "increments": [{ "from": "0", "increment": "1" }],
        "closes_ms": 1, "deal": { "id": "d", "starts_ms": 0, "ends_ms": 1 },
    });
    let terms = TermsText::parse(&short.to_string()).expect("terms");
    assert_eq!((terms.payment, terms.bids_max), (LotPayment::OnDelivery, LOT_BIDS_MAX));
    assert_eq!((terms.deal.priority, terms.reserve), (1, None));
    assert!(terms.check().is_empty());
}

/// The field of the refusal after `pointer` got another value; null removes it.
#[track_caller]
fn check(pointer: &str, value: Value, field: &str) {
    let mut terms = whole();
    match terms.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => terms[pointer.trim_start_matches('/')] = value,
    }
    let refused = TermsText::parse(&terms.to_string()).expect_err("it is wrong");
    assert_eq!(refused.field, Some(field), "{pointer}: {}", refused.message);
}

#[test]
fn wrong_terms_name_the_field() {
    check("/id", json!("a b"), "id");
    check("/title", json!("a\nb"), "title");
    check("/currency", json!("usd"), "currency");
    check("/start_price", json!("1.0000001"), "start_price");
    check("/start_price", json!("-1"), "start_price");
    check("/start_price", json!(1.5), "terms");
    check("/reserve", json!("x"), "reserve");
    check("/increments/0/from", json!(""), "increments.from");
    check("/increments/0/increment", json!("1e99"), "increments.increment");
    check("/rules", json!("dutch"), "terms");
    check("/rules", json!("sealed_second_price"), "increments");
    check("/invited", json!([""]), "invited");
    check("/deal/id", json!("x".repeat(257)), "deal.id");
    check("/deal/publisher", json!(""), "deal.publisher");
    check("/deal/priority", json!(256), "deal.priority");
    check("/colour", json!("red"), "terms");
    let mut sealed = whole();
    sealed["rules"] = json!("sealed_second_price");
    sealed["increments"] = json!([]);
    let refused = TermsText::parse(&sealed.to_string()).expect_err("a soft close");
    assert_eq!(refused.field, Some("soft_close"));
}

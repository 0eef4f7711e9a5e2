//! What everyone and what a bidder may see, and that secrets stay secret.

use serde_json::{Value, json};

use super::*;

/// Everything that is public.
fn public(lot: &Lot) -> Value {
    let history: Vec<_> = lot.history().collect();
    json!({ "lot": lot.view(), "history": history })
}

#[test]
fn an_english_lot_shows_its_price_and_aliases() {
    let terms = LotTerms { reserve: Some(cpm(5_000_000)), ..terms() };
    let mut lot = with_bids(terms, &[("ann", 3_000_000), ("bob", 2_000_000)]);
    step(&mut lot, 1500, LotCommand::Extend { closes_ms: 2500 });
    let mut view = json!({
        "id": "lot-1", "title": "Home page", "rules": "english", "currency": "USD",
        "impressions": 1000, "status": "open", "start_price": "0.0001", "price": "2.00001",
        "reserve_met": false, "minimum_next": "2.00002", "opens_ms": 1000, "ends_ms": 2500,
        "extended_ms": 500, "closed_ms": null, "bidders": 2, "bids": 2, "leader": "bidder 1",
        "result": null,
    });
    let history = json!([
        { "number": 1, "bidder": "bidder 1", "price": "0.0001", "received_ms": 1001 },
        { "number": 2, "bidder": "bidder 2", "price": "2.00001", "received_ms": 1002 },
    ]);
    assert_eq!(public(&lot), json!({ "lot": view, "history": history }));
    let own = |lot: &Lot, name| json!(lot.bidder_view(name));
    assert_eq!(own(&lot, "cat"), Value::Null);
    let ann = json!({ "alias": "bidder 1", "number": 1, "maximum": "3", "is_leading": true });
    assert_eq!(own(&lot, "ann"), ann);
    let bob = json!({ "alias": "bidder 2", "number": 2, "maximum": "2", "is_leading": false });
    assert_eq!(own(&lot, "bob"), bob);
    step(&mut lot, 1600, LotCommand::Close);
    view["status"] = json!("closed");
    view["closed_ms"] = json!(1600);
    view["minimum_next"] = Value::Null;
    view["result"] = json!({ "kind": "unsold", "reason": "reserve_not_met" });
    assert_eq!(public(&lot), json!({ "lot": view, "history": history }));
}

#[test]
fn a_sealed_lot_shows_the_number_of_bidders_until_its_close() {
    let terms = LotTerms { reserve: Some(cpm(150)), ..sealed_terms() };
    let mut lot = with_bids(terms, &[("ann", 300), ("bob", 200), ("ann", 400)]);
    let mut view = json!({
        "id": "lot-1", "title": "Home page", "rules": "sealed_second_price", "currency": "USD",
        "impressions": 1000, "status": "open", "start_price": "0.0001", "price": null,
        "reserve_met": null, "minimum_next": "0.0001", "opens_ms": 1000, "ends_ms": 2000,
        "extended_ms": 0, "closed_ms": null, "bidders": 2, "bids": null, "leader": null,
        "result": null,
    });
    assert_eq!(public(&lot), json!({ "lot": view, "history": [] }));
    let ann = json!({ "alias": "bidder 1", "number": 3, "maximum": "0.0004", "is_leading": null });
    assert_eq!(json!(lot.bidder_view("ann")), ann);

    let mut cancelled = lot.clone();
    step(&mut cancelled, 1500, cancel());
    let mut of_cancelled = view.clone();
    of_cancelled["status"] = json!("cancelled");
    of_cancelled["closed_ms"] = json!(1500);
    of_cancelled["minimum_next"] = Value::Null;
    of_cancelled["result"] = json!({ "kind": "cancelled", "reason": "no stock" });
    assert_eq!(public(&cancelled), json!({ "lot": of_cancelled, "history": [] }));

    step(&mut lot, 1500, LotCommand::Close);
    view["status"] = json!("closed");
    view["closed_ms"] = json!(1500);
    view["minimum_next"] = Value::Null;
    view["price"] = json!("0.0002");
    view["leader"] = json!("bidder 1");
    view["reserve_met"] = json!(true);
    view["bids"] = json!(3);
    view["result"] =
        json!({ "kind": "sold", "number": 3, "winner": "bidder 1", "price": "0.0002" });
    let entry = |number: u32, bidder: &str| {
        let received_ms = 1000 + number;
        json!({ "number": number, "bidder": bidder, "price": null, "received_ms": received_ms })
    };
    let history = [entry(1, "bidder 1"), entry(2, "bidder 2"), entry(3, "bidder 1")];
    assert_eq!(public(&lot), json!({ "lot": view, "history": history }));
    assert_eq!(lot.bidder_view("ann").and_then(|view| view.is_leading), Some(true));
}

#[test]
fn the_public_view_does_not_depend_on_secrets() {
    let check = |terms: LotTerms, one: &[(&str, u64)], other: &[(&str, u64)]| {
        let [mut one, mut other] = [one, other].map(|bids| with_bids(terms.clone(), bids));
        assert_eq!(public(&one), public(&other));
        step(&mut one, 1500, cancel());
        step(&mut other, 1500, cancel());
        assert_eq!(public(&one), public(&other));
    };
    // The leader's maximum, and a reserve that is not met.
    check(terms(), &[("a", 900), ("b", 200)], &[("c", 700), ("d", 200)]);
    check(sealed_terms(), &[("a", 900), ("b", 200)], &[("c", 100), ("d", 700), ("c", 800)]);
    let reserved = |reserve| LotTerms { reserve: Some(cpm(reserve)), ..terms() };
    let [one, other] = [800, 900].map(|reserve| with_bids(reserved(reserve), &[("a", 700)]));
    assert_eq!(public(&one), public(&other));
}

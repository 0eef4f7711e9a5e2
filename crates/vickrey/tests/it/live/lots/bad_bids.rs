//! Bids and commands that are refused: with code, field and reason, and nothing changes.

use serde_json::{Value, json};

use super::super::fixtures::Floor;
use super::fixtures::{LATE_MS, LotsFloor, answer, bid};
use crate::operations::document::check_lots;

/// Code, field and reason of a refusal.
fn refusal(told: &Value) -> (&str, Option<&str>, Option<&str>) {
    assert_eq!(told["type"], "error", "{told}");
    let text = |name: &str| told[name].as_str();
    (text("code").unwrap(), text("field"), text("reason"))
}

#[test]
fn each_wrong_bid_is_told_why_and_changes_nothing() {
    let lots = LotsFloor::start();
    let (mut ann, mut bob) = (lots.bidder("ann", "acme"), lots.bidder("bob", "globex"));
    lots.create("a", &json!({}));
    lots.create("closed", &json!({ "invited": ["dsp-1/bob"] }));
    assert_eq!(answer(&mut ann, &bid("a", "5", "first"))["type"], "accepted");
    let before = lots.lot("a");
    let with = |field: &str, value: &str| {
        let mut command = bid("a", "9", "k");
        command[field] = json!(value);
        command
    };
    for (command, code, field, reason) in [
        (bid("a", "1.99", "k"), "refused", Some("maximum"), Some("below_start")),
        (bid("a", "2.05", "k"), "refused", Some("maximum"), Some("below_increment")),
        (bid("a", "2000000000", "k"), "bad_field", Some("maximum"), None),
        // 1,000 impressions at 1,001 per thousand; the account has 1,000.
        (bid("a", "1001", "k"), "refused", Some("maximum"), Some("over_account")),
        (with("currency", "EUR"), "refused", Some("currency"), Some("wrong_currency")),
        (with("currency", "euro"), "bad_field", Some("currency"), None),
        (with("lot", "nowhere"), "unknown_lot", Some("lot"), Some("unknown_lot")),
        (with("key", ""), "bad_field", Some("key"), None),
    ] {
        let told = answer(&mut bob, &command);
        assert_eq!(refusal(&told), (code, field, reason), "{command} -> {told}");
    }
    let told = answer(&mut ann, &bid("a", "4", "k"));
    assert_eq!(refusal(&told), ("refused", Some("maximum"), Some("retraction")));
    let told = answer(&mut ann, &bid("closed", "4", "k"));
    assert_eq!(refusal(&told), ("refused", None, Some("not_invited")));
    let told = answer(&mut ann, &json!({ "op": "close_lot", "lot": "a" }));
    assert_eq!(refusal(&told), ("forbidden", None, None));
    let mut nobody = lots.bidder("eve", "nobody");
    let told = answer(&mut nobody, &bid("a", "9", "k"));
    assert_eq!(refusal(&told), ("refused", None, Some("unknown_account")));
    let mut euro = lots.bidder("eve", "euro");
    let told = answer(&mut euro, &bid("a", "9", "k"));
    assert_eq!(refusal(&told), ("refused", Some("currency"), Some("wrong_currency")));
    assert_eq!(lots.lot("a"), before);
    assert_eq!(lots.holds(), 1);
}

#[test]
fn one_key_is_for_one_bid() {
    let lots = LotsFloor::start();
    let mut ann = lots.bidder("ann", "acme");
    lots.create("a", &json!({}));
    let first = answer(&mut ann, &bid("a", "5", "k"));
    assert_eq!((&first["number"], &first["repeated"]), (&json!(1), &json!(false)));
    let again = answer(&mut ann, &bid("a", "5", "k"));
    assert_eq!((&again["number"], &again["repeated"]), (&json!(1), &json!(true)));
    let other = answer(&mut ann, &bid("a", "6", "k"));
    assert_eq!(refusal(&other), ("refused", Some("key"), Some("key_reused")));
    assert_eq!(lots.lot("a")["lot"]["bids"], 1);
}

#[test]
fn lots_are_created_once_and_with_sound_terms() {
    let lots = LotsFloor::start();
    lots.create("a", &json!({}));
    lots.create("a", &json!({}));
    let mut desk = lots.operator();
    for (terms, code, field) in
        [(json!({}), "bad_field", "terms"), (json!("x"), "bad_field", "terms")]
    {
        let told = answer(&mut desk, &json!({ "op": "create_lot", "terms": terms }));
        let (told_code, told_field, _) = refusal(&told);
        assert_eq!((told_code, told_field), (code, Some(field)), "{told}");
    }
    let terms = |more: Value| {
        let mut terms = json!({
            "id": "a", "currency": "USD", "impressions": 1000, "start_price": "2",
            "increments": [{ "from": "0", "increment": "0.1" }], "opens_ms": 0, "closes_ms": 9,
            "deal": { "id": "d", "starts_ms": 1, "ends_ms": 2 },
        });
        terms.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        terms
    };
    let answer = lots.api("POST", "/v1/lots", &terms(json!({})));
    assert_eq!(answer.status, 409, "another lot has this id: {answer:?}");
    let answer = lots.api("POST", "/v1/lots", &terms(json!({ "id": "b", "reserve": "1" })));
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("reserve is 1, below the start price"), "{answer:?}");
}

#[test]
fn the_api_answers_as_documented() {
    let lots = LotsFloor::start();
    lots.create("a", &json!({}));
    lots.create("b", &json!({ "opens_ms": LATE_MS - 1 }));
    let terms = |more: Value| {
        let mut terms = json!({
            "id": "c", "currency": "USD", "impressions": 1000, "start_price": "2",
            "increments": [{ "from": "0", "increment": "0.1" }], "opens_ms": 0, "closes_ms": 9,
            "deal": { "id": "d", "starts_ms": 1, "ends_ms": 2 },
        });
        terms.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        terms
    };
    let bid = |maximum: &str| {
        json!({ "bidder": "dsp/seat", "account": "acme", "maximum": maximum, "currency": "USD",
            "key": maximum })
    };
    let none = json!(null);
    let end = |closes_ms: u64| json!({ "closes_ms": closes_ms });
    let why = |reason: &str| json!({ "reason": reason });
    let of_lot = |action: &'static str| format!("/v1/lots/{{id}}{action}");
    let asked = [
        ("GET", of_lot(""), "a", none.clone(), 200),
        ("GET", of_lot(""), "nowhere", none.clone(), 404),
        ("POST", of_lot("/bids"), "a", bid("3"), 200),
        ("POST", of_lot("/bids"), "a", bid("2"), 409),
        ("POST", of_lot("/bids"), "a", bid("two"), 400),
        ("POST", of_lot("/bids"), "nowhere", bid("3"), 404),
        ("POST", of_lot("/open"), "b", none.clone(), 200),
        ("POST", of_lot("/open"), "b", none.clone(), 409),
        ("POST", of_lot("/open"), "nowhere", none.clone(), 404),
        ("POST", of_lot("/extend"), "a", end(LATE_MS + 7), 200),
        ("POST", of_lot("/extend"), "a", end(LATE_MS), 409),
        ("POST", of_lot("/extend"), "a", none.clone(), 400),
        ("POST", of_lot("/extend"), "nowhere", end(LATE_MS), 404),
        ("POST", of_lot("/cancel"), "b", why(""), 400),
        ("POST", of_lot("/cancel"), "b", why("no stock"), 200),
        ("POST", of_lot("/cancel"), "b", why("no stock"), 409),
        ("POST", of_lot("/cancel"), "nowhere", why("no stock"), 404),
        ("POST", of_lot("/close"), "a", none.clone(), 200),
        ("POST", of_lot("/close"), "a", none.clone(), 409),
        ("POST", of_lot("/close"), "nowhere", none.clone(), 404),
        ("GET", "/v1/lots".to_owned(), "", none, 200),
        ("POST", "/v1/lots".to_owned(), "", terms(json!({})), 200),
        ("POST", "/v1/lots".to_owned(), "", terms(json!({ "title": "another" })), 409),
        ("POST", "/v1/lots".to_owned(), "", terms(json!({ "id": "d", "impressions": 0 })), 400),
    ];
    let mut answers = Vec::new();
    for (method, path, id, body, status) in &asked {
        let answer = lots.api(method, &path.replace("{id}", id), body);
        assert_eq!(answer.status, *status, "{method} {path} {id} {body}: {answer:?}");
        answers.push((*method, &**path, answer));
    }
    let without = Floor::start();
    for method in ["GET", "POST"] {
        let answer = without.server.send(method, "/v1/lots", &json!(null));
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.body.contains("add [live.lots]"), "{answer:?}");
        answers.push((method, "/v1/lots", answer));
    }
    check_lots(&lots.floor.server, &answers);
}

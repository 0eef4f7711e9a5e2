//! Requests that are wrong: a clear error, and nothing else suffers.

use serde_json::json;

use crate::fixtures::*;

#[test]
fn what_is_wrong_is_said() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let check = |target: &str, status: u16, code: &str, message: &str| {
        let answer = lookups.get(target);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{target}");
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(message), "{target}: {said}");
    };
    let query = |text: &str| format!("/lookup?query={}", encoded(text));
    check("/lookup", 400, "bad_request", "the query is missing");
    check(&query("itm group=g"), 400, "bad_query", "did you mean `item`?");
    check(&query("item group=[1"), 400, "bad_query", "^");
    check(&query(""), 400, "bad_query", "the query is empty");
    check(&query("group item=x"), 422, "no_plan", "no provider gives group");
    check(&query("item"), 422, "no_plan", "p0.items");
    check(&query("item group=g system=px"), 422, "no_plan", "no system `px`");
    let good = query("item group=g");
    check(&format!("{good}&timeout=soon"), 400, "bad_request", "`timeout` is a time");
    check(&format!("{good}&timeout=99999999999999999999s"), 400, "bad_request", "`timeout`");
    check(&format!("{good}&class=fast"), 400, "bad_request", "operator or background");
    check(&format!("{good}&idx=-1"), 400, "bad_request", "`idx` is a whole number");
    check(&format!("{good}&tiemout=1s"), 400, "bad_request", "no parameter `tiemout`");
    check("/lookup?query=%ff", 400, "bad_request", "UTF-8");
    check("/nowhere", 404, "not_found", "/lookup");
    assert_eq!(requests(&farm), 0);
}

#[test]
fn bodies_that_are_wrong_are_refused() {
    let farm = farm(1, &options());
    let lookups = Lookups::of_farm(&farm, "");
    let post = |body: &str| send(lookups.address, "POST", "/lookup", &[], body);
    assert_eq!(post("{").status, 400);
    assert_eq!(post("{\"query\": \"item group=g\", \"pages\": 1}").status, 400);
    let large = json!({ "query": "x".repeat(1 << 20) }).to_string();
    let refused = post(&large);
    assert_eq!(refused.status, 413, "{}", refused.body);
    let long = json!({ "query": format!("item group={}", "x".repeat(300 << 10)) }).to_string();
    assert_eq!(
        (post(&long).status, post(&long).json()["error"]["code"].clone()),
        (400, json!("bad_query"))
    );
    assert_eq!(send(lookups.address, "PUT", "/lookup", &[], "x").field("allow"), Some("GET, POST"));
    assert_eq!(lookups.query("item group=g", "")["status"], "done");
}

//! Values that clients store and ask for by UUID, as in Prebid Cache.

use cache_core::store::purges::{Purge, PurgeEffect, PurgeScope};
use serde_json::Value;

use super::fixtures::{Answer, Proxy};

fn post(proxy: &Proxy, body: &str, lines: &str) -> Answer {
    let mut client = proxy.client();
    let length = body.len();
    let head = format!("POST /cache HTTP/1.1\r\nhost: any\r\ncontent-length: {length}\r\n{lines}");
    client.write(&format!("{head}\r\n{body}"));
    client.answer("POST")
}

fn uuids(answer: &Answer) -> Vec<String> {
    let answer: Value = serde_json::from_str(answer.text()).expect("JSON");
    let responses = answer["responses"].as_array().expect("a list");
    responses.iter().map(|it| it["uuid"].as_str().expect("a UUID").to_owned()).collect()
}

#[test]
fn values_are_stored_and_served_by_uuid() {
    let proxy = Proxy::with("[cache.puts]\nttl_max = \"1m\"", "");
    let body = r#"{"puts":[{"type":"xml","ttlseconds":30,"value":"<VAST version=\"3.0\"/>"},
                   {"type":"json","value":{"adm":"<b>"}}]}"#;
    let answer = post(&proxy, body, "origin: https://news.example\r\n");
    assert_eq!((answer.status, &*answer.field("content-type").unwrap()), (200, "application/json"));
    let allowed = answer.field("access-control-allow-origin");
    assert_eq!(allowed.as_deref(), Some("https://news.example"));
    let [xml, json] = uuids(&answer).try_into().expect("two");
    assert!(xml != json && xml.len() == 36 && xml.as_bytes()[14] == b'4', "{xml}");
    // On every shard, as what it is.
    for _ in 0..8 {
        let answer = proxy.get(&format!("/cache?uuid={xml}"), &[]);
        assert_eq!(answer.text(), "<VAST version=\"3.0\"/>");
        assert_eq!(answer.field("content-type").as_deref(), Some("application/xml"));
        assert_eq!(answer.field("cache-control").as_deref(), Some("max-age=30"));
        assert_eq!(answer.cache(), "hit");
        let answer = proxy.get(&format!("/cache?a=b&uuid={json}"), &[]);
        assert_eq!(answer.text(), r#"{"adm":"<b>"}"#);
        assert_eq!(answer.field("cache-control").as_deref(), Some("max-age=60"));
    }
    let head = proxy.client().send("HEAD", &format!("/cache?uuid={xml}"), &[]);
    assert_eq!(head.field("content-length").as_deref(), Some("21"));
    let part = proxy.get(&format!("/cache?uuid={xml}"), &["range: bytes=1-4"]);
    assert_eq!((part.status, part.text()), (206, "VAST"));
    // Purged with everything else.
    let all = Purge { scope: PurgeScope::Prefix("".into()), effect: PurgeEffect::Gone };
    proxy.cache().purge(&all).expect("few are pending");
    assert_eq!(proxy.get(&format!("/cache?uuid={xml}"), &[]).status, 404);
    assert_eq!(proxy.origin.received().len(), 0);
}

#[test]
fn wrong_requests_store_nothing_and_say_why() {
    let proxy = Proxy::with("[cache.puts]\ncount = 2\nvalue_max = \"64B\"", "");
    let check = |answer: Answer, status: u16, text: &str| {
        assert_eq!((answer.status, answer.text()), (status, &*format!("{text}\n")));
    };
    let wrong = r#"{"puts":[{"type":"json","value":1},{"type":"text","value":"a"}]}"#;
    let said = "Type must be one of [\"json\", \"xml\"]. Found 'text'";
    check(post(&proxy, wrong, ""), 400, said);
    assert_eq!(proxy.cache().figures().entries, 0, "all or none");
    check(post(&proxy, r#"{"puts":[{},{},{}]}"#, ""), 400, "More keys than allowed: 2");
    let large = format!(r#"{{"puts":[{{"type":"json","value":"{}"}}]}}"#, "x".repeat(70));
    let said = "POST /cache element 0 exceeded max size: Payload size 76 exceeded max 64";
    check(post(&proxy, &large, ""), 400, said);
    assert_eq!(post(&proxy, &"x".repeat(10_000), "").status, 413);
    assert_eq!(post(&proxy, "{", "").status, 400);
    let get = |target: &str| proxy.get(target, &[]);
    check(get("/cache"), 400, "GET /cache: Missing required parameter uuid");
    check(get("/cache?uuid=1"), 404, "GET /cache: invalid uuid length");
    let unknown = "01234567-0123-4123-8123-0123456789ab";
    let said = format!("GET /cache uuid={unknown}: Key not found");
    check(get(&format!("/cache?uuid={unknown}")), 404, &said);
    check(
        get(&format!("/cache?uuid={}", "%3C".repeat(36))),
        404,
        "GET /cache: invalid uuid length",
    );
    let answer = proxy.client().send("PUT", "/cache", &["content-length: 0"]);
    assert_eq!((answer.status, answer.field("allow").is_some()), (405, true));
    let lines = ["origin: https://news.example", "access-control-request-method: POST"];
    let answer = proxy.client().send("OPTIONS", "/cache", &lines);
    assert_eq!(answer.status, 204);
    assert!(answer.field("access-control-allow-methods").expect("a list").contains("POST"));
    assert_eq!(proxy.origin.received().len(), 0);
}

#[test]
fn without_the_table_the_path_is_a_routes() {
    let proxy = Proxy::start("");
    proxy.origin.answer("200 OK\r\n", "the origin's");
    assert_eq!(proxy.get("/cache?uuid=1", &[]).text(), "the origin's");
}

//! Winners' markup in the cache: the response says where it is, and the cache serves it there.

use serde_json::{Value, json};

use crate::operations::fixtures::{Answer, Server, bidder, send, table};
use crate::program::{check, vickrey};

const VAST: &str = r#"<VAST version="3.0"><Ad id="1"><InLine/></Ad></VAST>"#;

/// A bid on the first impression: a document for a video, else HTML.
fn markup(request: &Value) -> Value {
    let is_video = request["imp"][0].get("video").is_some();
    let (adm, mtype) = if is_video { (VAST, 2) } else { ("<p>ad</p>", 1) };
    let bid =
        json!({ "id": "b", "impid": "1", "price": 2.5, "adm": adm, "mtype": mtype, "crid": "c" });
    json!({ "bid": [bid] })
}

/// The only bid of the response to a request for this impression.
fn bid(server: &Server, imp: &Value) -> Value {
    let body = json!({ "id": "1", "imp": [imp] }).to_string();
    let length = body.len();
    let head = format!(
        "POST /openrtb2/auction HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    );
    let answer = send(server.callers(), &head, &body);
    answer.json()["seatbid"][0]["bid"][0].clone()
}

fn stored(address: &str, id: &Value) -> Answer {
    let id = id.as_str().expect("a UUID");
    send(address, &format!("GET /markup?uuid={id} HTTP/1.1\r\n"), "")
}

#[test]
fn winners_say_where_their_markup_is() {
    let dsp = table("bidder", &bidder(markup).to_string(), "");
    let server = Server::start(&format!(
        "[exchange.cache]\nurl = \"https://cache.example/markup\"\n[cache]\nlisten = \"127.0.0.1:0\"\n\
         object_max = \"64KiB\"\n[cache.puts]\npath = \"/markup\"\n{dsp}"
    ));
    let address = server.logged("the cache is at ");
    let video = bid(&server, &json!({ "id": "1", "video": { "mimes": ["video/mp4"] } }));
    let prebid = &video["ext"]["prebid"];
    let targeting = &prebid["targeting"];
    assert_eq!(targeting["hb_cache_host"], "cache.example");
    assert_eq!(targeting["hb_cache_path"], "/markup");
    assert_eq!(targeting["hb_uuid"], prebid["cache"]["vastXml"]["cacheId"]);
    let url = prebid["cache"]["bids"]["url"].as_str().unwrap();
    assert!(url.starts_with("https://cache.example/markup?uuid="), "{url}");
    let document = stored(&address, &targeting["hb_uuid"]);
    assert_eq!((document.status, document.body.as_str()), (200, VAST));
    assert_eq!(document.header("content-type"), Some("application/xml"));
    assert_eq!(document.header("cache-control"), Some("max-age=1800"));
    let json = stored(&address, &targeting["hb_cache_id"]);
    assert_eq!(json.header("cache-control"), Some("max-age=300"));
    let json = json.json();
    assert_eq!((&json["adm"], &json["price"]), (&video["adm"], &video["price"]));

    let banner = bid(&server, &json!({ "id": "1", "banner": { "w": 300, "h": 250 } }));
    let targeting = &banner["ext"]["prebid"]["targeting"];
    assert_eq!(
        (&targeting["hb_uuid"], stored(&address, &targeting["hb_cache_id"]).status),
        (&Value::Null, 200)
    );
    assert_eq!(server.scraped("exchange_markup_stored_total"), 3);
    assert_eq!(server.scraped("exchange_markup_unstored_total"), 0);
}

#[test]
fn without_a_place_for_values_the_start_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vickrey.toml");
    let text = "[exchange]\n[exchange.cache]\nurl = \"https://cache.example\"\n";
    std::fs::write(&file, text).unwrap();
    let mut command = vickrey(&["config", "check"]);
    check(
        command.arg(&file),
        64,
        &[],
        &["exchange.cache.url", "needs the form \"https://host/path\""],
    );
    std::fs::write(&file, text.replace(".example", ".example/cache")).unwrap();
    let mut command = vickrey(&["config", "check"]);
    check(command.arg(&file), 64, &[], &["exchange.cache", "needs [cache.puts]"]);
}

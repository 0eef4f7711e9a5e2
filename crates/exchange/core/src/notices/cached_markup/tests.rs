//! Winners that say where their markup is.

use serde_json::{Value, json};

use super::*;
use crate::answering::response::response;
use crate::answering::sale::sales;
use crate::fixtures::{
    answers, bid, cleared as clear, market, request, response as dsp_response, with_auction,
};
use crate::judging::judge::judge;

const URL: &str = "https://cdn.example:444/cache/v1";

/// The response, and what was stored, by UUID.
fn cached(
    request: &str,
    bids: &[Value],
    wants: impl Fn(MarkupKind) -> bool,
) -> (Value, Vec<(MarkupKind, String)>) {
    with_auction(&market(), request, |auction| {
        let bodies = [(0, dsp_response(bids))];
        let answers = answers(auction, &bodies);
        let judgement = judge(auction, &answers);
        let clearing = clear(auction, &judgement, |_| Ok(()));
        let sales = sales(auction, &judgement, &clearing);
        let text = response(auction, &answers, &judgement, &sales);
        let url = CacheUrl::parse(URL).unwrap();
        let mut stored = Vec::new();
        let cleared = ClearedAuction {
            answers: &answers,
            judgement: &judgement,
            clearing: &clearing,
            sales: &sales,
        };
        let text = with_cached_markup(&text, &cleared, &[], &url, |kind, text| {
            wants(kind).then(|| {
                stored.push((kind, text.to_owned()));
                format!("uuid-{}", stored.len())
            })
        });
        assert!(openrtb::is_json(&text), "{text}");
        (serde_json::from_str(&text).unwrap(), stored)
    })
}

fn video() -> (String, Value) {
    let imp = json!({ "id": "1", "video": { "mimes": ["video/mp4"] } });
    let request = request(json!({ "imp": [imp] }));
    let own = json!({ "adm": "<VAST version=\"3.0\">\u{e9}</VAST>", "ext": { "dsp": [1], "prebid": { "type": "video", "cache": 5 } } });
    (request, bid(own))
}

#[test]
fn a_video_has_its_bid_and_its_document() {
    let (request, own) = video();
    let (response, stored) = cached(&request, &[own], |_| true);
    let bid = &response["seatbid"][0]["bid"][0];
    assert_eq!(
        bid["ext"],
        json!({
            "dsp": [1],
            "prebid": {
                "type": "video",
                "cache": {
                    "bids": { "url": format!("{URL}?uuid=uuid-1"), "cacheId": "uuid-1" },
                    "vastXml": { "url": format!("{URL}?uuid=uuid-2"), "cacheId": "uuid-2" },
                },
                "targeting": {
                    "hb_cache_id": "uuid-1",
                    "hb_uuid": "uuid-2",
                    "hb_cache_host": "cdn.example:444",
                    "hb_cache_path": "/cache/v1",
                },
            },
        })
    );
    assert_eq!(stored[1], (MarkupKind::Vast, "<VAST version=\"3.0\">\u{e9}</VAST>".to_owned()));
    // The bid is stored as it is returned, but for this.
    let mut stored: Value = serde_json::from_str(&stored[0].1).unwrap();
    let mut returned = bid.clone();
    for bid in [&mut stored, &mut returned] {
        bid.as_object_mut().unwrap().remove("ext");
    }
    assert_eq!(stored, returned);
}

#[test]
fn a_banner_has_no_document_and_what_is_not_stored_is_not_said() {
    let banner = request(json!({}));
    let own = bid(json!({}));
    let (response, stored) = cached(&banner, std::slice::from_ref(&own), |_| true);
    let prebid = &response["seatbid"][0]["bid"][0]["ext"]["prebid"];
    assert_eq!((stored.len(), &prebid["targeting"]["hb_uuid"]), (1, &Value::Null));
    assert_eq!(prebid["targeting"]["hb_cache_id"], "uuid-1");
    let (response, _) = cached(&banner, &[own], |_| false);
    assert_eq!(response["seatbid"][0]["bid"][0]["ext"], Value::Null);
    let (request, own) = video();
    let (response, _) = cached(&request, &[own], |kind| kind == MarkupKind::Vast);
    let prebid = &response["seatbid"][0]["bid"][0]["ext"]["prebid"];
    assert_eq!(prebid["targeting"]["hb_cache_id"], Value::Null);
    assert_eq!(prebid["targeting"]["hb_uuid"], "uuid-1");
}

#[test]
fn urls_have_a_host_and_a_path() {
    let url = CacheUrl::parse("http://a/").unwrap();
    assert_eq!((url.host(), url.path(), url.as_str()), ("a", "/", "http://a/"));
    for wrong in ["https://a", "https:///b", "ftp://a/b", "https://a/b?c", "https://a/\"", "a/b"] {
        assert_eq!(CacheUrl::parse(wrong), None, "{wrong}");
    }
    assert_eq!(CacheUrl::parse(&format!("https://a/{}", "b".repeat(256))), None);
}

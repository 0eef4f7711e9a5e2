//! Golden notices: every macro in every place and mode; then recipients, and the place of the
//! beacon.

mod golden;
mod reserved;

use serde_json::{Value, json};

use super::*;
use crate::answering::notice_url::{NotSent, URL_BYTES_MAX};
use crate::fixtures::rehearsal::{BASE, ID, NOW_UNIX_S, SampleAuction, noticed, response, tokens};
use crate::fixtures::{imp, ppm, request};

const ALL_MODES: [NoticeMode; 3] =
    [NoticeMode::PassThrough, NoticeMode::Final, NoticeMode::Upstream];

/// `alpha` at 3.00 beats `beta` at 2.00, each with all notices; first price.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
fn two(mode: NoticeMode, change: Value) -> SampleAuction {
    let bodies = [
        (
            0,
            response(
                &[noticed("alpha", crate::fixtures::merged(&json!({"price": 3}), &change))],
                json!({}),
            ),
        ),
        (1, response(&[noticed("beta", json!({}))], json!({}))),
    ];
    SampleAuction::new(mode, &request(json!({ "at": 1 })), &bodies)
}

fn urls(conclusion: &Conclusion) -> Vec<&str> {
    conclusion.immediate.iter().map(|notice| &*notice.url).collect()
}

fn keys_of(bid: &Value) -> Vec<&str> {
    bid.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn final_keeps_notices_and_puts_a_beacon_into_markup() {
    let (bids, conclusion) = two(NoticeMode::Final, json!({ "adm": "<p>é\"</p>" })).bids();
    assert_eq!(keys_of(&bids[0]), ["adm", "crid", "id", "impid", "price"]);
    let adm = bids[0]["adm"].as_str().unwrap();
    assert!(adm.starts_with(&format!("<p>é\"</p><img src=\"{BASE}")), "{adm}");
    let want = ["https://n.alpha.example/win", "https://n.beta.example/loss?102"];
    assert_eq!(urls(&conclusion), want);
    assert_eq!(
        conclusion.immediate.iter().map(|notice| (notice.dsp, notice.kind)).collect::<Vec<_>>(),
        [(0, NoticeKind::Win), (1, NoticeKind::Loss)]
    );
    assert!(conclusion.unsent.is_empty() && conclusion.without_beacon.is_empty());
    let [claims] = &tokens(adm)[..] else { panic!("one beacon in {adm}") };
    assert_eq!(claims.url, "https://n.alpha.example/bill");
    assert_eq!((claims.kind, claims.expires_unix_s), (NoticeKind::Billing, NOW_UNIX_S + 60));
    assert_eq!((&*claims.dsp, &*claims.seat, &*claims.imp_id), ("alpha", "a1", "1"));
    assert_eq!(format!("{:032x}", claims.auction_id), ID);
    assert!(!claims.is_test && !claims.relays_markup);
}

#[test]
fn upstream_puts_notices_of_its_own_in_the_places_of_the_dsps() {
    let (bids, conclusion) = two(NoticeMode::Upstream, json!({})).bids();
    let [bid] = &bids[..] else { panic!("one bid") };
    assert_eq!(bid["adm"], "<p>");
    assert_eq!(urls(&conclusion), ["https://n.beta.example/loss?102"]);
    for (key, kind, url) in [
        ("nurl", NoticeKind::Win, "https://n.alpha.example/win"),
        ("burl", NoticeKind::Billing, "https://n.alpha.example/bill"),
        ("lurl", NoticeKind::Loss, "https://n.alpha.example/loss?${AUCTION_LOSS}"),
    ] {
        let own = bid[key].as_str().unwrap();
        let query = "?p=${AUCTION_PRICE}&c=${AUCTION_CURRENCY}&l=${AUCTION_LOSS}\
                     &m=${AUCTION_MIN_TO_WIN}";
        assert!(own.starts_with(BASE) && own.ends_with(query), "{own}");
        let [claims] = &tokens(own)[..] else { panic!("one token in {own}") };
        assert_eq!((claims.kind, &*claims.url), (kind, url));
        assert!(!claims.relays_markup);
    }
}

#[test]
fn a_dsp_without_notices_is_billed_all_the_same() {
    let none = json!({ "nurl": null, "burl": null, "lurl": null });
    let (bids, conclusion) = two(NoticeMode::Final, none.clone()).bids();
    assert_eq!(tokens(bids[0]["adm"].as_str().unwrap())[0].url, "");
    assert_eq!(urls(&conclusion), ["https://n.beta.example/loss?102"]);
    let (bids, _) = two(NoticeMode::Upstream, none).bids();
    for key in ["nurl", "burl", "lurl"] {
        assert_eq!(tokens(bids[0][key].as_str().unwrap())[0].url, "");
    }
}

#[test]
fn without_keys_notices_pass_through() {
    for mode in ALL_MODES {
        let rehearsal = two(mode, json!({}));
        let conclusion = rehearsal.conclude_with(None);
        let text = conclusion.response.as_deref().unwrap();
        assert!(text.contains("https://n.alpha.example/bill"), "{text}");
        assert!(conclusion.immediate.is_empty());
    }
}

#[test]
fn a_test_has_no_notices() {
    for mode in [NoticeMode::Final, NoticeMode::Upstream] {
        let mut rehearsal = two(mode, json!({ "adm": "<p>${AUCTION_PRICE}" }));
        rehearsal.request = request(json!({ "at": 1, "test": 1 }));
        let (bids, conclusion) = rehearsal.bids();
        assert_eq!(keys_of(&bids[0]), ["adm", "crid", "id", "impid", "price"]);
        assert_eq!(bids[0]["adm"], "<p>3");
        let nothing = Conclusion { response: conclusion.response.clone(), ..Conclusion::default() };
        assert_eq!(conclusion, nothing);
    }
}

#[test]
fn losers_are_told_even_when_nobody_wins() {
    let low = noticed("alpha", json!({ "price": 0.5 }));
    let body = request(json!({ "imp": [imp(json!({ "bidfloor": 1 }))] }));
    let of = |change| [(0, response(std::slice::from_ref(&low), change))];
    for mode in [NoticeMode::Final, NoticeMode::Upstream] {
        for (change, code) in
            [(json!({}), 100), (json!({ "id": "other" }), 5), (json!({ "cur": "CHF" }), 1002)]
        {
            let (_, conclusion) = SampleAuction::new(mode, &body, &of(change)).bids();
            assert_eq!(conclusion.response, None);
            assert_eq!(urls(&conclusion), [format!("https://n.alpha.example/loss?{code}")]);
        }
    }
    let (_, conclusion) = SampleAuction::new(NoticeMode::PassThrough, &body, &of(json!({}))).bids();
    assert_eq!(conclusion, Conclusion::default());
}

#[test]
fn urls_are_checked_once_macros_are_in_them() {
    let check = |url: &str, want: Option<NotSent>| {
        let all = json!({ "nurl": url, "burl": url, "lurl": url });
        let (_, conclusion) = two(NoticeMode::Final, all.clone()).bids();
        let unsent: Vec<_> = conclusion.unsent.iter().map(|unsent| unsent.reason).collect();
        assert_eq!(unsent, want.map_or(vec![], |why| vec![why, why]), "{url}");
        let (bids, conclusion) = two(NoticeMode::Upstream, all).bids();
        let sealed = tokens(bids[0]["lurl"].as_str().unwrap()).remove(0).url;
        assert_eq!(
            (sealed.is_empty(), conclusion.unsent.len()),
            match want {
                None => (false, 0),
                Some(_) => (true, 3),
            }
        );
    };
    check("https://alpha.example/", None);
    check("http://x.alpha.example:81/?a=${AUCTION_NEW}", None);
    let undeclared = Some(NotSent::UndeclaredHost);
    check("https://beta.example/", undeclared);
    check("http://127.0.0.1/", undeclared);
    check("http://169.254.169.254/latest/meta-data", undeclared);
    check("http://[::1]/", undeclared);
    let bad = Some(NotSent::BadUrl);
    check("https://alpha.example@evil.example/", bad);
    check("file:///etc/passwd", bad);
    check("https://alpha.example/a b", bad);
    check("https://${AUCTION_IMP_TS:X}.alpha.example/", bad);
    check(&format!("https://alpha.example/{}", "x".repeat(URL_BYTES_MAX)), bad);
    // A macro may form a host: percent-encoded, or of a plain id.
    let own_host = |adid: &str| {
        let change = json!({ "adid": adid, "nurl": "https://${AUCTION_AD_ID}/" });
        let (_, conclusion) = two(NoticeMode::Final, change).bids();
        conclusion.unsent.first().map(|unsent| unsent.reason)
    };
    assert_eq!(own_host("evil.example"), undeclared);
    assert_eq!(own_host("evil.example/?"), bad);
    assert_eq!(own_host("n.alpha.example"), None);
    let mut rehearsal = two(NoticeMode::Final, json!({ "nurl": "REPLACED" }));
    rehearsal.bodies[0].1 = rehearsal.bodies[0].1.replace("REPLACED", r"\ud83d");
    let (_, conclusion) = rehearsal.bids();
    let want = UnsentNotice { dsp: 0, kind: NoticeKind::Win, reason: NotSent::Unreadable };
    assert_eq!(conclusion.unsent, [want]);
}

#[test]
fn an_ad_that_takes_no_beacon_goes_out_as_it_is() {
    let video = json!({ "imp": [{ "id": "1", "video": { "mimes": ["video/mp4"] } }] });
    let check = |adm: Value, want: NoBeacon, shown: Value| {
        let mut rehearsal = two(NoticeMode::Final, json!({ "adm": adm, "adid": "x" }));
        rehearsal.bodies[1].1 = rehearsal.bodies[1].1.replace("<p>", "<VAST/>");
        rehearsal.request = request(video.clone());
        let (bids, conclusion) = rehearsal.bids();
        assert_eq!(bids[0]["adm"], shown);
        assert_eq!(conclusion.without_beacon, [(0, want)]);
        assert_eq!(conclusion.immediate.len(), 2);
    };
    check(json!("<VAST/>${AUCTION_PRICE}"), NoBeacon::NotVast, json!("<VAST/>2.01"));
    check(json!("<VAST/>"), NoBeacon::NoAd, json!("<VAST/>"));
    check(json!(" "), NoBeacon::Empty, json!(" "));
    check(Value::Null, NoBeacon::Absent, Value::Null);
    let long = "x".repeat(300);
    let mut rehearsal = two(NoticeMode::Final, json!({ "impid": long }));
    rehearsal.request = request(json!({ "imp": [imp(json!({ "id": long }))] }));
    let (bids, conclusion) = rehearsal.bids();
    assert_eq!(bids[0]["adm"], "<p>");
    assert_eq!(conclusion.without_beacon, [(0, NoBeacon::Unsealed)]);
    rehearsal.market.publishers.others.notices = NoticeMode::Upstream;
    let (bids, conclusion) = rehearsal.bids();
    assert_eq!(keys_of(&bids[0]), ["adm", "crid", "id", "impid", "price"]);
    assert!(
        conclusion.unsent.iter().filter(|unsent| unsent.reason == NotSent::Unsealed).count() == 3
    );
}

/// And the response stays JSON.
#[test]
fn what_is_no_markup_takes_no_beacon() {
    for adm in ["null", "\"\"", "{}", "7", "{\"a\":1},\"mtype\":1"] {
        let mut rehearsal = two(NoticeMode::Final, json!({ "adid": "x" }));
        let body = &mut rehearsal.bodies[0].1;
        assert!(body.contains(r#""adm":"<p>""#), "{body}");
        *body = body.replacen(r#""adm":"<p>""#, &format!(r#""adm":{adm}"#), 1);
        let (bids, conclusion) = rehearsal.bids();
        assert_eq!((bids.len(), bids[0].get("adm")), (1, None), "{adm}");
        assert_eq!(conclusion.without_beacon, [(0, NoBeacon::Absent)], "{adm}");
    }
}

/// A browser would not load our pixel, and blame the page.
#[test]
fn a_secure_impression_takes_no_plain_beacon_and_is_billed_at_once() {
    let check = |secure: u8, base: &'static str, mode: NoticeMode, is_billed: bool| {
        let burl = "https://n.alpha.example/b?${AUCTION_PRICE}&t=${AUCTION_IMP_TS}";
        let change = json!({ "adm": "<p>", "burl": burl });
        let mut rehearsal = two(mode, change);
        rehearsal.base = base;
        rehearsal.request = request(json!({ "at": 1, "imp": [imp(json!({ "secure": secure }))] }));
        let (bids, conclusion) = rehearsal.bids();
        let adm = bids[0]["adm"].as_str().unwrap();
        assert_eq!(adm == "<p>", is_billed || mode == NoticeMode::Upstream, "{secure} {base}");
        let want: &[_] = if is_billed { &[(0, NoBeacon::Insecure)] } else { &[] };
        assert_eq!(conclusion.without_beacon, want);
        // The time of the response, because no beacon reports the impression.
        let url = format!("https://n.alpha.example/b?3&t={NOW_UNIX_S}000");
        let notice = PlannedNotice { dsp: 0, kind: NoticeKind::Billing, url };
        let billed = SaleBilledNow { bid: 0, notice: Some(notice) };
        assert_eq!(conclusion.billed, if is_billed { vec![billed] } else { Vec::new() });
        assert!(conclusion.unsent.is_empty());
    };
    let plain = "http://x.example/n/";
    check(1, plain, NoticeMode::Final, true);
    check(0, plain, NoticeMode::Final, false);
    check(1, "https://x.example/n/", NoticeMode::Final, false);
    check(1, "HTTPS://x.example/n/", NoticeMode::Final, false);
    check(1, plain, NoticeMode::Upstream, false);
    // A notice that must not be called is omitted, and the sale is billed all the same.
    let mut rehearsal = two(NoticeMode::Final, json!({}));
    rehearsal.base = plain;
    rehearsal.request = request(json!({ "imp": [imp(json!({ "secure": 1 }))] }));
    rehearsal.market.dsps[0].notice_hosts.clear();
    let (_, conclusion) = rehearsal.bids();
    assert_eq!(conclusion.billed, [SaleBilledNow { bid: 0, notice: None }]);
    let unsent = conclusion.unsent.iter().filter(|unsent| unsent.kind == NoticeKind::Billing);
    assert_eq!(unsent.count(), 1);
    // An ad that never carries a beacon is never billed.
    let video = json!({ "secure": 1, "banner": null, "video": { "mimes": ["video/mp4"] } });
    let mut rehearsal = two(NoticeMode::Final, json!({ "adm": "<VAST/>" }));
    rehearsal.base = plain;
    rehearsal.request = request(json!({ "imp": [imp(video)] }));
    let (_, conclusion) = rehearsal.bids();
    assert_eq!(
        (conclusion.without_beacon, conclusion.billed),
        (vec![(0, NoBeacon::NoAd)], Vec::new())
    );
}

#[test]
fn markup_that_cannot_be_read_goes_out_as_it_is() {
    let mut rehearsal = two(NoticeMode::Final, json!({ "adm": "REPLACED${AUCTION_PRICE}" }));
    rehearsal.bodies[0].1 = rehearsal.bodies[0].1.replace("REPLACED", r"\ud83d");
    let conclusion = rehearsal.conclude();
    assert!(conclusion.response.unwrap().contains(r#""adm":"\ud83d3""#));
    assert_eq!(conclusion.without_beacon, [(0, NoBeacon::Unreadable)]);
}

#[test]
fn native_markup_is_a_string_or_an_object() {
    let native = json!({ "imp": [{ "id": "1", "native": { "request": "{}" } }] });
    let object = json!({ "native": { "link": { "url": "${AUCTION_PRICE}" } } });
    for (adm, is_object) in [(object.clone(), true), (json!(object.to_string()), false)] {
        let mut rehearsal = two(NoticeMode::Final, json!({ "adm": adm, "mtype": 4 }));
        rehearsal.bodies[1].1 = rehearsal.bodies[1].1.replace("<p>", "{}");
        rehearsal.request = request(native.clone());
        let (bids, conclusion) = rehearsal.bids();
        assert!(conclusion.without_beacon.is_empty(), "{:?}", conclusion.without_beacon);
        let adm = &bids[0]["adm"];
        assert_eq!(adm.is_object(), is_object);
        let markup = adm.as_str().map_or(adm.clone(), |text| serde_json::from_str(text).unwrap());
        assert_eq!(markup["native"]["link"]["url"], "2.01");
        let tracker = &markup["native"]["eventtrackers"][0];
        assert_eq!(tokens(tracker["url"].as_str().unwrap()).len(), 1);
    }
}

#[test]
fn a_bid_keeps_its_other_members_in_any_spelling() {
    let own = concat!(
        r#"{"i\u0064":"b1","n\u0075rl":"https://n.alpha.example/","impid":"1" , "price" : 2.50,"#,
        r#""crid":"c","adm":"<p>","burl":null,"lurl":"","a\"b":[1,{"x":null}],"#,
        r#""ext":{"u":"${AUCTION_PRICE:B64}"}}"#
    );
    let body = format!(r#"{{"id":"{ID}","seatbid":[{{"bid":[{own}]}}]}}"#);
    let mut rehearsal =
        SampleAuction::new(NoticeMode::Upstream, &request(json!({ "at": 1 })), &[(0, body)]);
    rehearsal.market.publishers.others.fee = ppm(100_000);
    let text = rehearsal.conclude().response.unwrap();
    let want = concat!(
        r#"{"id":"b1","impid":"1","price":2.25,"crid":"c","a\"b":[1,{"x":null}],"#,
        r#""ext":{"u":"Mi41"},"adm":"<p>","nurl":"https://x.example/n/"#
    );
    assert!(text.contains(want), "{text}");
    assert!(!text.contains("alpha.example"));
}

#[test]
fn bases_that_need_an_escape_somewhere_are_refused() {
    for (base, want) in [
        ("https://x.example/n/", true),
        ("http://127.0.0.1:8080/n/", true),
        ("https://x.example/", true),
        ("https://x.example", false),
        ("https://x.example/n", false),
        ("https://x.example/?n/", false),
        ("https://x.example/#/", false),
        ("https://x.example/a&b/", false),
        ("https://x.example/a'b/", false),
        ("https://x.example/]]>/", false),
        ("//x.example/n/", false),
        ("", false),
    ] {
        assert_eq!(BeaconBase::parse(base).is_some(), want, "{base}");
    }
    assert!(BeaconBase::parse(&format!("https://x.example/{}/", "n".repeat(256))).is_none());
}

#[test]
fn only_ids_that_serves_make_are_numbers() {
    assert_eq!(auction_number(ID), Some(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff));
    for id in [
        "",
        "auction-1",
        &ID[1..],
        &format!("{ID}0"),
        &ID.to_uppercase(),
        &format!("+{}", &ID[1..]),
    ] {
        assert_eq!(auction_number(id), None, "{id}");
    }
}

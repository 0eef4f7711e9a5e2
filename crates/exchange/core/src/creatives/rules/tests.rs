//! Creatives that may be shown, by request, impression and bid.

use openrtb::{parse_bid, parse_request};
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{bid, imp, merged, request};

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
#[track_caller]
fn check(of_request: Value, of_imp: Value, of_bid: Value, want: Result<(), Fate>) {
    let body = request(merged(&json!({ "imp": [imp(of_imp)] }), &of_request));
    let request = parse_request(&body).unwrap();
    let text = bid(of_bid).to_string();
    let bid = parse_bid(&text).unwrap();
    let (lists, imp) = (RequestLists::default(), &request.imps()[0]);
    let rules = CreativeRules { request: &request, lists: &lists, imp };
    assert_eq!(rules.check(&bid, false).map(drop), want, "{body} {text}");
}

#[track_caller]
fn check_request(of_request: Value, of_bid: Value, want: Result<(), Fate>) {
    check(of_request, json!({}), of_bid, want);
}

const OK: Result<(), Fate> = Ok(());

#[test]
fn a_banner_has_a_size_that_was_offered() {
    let formats = |formats: Value| json!({ "banner": { "format": formats } });
    let two = || formats(json!([{ "w": 300, "h": 250 }, { "w": 728, "h": 90 }]));
    let flex = || formats(json!([{ "wratio": 6, "hratio": 5, "wmin": 300 }]));
    let screen = || {
        let banner = json!({ "w": 320, "h": 480 });
        json!({ "instl": 1, "banner": banner })
    };
    let size = |w: u32, h: u32| json!({ "w": w, "h": h });
    let ratio = |w: u32, wratio: u32, hratio: u32| json!({ "w": w, "h": 1, "wratio": wratio, "hratio": hratio });
    let wrong = Err(Fate::Size);
    for (of_imp, of_bid, want) in [
        (json!({}), size(300, 250), OK),
        (json!({}), size(250, 300), wrong),
        (json!({}), json!({}), OK),
        (json!({}), json!({ "w": 728 }), OK),
        (json!({ "banner": {} }), size(1, 1), OK),
        (json!({ "banner": { "w": 300 } }), size(1, 1), OK),
        (two(), size(728, 90), OK),
        (two(), size(300, 90), wrong),
        // `w` and `h` in addition to `format` are one more size.
        (json!({ "banner": { "w": 1, "h": 2, "format": [size(3, 4)] } }), size(1, 2), OK),
        (json!({ "banner": { "w": 1, "h": 2, "format": [size(3, 4)] } }), size(3, 4), OK),
        (flex(), ratio(300, 6, 5), OK),
        (flex(), ratio(300, 12, 10), OK),
        (flex(), ratio(299, 6, 5), wrong),
        (flex(), ratio(300, 5, 6), wrong),
        (flex(), ratio(300, 0, 0), OK),
        (flex(), json!({ "wratio": u32::MAX, "hratio": u32::MAX }), wrong),
        (flex(), size(600, 500), wrong),
        (screen(), size(320, 480), OK),
        (screen(), size(300, 250), OK),
        (screen(), size(321, 480), wrong),
        (screen(), size(320, 481), wrong),
    ] {
        check(json!({}), of_imp, of_bid, want);
    }
    let video = json!({ "banner": null, "video": { "mimes": ["v"] } });
    check(json!({}), video, json!({ "w": 1, "h": 1, "adm": "<VAST/>" }), OK);
}

#[test]
fn secure_impressions_load_nothing_over_plain_http() {
    let video = json!({ "banner": null, "video": { "mimes": ["v"] } });
    let native = json!({ "banner": null, "native": { "request": "{}" } });
    for (of_imp, adm, want) in [
        (json!({}), "<img src=\"https://x/i.png\">", OK),
        (json!({}), "<img src=\"http://x/i.png\">", Err(Fate::Insecure)),
        (json!({}), "<img src=\"https://x/?u=http://y\">", OK),
        (video.clone(), "<VAST><Error>http://x</Error>", Err(Fate::Insecure)),
        (video, "<VAST><Error>https://x/?u=http://y</Error>", OK),
        (native.clone(), r#"{"img":{"url":"http://x"}}"#, Err(Fate::Insecure)),
        (native, r#"{"title":{"text":"see http://x"}}"#, OK),
    ] {
        for (secure, want) in [(json!(1), want), (json!(0), OK), (Value::Null, OK)] {
            let of_imp = merged(&of_imp, &json!({ "secure": secure }));
            check(json!({}), of_imp, json!({ "adm": adm }), want);
        }
    }
    check(json!({}), json!({ "secure": 1 }), json!({ "adm": null, "nurl": "http://x" }), OK);
}

#[test]
fn markup_is_searched_however_it_is_escaped() {
    let body = request(json!({ "imp": [imp(json!({ "secure": 1 }))] }));
    let request = parse_request(&body).unwrap();
    let imp = &request.imps()[0];
    for (adm, want) in [
        (r#""<img src=\"http:\/\/x\">""#, Err(Fate::Insecure)),
        // Lone surrogate: we cannot decode it, but a browser may.
        (r#""\ud800\u0020<script src='http://x'>""#, Err(Fate::Format)),
        (r#""<img src=\"http:\u002f\u002fx\">""#, Err(Fate::Insecure)),
        (r#""\u003cimg src=\"\u0068ttp://x\"\u003e""#, Err(Fate::Insecure)),
        (r#""<a href=\"http:\/\/x\">""#, OK),
        (r#""<a href=\"\nhttp:\/\/x\">""#, OK),
        (r#""\u003ca href=\"http://x\"\u003e""#, OK),
    ] {
        let text = format!(r#"{{"id":"1","impid":"1","price":1,"adm":{adm}}}"#);
        let bid = parse_bid(&text).unwrap();
        let lists = RequestLists::default();
        let rules = CreativeRules { request: &request, lists: &lists, imp };
        assert_eq!(rules.check(&bid, false).map(drop), want, "{adm}");
    }
}

#[test]
fn languages() {
    let wrong = Err(Fate::Language);
    let (code, tag) =
        (|code: &str| json!({ "language": code }), |tag: &str| json!({ "langb": tag }));
    for (of_request, of_bid, want) in [
        (json!({}), code("en"), OK),
        (json!({ "wlang": [] }), code("en"), OK),
        (json!({ "wlang": ["en", "de"] }), code("de"), OK),
        (json!({ "wlang": ["en"] }), code("EN"), OK),
        (json!({ "wlang": ["en"] }), code("fr"), wrong),
        (json!({ "wlang": ["en"] }), json!({}), OK),
        (json!({ "wlang": ["en"] }), code("xx"), OK),
        (json!({ "wlang": ["en"] }), tag("en-GB"), OK),
        (json!({ "wlang": ["en"] }), tag("fr-CA"), wrong),
        (json!({ "wlangb": ["en-GB"] }), tag("en-gb"), OK),
        (json!({ "wlangb": ["en-GB"] }), tag("en-US"), wrong),
        (json!({ "wlangb": ["en-GB"] }), code("en"), OK),
        (json!({ "wlangb": ["en-GB"] }), code("de"), wrong),
    ] {
        check_request(of_request, of_bid, want);
    }
}

#[test]
fn advertisers() {
    let wrong = Err(Fate::Advertiser);
    for (badv, adomain, want) in [
        (json!(["ford.example"]), json!(["ford.example"]), wrong),
        (json!(["ford.example"]), json!(["FORD.example"]), wrong),
        (json!(["ford.example"]), json!(["www.ford.example"]), wrong),
        (json!(["ford.example"]), json!(["x", "a.b.ford.example"]), wrong),
        (json!(["ford.example"]), json!(["notford.example"]), OK),
        (json!(["ford.example"]), json!(["https://ford.example/"]), wrong),
        (json!(["ford.example"]), json!(["ford.example/path"]), wrong),
        (json!(["ford.example"]), json!(["ford.example."]), wrong),
        (json!(["ford.example"]), json!([" ford.example"]), wrong),
        (json!(["ford.example"]), json!(["ford.example:443"]), wrong),
        (json!(["www.ford.example"]), json!(["ford.example"]), wrong),
        (json!(["HTTP://Ford.example/x"]), json!(["ads.ford.example"]), wrong),
        (json!(["é.example"]), json!(["b.é.example"]), wrong),
        (json!(["É.example"]), json!(["b.xn--9ca.example"]), wrong),
        (json!(["ads.ford.example"]), json!(["ford.example"]), OK),
        (json!(["é"]), json!(["a\u{a9}"]), OK),
        (json!([""]), json!(["ford.example"]), OK),
        (json!(["ford.example"]), json!([""]), OK),
        (json!(["ford.example"]), Value::Null, OK),
        (json!([]), json!(["ford.example"]), OK),
    ] {
        check_request(json!({ "badv": badv }), json!({ "adomain": adomain }), want);
    }
}

#[test]
fn categories_compare_within_one_taxonomy() {
    let wrong = Err(Fate::Category);
    for (of_request, of_bid, want) in [
        (json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB7"] }), wrong),
        (json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB1", "IAB7-39"] }), wrong),
        (json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB70"] }), OK),
        (json!({ "bcat": ["IAB7-3"] }), json!({ "cat": ["IAB7-39"] }), OK),
        (json!({ "bcat": ["IAB7-39"] }), json!({ "cat": ["IAB7"] }), OK),
        (json!({ "bcat": ["IAB7"] }), json!({}), OK),
        (json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB7"], "cattax": 1 }), wrong),
        (json!({ "bcat": ["IAB7"] }), json!({ "cat": ["IAB7"], "cattax": 6 }), OK),
        (json!({ "bcat": ["7"], "cattax": 6 }), json!({ "cat": ["7"] }), OK),
        (json!({ "bcat": ["7"], "cattax": 6 }), json!({ "cat": ["7"], "cattax": 6 }), wrong),
        (json!({ "bcat": ["7"], "cattax": 6 }), json!({ "cat": ["7-1"], "cattax": 6 }), OK),
        (json!({ "acat": ["IAB7"] }), json!({ "cat": ["IAB7-1"] }), OK),
        (json!({ "acat": ["IAB7"] }), json!({ "cat": ["IAB8"] }), wrong),
        (json!({ "acat": ["IAB7"] }), json!({}), OK),
        (json!({ "acat": ["IAB7"] }), json!({ "cat": ["8"], "cattax": 6 }), OK),
        (json!({ "acat": [] }), json!({ "cat": ["IAB8"] }), OK),
        (json!({ "acat": ["IAB7"], "bcat": ["IAB7-1"] }), json!({ "cat": ["IAB7-1"] }), wrong),
    ] {
        check_request(of_request, of_bid, want);
    }
}

#[test]
fn attributes_are_blocked_by_format() {
    let wrong = Err(Fate::Attribute);
    let all = || {
        json!({
            "banner": { "battr": [1] },
            "video": { "mimes": ["v"], "battr": [2] },
            "audio": { "mimes": ["a"], "battr": [3] },
            "native": { "request": "{}", "battr": [4] },
        })
    };
    for (mtype, adm) in [(1, "<p>"), (2, "<VAST/>"), (3, "<VAST/>"), (4, "{}")] {
        for attr in 1..=5 {
            let want = if mtype == attr { wrong } else { OK };
            check(json!({}), all(), json!({ "mtype": mtype, "adm": adm, "attr": [9, attr] }), want);
        }
        check(json!({}), all(), json!({ "mtype": mtype, "adm": adm }), OK);
    }
}

#[test]
fn ad_types_show_in_the_markup() {
    let wrong = Err(Fate::AdType);
    let banner = |btype: Value| json!({ "banner": { "w": 300, "h": 250, "btype": btype } });
    for (btype, adm, want) in [
        (json!([3]), "<p><script>", wrong),
        (json!([3]), "<SCRIPT src=x>", wrong),
        (json!([3]), "<scr", OK),
        (json!([3]), "script", OK),
        (json!([3]), "<iframe>", OK),
        (json!([4]), "<IFrame>", wrong),
        (json!([1, 2]), "<iframe><script>", OK),
        (json!([]), "<iframe><script>", OK),
    ] {
        check(json!({}), banner(btype), json!({ "adm": adm }), want);
    }
    let video = json!({ "video": { "mimes": ["v"] }, "banner": { "btype": [3] } });
    check(json!({}), video, json!({ "mtype": 2, "adm": "<VAST><script>" }), OK);
}

#[test]
fn applications() {
    let bapp = || json!({ "bapp": ["com.bad", "123"] });
    check_request(bapp(), json!({ "bundle": "com.bad" }), Err(Fate::AppBundle));
    check_request(bapp(), json!({ "bundle": "123" }), Err(Fate::AppBundle));
    check_request(bapp(), json!({ "bundle": " 123 " }), Err(Fate::AppBundle));
    check_request(json!({ "bapp": [" 123"] }), json!({ "bundle": "123" }), Err(Fate::AppBundle));
    check_request(bapp(), json!({ "bundle": "COM.bad" }), OK);
    check_request(bapp(), json!({ "bundle": "com.bad.not" }), OK);
    check_request(bapp(), json!({}), OK);
}

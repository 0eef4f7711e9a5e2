//! Tests of `response`.

use units::Cpm;

use super::*;
use crate::invalid::InvalidReason;
use crate::json::DEPTH_MAX;

#[test]
fn prices_are_read_or_refused() {
    for (price, want) in [
        (r#""price":9.43,"#, Ok(9_430_000)),
        (r#""price":3.00,"#, Ok(3_000_000)),
        ("", Err(BidError::NoPrice)),
        (r#""price":null,"#, Err(BidError::NoPrice)),
        (r#""price":0,"#, Err(BidError::BadPrice)),
        (r#""price":-1,"#, Err(BidError::BadPrice)),
        (r#""price":1e300,"#, Err(BidError::BadPrice)),
        (r#""price":"1.0","#, Err(BidError::BadPrice)),
        (r#""price":0.0000001,"#, Err(BidError::BadPrice)),
    ] {
        let text = format!(r#"{{{price}"id":"1"}}"#);
        let got = parse_bid(&text).unwrap().price().map(Cpm::micros);
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn markup_is_inline_on_notice_or_preloaded() {
    for (field, inline, any) in [
        (r#""adm":"<a>""#, true, true),
        (r#""adm":"""#, false, false),
        (r#""adm":null"#, false, false),
        (r#""adm":7"#, false, false),
        (r#""adm":{}"#, false, false),
        (r#""nurl":"http://x""#, false, true),
        (r#""adid":"7""#, false, true),
        (r#""iurl":"http://x""#, false, false),
        (r#""burl":"http://x""#, false, false),
        (r#""mtype":4,"adm":{"assets":[]}"#, true, true),
        (r#""mtype":4,"adm":{ }"#, false, false),
        (r#""mtype":4,"adm":["a"]"#, false, false),
        (r#""mtype":1,"adm":{"assets":[]}"#, false, false),
        (r#""adm":{"assets":[]}"#, true, true),
    ] {
        let text = format!("{{{field}}}");
        let bid = parse_bid(&text).unwrap();
        assert_eq!((bid.markup().is_some(), bid.has_markup()), (inline, any), "{field}");
    }
}

#[test]
fn escapes_that_may_hide_something_are_resolved() {
    for (adm, want) in [
        (r#""<a href=\"x\">""#, r#""<a href=\"x\">""#),
        (r#""\u003ca href=\"x\"\u003e""#, r#"<a href="x">"#),
        (r#""""#, ""),
        (r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":"\u003c"}"#, r#"{"a":"<"}"#),
    ] {
        let text = format!(r#"{{"mtype":4,"adm":{adm}}}"#);
        let bid = parse_bid(&text).unwrap();
        assert_eq!(bid.markup_text().unwrap_or_default(), want, "{adm}");
    }
}

#[test]
fn notice_urls_are_strings_that_say_something() {
    let urls = [NoticeKind::Win, NoticeKind::Billing, NoticeKind::Loss];
    for (text, want) in [
        (r#"{"nurl":"http:\/\/n","burl":"","lurl":7}"#, [Some(r#""http:\/\/n""#), None, None]),
        (r#"{"burl":"b","lurl":"l"}"#, [None, Some(r#""b""#), Some(r#""l""#)]),
    ] {
        let bid = parse_bid(text).unwrap();
        assert_eq!(urls.map(|url| bid.notice_url(url)), want, "{text}");
    }
}

#[test]
fn a_campaign_is_text_that_says_something() {
    for (field, want) in [
        (r#""cid":"spring""#, Some("spring")),
        (r#""cid":"spr\u0069ng""#, Some("spring")),
        (r#""cid":"""#, None),
        (r#""cid":null"#, None),
        (r#""cid":7"#, None),
        (r#""cid":["spring"]"#, None),
        (r#""crid":"spring""#, None),
    ] {
        let text = format!("{{{field}}}");
        let bid = parse_bid(&text).unwrap();
        assert_eq!(bid.campaign().as_deref(), want, "{field}");
    }
}

/// What says nothing is absent, and a whole number may have a point.
#[test]
fn loose_fields_are_read_with_tolerance() {
    let body = r#"{"id":"r","cur":"","seatbid":[{"seat":"","group":1.0,"bid":[{"id":"b",
        "dealid":"","adid":"","bundle":"","language":"","langb":"","w":300.0,"h":2.5e2,
        "dur":15.0,"mtype":1.0,"attr":[1.0,2],"protocol":7.0,"apis":[5.0],"api":6.0}]}]}"#;
    let response = parse_response(body).unwrap_or_else(|invalid| panic!("{invalid}"));
    let seatbid = &response.seatbid.as_deref().unwrap()[0];
    assert!(response.cur.is_none() && seatbid.seat.is_none());
    assert_eq!(seatbid.group, Some(1));
    let bid = &seatbid.bid[0];
    let texts = [&bid.dealid, &bid.adid, &bid.bundle, &bid.language, &bid.langb];
    assert!(texts.into_iter().all(Option::is_none) && !bid.has_markup(), "{bid:?}");
    assert_eq!((bid.w, bid.h, bid.dur, bid.mtype), (Some(300), Some(250), Some(15), Some(1)));
    assert_eq!(bid.attr.as_deref(), Some(&[1, 2][..]));
    assert_eq!((bid.protocol, bid.apis.as_deref(), bid.api), (Some(7), Some(&[5][..]), Some(6)));
    let zeros = parse_bid(r#"{"dur":0,"protocol":0.0}"#).unwrap();
    assert_eq!((zeros.dur, zeros.protocol), (None, None));
    for wrong in [r#"{"w":300.5}"#, r#"{"w":-0.5}"#, r#"{"w":4294967296.0}"#, r#"{"w":1e300}"#] {
        assert!(parse_bid(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_bid_is_an_object() {
    let array = format!("[{}]", vec!["null"; 21].join(","));
    assert!(parse_bid(&array).is_err());
    let body = format!(r#"{{"seatbid":[{{"bid":[{array}]}}]}}"#);
    assert!(parse_response(&body).is_err());
    assert!(bid_texts(&body).is_ok());
}

#[test]
fn responses_and_bids_nest_only_so_deep() {
    let bid = |depth: usize| {
        format!(r#"{{"id":"1","ext":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1))
    };
    let response = |depth| format!(r#"{{"seatbid":[{{"bid":[{}]}}]}}"#, bid(depth - 4));
    for depth in [DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
        let want = if depth <= DEPTH_MAX { None } else { Some(InvalidReason::TooDeep) };
        let reason = |invalid: InvalidRequest| invalid.reason;
        assert_eq!(parse_bid(&bid(depth)).err().map(reason), want, "{depth}");
        assert_eq!(parse_response(&response(depth)).err().map(reason), want, "{depth}");
        assert_eq!(bid_texts(&response(depth)).err().map(reason), want, "{depth}");
    }
}

#[test]
fn one_bad_bid_leaves_the_others_readable() {
    let body = r#"{"id":"r","seatbid":[{"bid":[{"id":1},{"id":"2"}]}]}"#;
    assert!(parse_response(body).is_err());
    let frame = bid_texts(body).unwrap();
    let bids = &frame.seatbid.unwrap()[0].bid;
    assert!(parse_bid(bids[0].get()).is_err());
    assert_eq!(parse_bid(bids[1].get()).unwrap().id.as_deref(), Some("2"));
}

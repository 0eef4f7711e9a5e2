//! What DSPs see of protected users, and which DSPs are not asked for them.

use openrtb::OutboundView;
use serde_json::{Value, json};

use crate::asking::eligibility::eligible;
use crate::asking::not_asked::NotAsked;
use crate::fixtures::{market, request, with_auction};
use crate::market::signals::TrackingSignals;
use crate::market::targeting::UserIdNeed;

const VIEW: OutboundView<'_> = OutboundView {
    imps: !0,
    deals: !0,
    tmax: "80",
    cur: "[]",
    buyeruid: None,
    bidder: None,
    is_limited: false,
};

/// A request with all data of user and device, and `flags`.
fn told(flags: &str) -> String {
    let [regs, lmt, dnt] = ["coppa", "lmt", "dnt"].map(|flag| u8::from(flag == flags));
    let ids = ["didsha1", "didmd5", "dpidsha1", "dpidmd5", "macsha1", "macmd5"];
    let mut device = json!({
        "ifa": "secret-ifa", "ip": "203.0.113.77", "ipv6": "2001:db8:1:2:3:4:5:6", "ua": "x",
        "lmt": lmt, "dnt": dnt, "ext": { "ifv": "secret-ifv", "IDFV": "secret-idfv", "atts": 3 },
        "geo": { "lat": 52.520008, "lon": -13.404954, "country": "DEU", "zip": "secret-zip" },
    });
    for id in ids {
        device[id] = format!("secret-{id}").into();
    }
    let user = json!({
        "id": "secret-id", "buyeruid": "secret-buyer", "customdata": "secret-data",
        "eids": [{ "source": "s", "uids": [{ "id": "secret-eid" }] }],
        "yob": 2015, "gender": "F", "keywords": "toys", "kwarray": ["toys"],
        "data": [{ "id": "segments" }], "consent": "CO",
        "geo": { "lat": 1.234567, "lon": 2.345678 },
        "ext": { "eids": [{ "source": "s", "uids": [{ "id": "secret-eid2" }] }],
            "buyeruids": { "alpha": "secret-alpha" }, "consent": "CE",
            "prebid": { "buyeruids": { "beta": "secret-beta" } }, "data": { "k": "segments" } },
    });
    request(json!({ "user": user, "device": device, "regs": { "coppa": regs } }))
}

fn seen(body: &str, signals: TrackingSignals) -> (Value, String, bool) {
    let mut market = market();
    market.dsps[0].privacy = signals;
    let (text, is_limited) = with_auction(&market, body, |auction| {
        let is_limited = auction.is_limited(0);
        let buyeruid = Some("\"b\"").filter(|_| !is_limited);
        let view = OutboundView { is_limited, buyeruid, ..VIEW };
        (crate::asking::outbound::outbound(auction, body).to_text(&view), is_limited)
    });
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (json, text, is_limited)
}

const USUAL: TrackingSignals = TrackingSignals { lmt: true, dnt: false };
const NEVER: TrackingSignals = TrackingSignals { lmt: false, dnt: false };
const BOTH: TrackingSignals = TrackingSignals { lmt: true, dnt: true };

#[test]
fn flags_limit_what_is_configured_and_coppa_always() {
    assert_eq!(TrackingSignals::default(), USUAL);
    for (flag, signals, want) in [
        ("", BOTH, false),
        ("lmt", USUAL, true),
        ("lmt", NEVER, false),
        ("dnt", USUAL, false),
        ("dnt", BOTH, true),
        ("coppa", USUAL, true),
        ("coppa", NEVER, true),
    ] {
        let (_, text, is_limited) = seen(&told(flag), signals);
        assert_eq!(is_limited, want, "{flag} {signals:?}");
        // One buyer's id is never for others, whatever the flags.
        let others = ["secret-buyer", "secret-alpha", "secret-beta"];
        assert!(others.iter().all(|id| !text.contains(id)), "{text}");
        assert_eq!(text.contains("secret-"), !want, "{text}");
        assert_eq!(text.contains(r#""buyeruid":"b""#), !want, "{text}");
    }
}

#[test]
fn limited_requests_keep_a_network_a_rough_place_and_consent() {
    let (json, ..) = seen(&told("lmt"), USUAL);
    let device = &json["device"];
    assert_eq!((&device["ip"], &device["ipv6"]), (&"203.0.113.0".into(), &"2001:db8:1::".into()));
    assert_eq!(device["geo"], json!({ "lat": 52.52, "lon": -13.40, "country": "DEU" }));
    assert_eq!((&device["ua"], &device["ext"]), (&"x".into(), &json!({ "atts": 3 })));
    let user = json!({
        "yob": 2015, "gender": "F", "keywords": "toys", "kwarray": ["toys"],
        "data": [{ "id": "segments" }], "consent": "CO", "geo": { "lat": 1.23, "lon": 2.34 },
        "ext": { "consent": "CE", "prebid": {}, "data": { "k": "segments" } },
    });
    assert_eq!(json["user"], user);
}

#[test]
fn of_a_child_no_profile_and_no_coordinates_go_out() {
    let (json, ..) = seen(&told("coppa"), NEVER);
    assert_eq!(json["device"]["geo"], json!({ "country": "DEU" }));
    assert_eq!(json["device"]["ip"], "203.0.113.0");
    let user = json!({ "consent": "CO", "geo": {}, "ext": { "consent": "CE" } });
    assert_eq!(json["user"], user);
}

/// Objects in any order, and values that are not objects.
#[test]
fn whatever_stands_in_the_place_of_user_and_device() {
    let coppa = |rest: &str| {
        format!(r#" {{"regs":{{"coppa":1}},{rest},"id":"r","imp":[{{"id":"1","banner":{{}}}}]}}"#)
    };
    for (rest, user, device) in [
        (r#""user":null,"device":null"#, Value::Null, Value::Null),
        (r#""device":{"ifa":"i"},"user":{"id":"u"}"#, json!({}), json!({})),
        (r#""us\u0065r":{"\u0069d":"u","yob" : 1 , "x":1}"#, json!({ "x": 1 }), Value::Null),
    ] {
        let (json, ..) = seen(&coppa(rest), NEVER);
        assert_eq!((&json["user"], &json["device"]), (&user, &device), "{rest}");
    }
}

#[test]
fn a_dsp_that_needs_a_user_id_is_not_asked_where_it_would_see_none() {
    let mut market = market();
    market.dsps[0].targeting.user_id = UserIdNeed::Required;
    market.dsps[1].targeting.user_id = UserIdNeed::Required;
    market.dsps[1].privacy = NEVER;
    let asked = |body: &str| {
        with_auction(&market, body, |auction| [0, 1].map(|dsp| eligible(auction, dsp).err()))
    };
    assert_eq!(asked(&told("")), [None, None]);
    assert_eq!(asked(&told("lmt")), [Some(NotAsked::UserId), None]);
    assert_eq!(asked(&told("coppa")), [Some(NotAsked::UserId); 2]);
}

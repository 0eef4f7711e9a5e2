//! What players support, for video and audio.

use openrtb::{parse_bid, parse_request};
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{bid, merged, request};

#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
#[track_caller]
fn check(says: Value, of_bid: Value, want: Result<(), Fate>) {
    for (key, format) in [("video", MediaType::Video), ("audio", MediaType::Audio)] {
        let own = merged(&json!({ "mimes": ["m"] }), &says);
        let body = request(json!({ "imp": [{ "id": "1", key: own }] }));
        let request = parse_request(&body).unwrap();
        let text = bid(of_bid.clone()).to_string();
        let bid = parse_bid(&text).unwrap();
        assert_eq!(check_playback(&request.imps()[0], format, &bid), want, "{body} {text}");
        let other = check_playback(&request.imps()[0], MediaType::Banner, &bid);
        assert_eq!(other, Ok(()));
    }
}

const OK: Result<(), Fate> = Ok(());

#[test]
fn durations() {
    let wrong = Err(Fate::Duration);
    for (says, dur, want) in [
        (json!({}), json!(600), OK),
        (json!({ "maxduration": 30 }), json!(30), OK),
        (json!({ "maxduration": 30 }), json!(31), wrong),
        (json!({ "maxduration": 30 }), json!(60), wrong),
        (json!({ "maxduration": 30 }), Value::Null, OK),
        (json!({ "maxduration": 30 }), json!(0), OK),
        (json!({ "minduration": 5 }), json!(5), OK),
        (json!({ "minduration": 5 }), json!(4), wrong),
        (json!({ "maxduration": 30, "maxextended": 0 }), json!(31), wrong),
        (json!({ "maxduration": 30, "maxextended": 30 }), json!(60), OK),
        (json!({ "maxduration": 30, "maxextended": 30 }), json!(61), wrong),
        (json!({ "maxduration": 30, "maxextended": -1 }), json!(600), OK),
        (json!({ "maxduration": 30, "maxextended": i64::MAX }), json!(600), OK),
        (json!({ "maxextended": 30 }), json!(600), OK),
        (json!({ "rqddurs": [15, 30] }), json!(15), OK),
        (json!({ "rqddurs": [15, 30] }), json!(20), wrong),
        (json!({ "rqddurs": [] }), json!(20), OK),
        (json!({ "rqddurs": [15, 30] }), Value::Null, OK),
        (json!({ "poddur": 60 }), json!(60), OK),
        (json!({ "poddur": 60 }), json!(61), wrong),
        (json!({ "poddur": 60, "maxduration": 30, "maxextended": -1 }), json!(61), wrong),
        (json!({ "poddur": 0 }), json!(61), OK),
        (json!({ "maxduration": 0 }), json!(61), OK),
        (json!({ "maxduration": 0, "maxextended": 30 }), json!(61), OK),
        (json!({ "maxduration": 0, "poddur": 60 }), json!(61), wrong),
    ] {
        check(says, json!({ "dur": dur }), want);
    }
}

#[test]
fn protocols() {
    let wrong = Err(Fate::Protocol);
    for (says, protocol, want) in [
        (json!({}), json!(2), OK),
        (json!({ "protocols": [] }), json!(2), OK),
        (json!({ "protocols": [2, 5] }), json!(5), OK),
        (json!({ "protocols": [2, 5] }), json!(7), wrong),
        (json!({ "protocols": [2, 5] }), Value::Null, OK),
        (json!({ "protocols": [2, 5] }), json!(0), OK),
    ] {
        check(says, json!({ "protocol": protocol }), want);
    }
}

#[test]
fn one_framework_that_the_player_has_is_enough() {
    let wrong = Err(Fate::Api);
    for (says, told, want) in [
        (json!({}), json!({ "apis": [7] }), OK),
        (json!({ "api": [] }), json!({ "apis": [7] }), OK),
        (json!({ "api": [1, 2] }), json!({ "apis": [7, 2] }), OK),
        (json!({ "api": [1, 2] }), json!({ "apis": [7] }), wrong),
        (json!({ "api": [1, 2] }), json!({ "api": 7 }), wrong),
        (json!({ "api": [1, 2] }), json!({ "api": 2 }), OK),
        (json!({ "api": [1, 2] }), json!({ "apis": [] }), OK),
        (json!({ "api": [1, 2] }), json!({ "apis": [0], "api": 0 }), OK),
        (json!({ "api": [1, 2] }), json!({ "apis": [0, 7], "api": 0 }), wrong),
        (json!({ "api": [1, 2] }), json!({}), OK),
    ] {
        check(says, told, want);
    }
    for (key, format) in [("banner", MediaType::Banner), ("native", MediaType::Native)] {
        let body = request(json!({ "imp": [{ "id": "1", key: { "request": "{}", "api": [5] } }] }));
        let request = parse_request(&body).unwrap();
        for (api, want) in [(5, OK), (6, wrong)] {
            let text = bid(json!({ "apis": [api] })).to_string();
            let bid = parse_bid(&text).unwrap();
            assert_eq!(check_playback(&request.imps()[0], format, &bid), want, "{key} {api}");
        }
    }
}

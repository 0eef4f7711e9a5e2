//! Answers are valid OpenRTB, repeatable, and follow the profile.

use serde_json::Value;

use super::*;
use crate::draws::PPM;
use crate::dsp::{LatencySpread, PriceSpread};
use crate::traffic::{Traffic, TrafficOptions};

fn bidder(edit: impl FnOnce(&mut DspProfile)) -> SimulatedBidder {
    let mut profile = DspProfile { no_bid_ppm: 0, ..DspProfile::default() };
    edit(&mut profile);
    assert_eq!(profile.problem(), None);
    SimulatedBidder::new(profile, 3, "http://127.0.0.1:1".to_owned())
}

fn answer(bidder: &mut SimulatedBidder, request: &[u8]) -> (AnswerSummary, Vec<u8>) {
    let mut out = Vec::new();
    let answered = bidder.answer(request, &mut out);
    (answered, out)
}

/// The body of an answer with a content length.
fn body_of(answer: &[u8]) -> &[u8] {
    let text = std::str::from_utf8(answer).expect("ASCII");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body.as_bytes()
}

fn bids_of(bidder: &mut SimulatedBidder, request: &str) -> Vec<Value> {
    let (_, out) = answer(bidder, request.as_bytes());
    let response: Value = serde_json::from_slice(body_of(&out)).expect("JSON");
    response["seatbid"][0]["bid"].as_array().expect("bids").clone()
}

#[test]
fn bids_fit_every_kind_of_generated_request() {
    let mut bidder = bidder(|profile| profile.notices = true);
    let options = TrafficOptions { multi_imp_ppm: 500_000, ..TrafficOptions::default() };
    let mut traffic = Traffic::generated(&options).expect("valid options");
    let (mut body, mut on_deals) = (Vec::new(), 0);
    for _ in 0..1_000 {
        let id = traffic.next(&mut body);
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        let (answered, out) = answer(&mut bidder, &body);
        let response: Value = serde_json::from_slice(body_of(&out)).expect("JSON");
        assert_eq!(response["id"], id.as_str());
        assert_eq!(
            (&response["cur"], &response["seatbid"][0]["seat"]),
            (&"USD".into(), &"seat-3".into())
        );
        let imps = request["imp"].as_array().expect("impressions");
        let bids = response["seatbid"][0]["bid"].as_array().expect("bids");
        assert_eq!(answered.outcome, BidOutcome::Bids(imps.len()));
        for (imp, bid) in imps.iter().zip(bids) {
            check_bid(imp, bid);
            on_deals += usize::from(!bid["dealid"].is_null());
        }
    }
    assert!(on_deals > 50, "{on_deals}");
}

#[test]
fn notices_of_loss_can_be_left_out() {
    let request = br#"{"id":"a","imp":[{"id":"1","banner":{"w":1,"h":2}}]}"#;
    for loss_notices in [true, false] {
        let mut bidder = bidder(|profile| {
            (profile.notices, profile.loss_notices) = (true, loss_notices);
        });
        let bids = bids_of(&mut bidder, std::str::from_utf8(request).expect("ASCII"));
        assert!(bids[0]["nurl"].is_string() && bids[0]["burl"].is_string());
        assert_eq!(bids[0]["lurl"].is_string(), loss_notices);
    }
}

fn check_bid(imp: &Value, bid: &Value) {
    assert_eq!(bid["impid"], imp["id"]);
    assert!(bid["price"].as_f64().is_some_and(|price| price > 0.0));
    for key in ["id", "crid", "cid", "adm", "nurl", "burl", "lurl"] {
        assert!(bid[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {bid}");
    }
    assert!(bid["adomain"][0].is_string() && bid["cat"][0].is_string());
    let adm = bid["adm"].as_str().expect("markup");
    if !imp["banner"].is_null() {
        assert_eq!((&bid["w"], &bid["h"]), (&imp["banner"]["w"], &imp["banner"]["h"]));
        assert!(bid["mtype"] == 1 && adm.starts_with("<a href='https://"));
    } else if !imp["video"].is_null() {
        assert!(bid["mtype"] == 2 && adm.starts_with("<VAST") && adm.ends_with("</VAST>"));
    } else if !imp["audio"].is_null() {
        assert!(bid["mtype"] == 3 && adm.contains("audio/mp4"));
    } else {
        let native: Value = serde_json::from_str(adm).expect("native markup is JSON");
        assert!(bid["mtype"] == 4 && native["native"]["assets"][0]["title"].is_object());
    }
    if let Some(deal) = bid["dealid"].as_str() {
        let deals = imp["pmp"]["deals"].as_array().expect("deals");
        assert!(deals.iter().any(|offered| offered["id"] == deal));
    }
}

/// A plain HTTP tracker would make the bid lose on a secure impression.
#[test]
fn secure_impressions_get_no_plain_tracker() {
    let request = |secure: &str| {
        let offers = [
            r#""banner":{"w":300,"h":250}"#,
            r#""video":{"mimes":["video/mp4"]}"#,
            r#""audio":{"mimes":["audio/mp4"]}"#,
            r#""native":{"request":"{}"}"#,
        ];
        let imps = offers.map(|offer| format!(r#"{{"id":"1",{offer}{secure}}}"#));
        format!(r#"{{"id":"a","imp":[{}]}}"#, imps.join(","))
    };
    for (origin, secure, want) in [
        ("http://127.0.0.1:1", "", true),
        ("http://127.0.0.1:1", r#","secure":0"#, true),
        ("http://127.0.0.1:1", r#","secure":1"#, false),
        ("https://127.0.0.1:1", r#","secure":1"#, true),
    ] {
        let profile = DspProfile { no_bid_ppm: 0, notices: true, ..DspProfile::default() };
        let mut bidder = SimulatedBidder::new(profile, 3, origin.to_owned());
        let bids = bids_of(&mut bidder, &request(secure));
        assert_eq!(bids.len(), 4);
        for bid in bids {
            let adm = bid["adm"].as_str().expect("markup");
            let tracker = format!("{origin}/view?");
            assert_eq!(adm.contains(&tracker), want, "{origin} {secure} {adm}");
            assert!(bid["burl"].as_str().expect("a notice").starts_with(origin));
        }
    }
}

#[test]
fn an_answer_depends_on_profile_place_and_request_alone() {
    let noisy = |profile: &mut DspProfile| {
        profile.no_bid_ppm = 500_000;
        profile.chunked_ppm = 500_000;
        profile.latency.p99 = Duration::from_millis(20);
        profile.latency.median = Duration::from_millis(5);
        profile.late_ppm = 100_000;
    };
    let run = |bidder: &mut SimulatedBidder, reversed: bool| {
        let (mut traffic, mut body) = (Traffic::reference(), Vec::new());
        let mut requests: Vec<Vec<u8>> = (0..200)
            .map(|_| {
                traffic.next(&mut body);
                body.clone()
            })
            .collect();
        if reversed {
            requests.reverse();
        }
        let mut answers: Vec<_> = requests.iter().map(|r| answer(bidder, r)).collect();
        if reversed {
            answers.reverse();
        }
        answers
    };
    let want = run(&mut bidder(noisy), false);
    assert_eq!(run(&mut bidder(noisy), true), want);
    let mut profile = bidder(noisy).profile;
    assert_ne!(run(&mut SimulatedBidder::new(profile.clone(), 4, String::new()), false), want);
    profile.seed += 1;
    assert_ne!(run(&mut SimulatedBidder::new(profile, 3, String::new()), false), want);
    let late = want.iter().filter(|(answered, _)| answered.late).count();
    assert!((5..40).contains(&late), "{late}");
    let no_bids = want.iter().filter(|(a, _)| a.outcome == BidOutcome::NoBid).count();
    assert!((70..130).contains(&no_bids), "{no_bids}");
}

const BANNER: &str = r#"{"id":"a","imp":[{"id":"1","bidfloor":5,"banner":{"w":300,"h":250}}]}"#;

#[test]
fn a_bid_is_padded_to_its_size_and_never_cut() {
    for format in ["banner", "video", "audio", "native"] {
        let request = format!(r#"{{"id":"a","imp":[{{"id":"1","{format}":{{}}}}]}}"#);
        for bytes in [1_000, 1_001, 5_000] {
            let (_, out) =
                answer(&mut bidder(|profile| profile.bid_bytes = bytes), request.as_bytes());
            let text = std::str::from_utf8(body_of(&out)).expect("ASCII");
            let bid = text.split_once("\"bid\":[").expect("bids").1;
            assert_eq!(bid.len() - "]}]}".len(), bytes, "{format}");
        }
        let small = bids_of(&mut bidder(|profile| profile.bid_bytes = 0), &request);
        assert!(small[0]["adm"].is_string());
    }
}

#[test]
fn prices_meet_the_floor_as_often_as_asked() {
    let flat =
        PriceSpread { median_micros: 1_250_000, sigma: 0.0, min_micros: 0, max_micros: 9_000_000 };
    let price = |above_floor_ppm, request: &str| {
        let mut bidder = bidder(|profile| {
            profile.price = flat;
            profile.above_floor_ppm = above_floor_ppm;
            profile.deal_ppm = 1_000_000;
        });
        bids_of(&mut bidder, request)[0]["price"].as_f64().expect("a number")
    };
    assert_eq!(price(0, BANNER), 1.25);
    assert!((5.0..=6.25 + 1e-6).contains(&price(1_000_000, BANNER)));
    let on_deal =
        BANNER.replace("\"bidfloor\"", r#""pmp":{"deals":[{"id":"d","bidfloor":0}]},"bidfloor""#);
    assert_eq!(price(1_000_000, &on_deal), 1.25); // The deal's own floor, even if 0.
    let huge = BANNER.replace('5', "18446744073709.551615");
    assert!(price(1_000_000, &huge.replace("250", "1")) > 1e13);
}

#[test]
fn latency_lateness_and_number_of_bids_follow_the_profile() {
    let many = format!(r#"{{"id":"a","imp":[{}]}}"#, [r#"{"id":"1","banner":{}}"#; 10].join(","));
    assert_eq!(bids_of(&mut bidder(|profile| profile.bids_max = 3), &many).len(), 3);
    let delay = |bidder: &mut SimulatedBidder| answer(bidder, BANNER.as_bytes()).0;
    assert_eq!(delay(&mut bidder(|_| ())).delay, Duration::ZERO);
    let ms = Duration::from_millis;
    let slow = delay(&mut bidder(|profile| profile.latency = LatencySpread::constant(ms(7))));
    assert_eq!((slow.delay, slow.late), (ms(7), false));
    let late = delay(&mut bidder(|profile| (profile.late_ppm, profile.late_by) = (PPM, ms(900))));
    assert_eq!((late.delay, late.late), (ms(900), true));
    let silent = answer(&mut bidder(|profile| profile.no_bid_ppm = PPM), BANNER.as_bytes());
    assert_eq!(silent.0.outcome, BidOutcome::NoBid);
    assert_eq!(silent.1, NO_CONTENT);
}

#[test]
fn chunks_join_to_the_body() {
    let (_, whole) = answer(&mut bidder(|_| ()), BANNER.as_bytes());
    let (_, chunked) = answer(&mut bidder(|profile| profile.chunked_ppm = PPM), BANNER.as_bytes());
    let (head, mut rest) =
        std::str::from_utf8(&chunked).expect("ASCII").split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Transfer-Encoding: chunked") && !head.contains("Content-Length"));
    let mut joined = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n").expect("a chunk");
        let length = usize::from_str_radix(length, 16).expect("hexadecimal");
        if length == 0 {
            assert_eq!(after, "\r\n");
            break;
        }
        joined.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").expect("the chunk's end");
    }
    assert_eq!(joined.as_bytes(), body_of(&whole));
    for split in [0, 1, 4] {
        let mut out = Vec::new();
        write_chunked(b"abcde", split, &mut out);
        let sizes = out.windows(2).filter(|pair| pair == b"\r\n").count();
        // Four lines of head, two for each chunk, the last chunk's two.
        assert_eq!(sizes, 6 + if split == 0 { 2 } else { 4 }, "{split}");
    }
}

#[test]
fn what_is_no_request_is_answered_400_without_a_trace() {
    for request in ["", "{}", "[]", r#"{"id":7}"#, r#"{"id":"a"}"#, r#"{"id":"a","imp":[{"id":"1""#]
    {
        let mut out = b"before".to_vec();
        let answered = bidder(|_| ()).answer(request.as_bytes(), &mut out);
        assert_eq!(answered.outcome, BidOutcome::Malformed, "{request}");
        assert_eq!(out, [b"before", BAD_REQUEST].concat(), "{request}");
    }
    let (none, out) = answer(&mut bidder(|_| ()), br#"{"id":"a","imp":[]}"#);
    assert_eq!((none.outcome, out.as_slice()), (BidOutcome::NoBid, NO_CONTENT));
}

#[test]
fn micros_are_written_shortest() {
    for (micros, want) in
        [(0, "0"), (1, "0.000001"), (1_250_000, "1.25"), (3_000_000, "3"), (10_050_000, "10.05")]
    {
        let mut out = Vec::new();
        write_micros(micros, &mut out);
        assert_eq!(out, want.as_bytes());
    }
}

//! Faulty answers are a function of profile, index and request, and have exactly the requested
//! fault.

use super::*;
use crate::dsp::{ACTS, DspAct, DspBehaviour, DspProfile, parse_profiles};
use crate::server::script::ScriptStep;
use crate::server::{DripFrom, HttpMethod};

const REQUEST: &[u8] = br#"{"id":"a","imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#;

fn bidder() -> SimulatedBidder {
    let profile = DspProfile { no_bid_ppm: 0, ..DspProfile::default() };
    SimulatedBidder::new(profile, 3, "http://127.0.0.1:1".to_owned())
}

fn asked(
    bidder: &mut SimulatedBidder,
    behaviour: &DspBehaviour,
    body: &[u8],
) -> Option<(AnswerSummary, Script)> {
    let misbehaviour = Misbehaviour::of(behaviour)?;
    let (method, length, target) = (HttpMethod::Post, body.len(), "/bid");
    let fields = &b"accept-encoding: gzip\r\n"[..];
    let request = ServerRequest {
        method,
        target,
        fields,
        body,
        length,
        keep_alive: true,
        accepts_gzip: true,
    };
    bidder.misbehave(&misbehaviour, &request)
}

/// Every kind, with its defaults.
fn behaviours() -> Vec<DspBehaviour> {
    let behaviour = |name: &str| {
        let text = format!("[[dsp]]\n[[dsp.phase]]\nkind = \"{name}\"\n");
        let profiles = parse_profiles("test", &text).expect("a kind needs no knobs");
        profiles[0].schedule.phases[0].behaviour.clone()
    };
    ACTS.iter().map(|act| behaviour(act.name)).collect()
}

#[test]
fn every_kind_does_the_same_with_the_same_request() {
    let mut used = bidder();
    for behaviour in behaviours() {
        let text = |bidder: &mut SimulatedBidder| {
            let asked = asked(bidder, &behaviour, REQUEST);
            asked.map(|(answered, script)| (answered, format!("{script:?}")))
        };
        let passive = matches!(behaviour.act, DspAct::Healthy | DspAct::Refused);
        let first = text(&mut bidder());
        assert_eq!(first.is_none(), passive, "{behaviour:?}");
        assert_eq!(first, text(&mut used), "{behaviour:?}");
    }
}

#[test]
fn no_kind_falls_on_what_is_no_request() {
    for behaviour in behaviours() {
        for body in [&b""[..], b"{}", b"[]", br#"{"id":7}"#] {
            assert!(asked(&mut bidder(), &behaviour, body).is_none(), "{behaviour:?}");
        }
        // Without a readable impression there is nothing to bid on, under any behaviour.
        for body in [&br#"{"id":"a","imp":[]}"#[..], br#"{"id":"a","imp":[{"id":"1""#] {
            drop(asked(&mut bidder(), &behaviour, body));
        }
    }
}

#[test]
fn a_huge_answer_declares_what_it_sends_even_when_it_is_small() {
    for bytes in [0, 1, 100, 1_000_000] {
        let behaviour = BidFault::Huge { bytes: Some(bytes) }.into();
        let (_, mut script) = asked(&mut bidder(), &behaviour, REQUEST).expect("sick");
        let mut out = Vec::new();
        while script.next(&mut out) == ScriptStep::Send {}
        let text = String::from_utf8(out).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{bytes}: {head}");
        assert!(body.len() as u64 == bytes || body.len() < 100, "{bytes}");
        serde_json::from_str::<serde_json::Value>(body).expect("JSON");
    }
}

#[test]
fn who_is_never_to_bid_bids_where_a_bid_is_spoilt() {
    let silent = || {
        let profile = DspProfile { no_bid_ppm: 1_000_000, ..DspProfile::default() };
        SimulatedBidder::new(profile, 3, "http://127.0.0.1:1".to_owned())
    };
    let bids = |act: DspAct| {
        let (_, script) = asked(&mut silent(), &act.into(), REQUEST).expect("sick");
        String::from_utf8_lossy(&script.bytes).contains("seatbid")
    };
    let ms = Duration::from_millis;
    assert!(bids(BidFault::WrongId.into()));
    assert!(bids(DspAct::Chunked { bytes: 10_000 }));
    assert!(bids(DspAct::Trickle { bytes: 1, every: ms(1), from: DripFrom::Head }));
    assert!(!bids(DspAct::Late { by: ms(1) }));
    assert!(!bids(DspAct::Closing { announced: true }));
    assert!(!bids(DspAct::Interim { code: 103, count: Some(2) }));
}

//! Every fault of a DSP, as a raw client sees it.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::Value;
use testbed::dsp::{BidFault, DspAct, DspBehaviour, DspProfile, Fleet, Garble};
use testbed::server::{Cut, DripFrom};

use super::fixture::{
    BODY, answer, ask, assert_bid, assert_closed, assert_silent, bidding, connect, field, fleet_of,
    head, post, raw_answer, sick, status_of, until,
};

const MINUTE: Duration = Duration::from_secs(60);

/// The answer of a healthy DSP, byte for byte.
fn healthy_answer(id: &str) -> Vec<u8> {
    let fleet = fleet_of(bidding());
    let mut stream = connect(&fleet);
    ask(&mut stream, id);
    let (head, body) = raw_answer(&mut stream);
    [head.as_bytes(), &body].concat()
}

/// One request on a fresh connection.
fn asked(fleet: &Fleet) -> TcpStream {
    let mut stream = connect(fleet);
    ask(&mut stream, "req-1");
    stream
}

/// Sends another request once the DSP is well: the connection has survived.
fn assert_goes_on(fleet: &Fleet, stream: &mut TcpStream) {
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    ask(stream, "req-2");
    assert_bid(answer(stream), "req-2");
}

fn inflated(zip: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    GzDecoder::new(zip).read_to_end(&mut body).map(|_| body)
}

#[test]
fn a_status_has_its_body_and_the_connection_goes_on() {
    for (code, body) in [(503, "overloaded"), (500, ""), (404, "x"), (204, ""), (200, "{}")] {
        let fleet = sick(DspAct::Status { code, body: body.to_owned() });
        let mut stream = asked(&fleet);
        let (head, text) = raw_answer(&mut stream);
        assert_eq!((status_of(&head), text.as_slice()), (code, body.as_bytes()));
        assert_eq!(field(&head, "content-length").is_some(), code != 204, "{head}");
        let total = fleet.stats().total();
        assert_eq!((total.requests, total.misbehaved, total.bid_answers), (1, 1, 0));
        assert_goes_on(&fleet, &mut stream);
    }
}

#[test]
fn who_hangs_reads_everything_answers_nothing_and_lets_go() {
    let fleet = sick(DspAct::Hang);
    let mut hung = asked(&fleet);
    until(&fleet, "asked", |stats| stats.misbehaved == 1);
    // Others are served meanwhile. The hung request stays so even when the DSP is well again.
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    let mut other = asked(&fleet);
    assert_bid(answer(&mut other), "req-1");
    assert_silent(&mut hung);
    assert_eq!(fleet.stats().total().connections_open, 2);
    drop(hung);
    until(&fleet, "let go", |stats| stats.connections_open == 1);
}

#[test]
fn a_trickle_ends_in_the_answer() {
    for (bytes, from) in [(1, DripFrom::Body), (7, DripFrom::Body), (200, DripFrom::Head)] {
        let fleet = sick(DspAct::Trickle { bytes, every: Duration::from_millis(1), from });
        let mut stream = asked(&fleet);
        let (head, body) = raw_answer(&mut stream);
        assert_eq!([head.as_bytes(), &body].concat(), healthy_answer("req-1"));
        assert_goes_on(&fleet, &mut stream);
        assert_eq!(fleet.stats().total().bids, 2);
    }
}

#[test]
fn a_trickle_sends_so_much_and_then_pauses() {
    let check = |from: DripFrom, first: &dyn Fn(&[u8]) -> usize| {
        let fleet = sick(DspAct::Trickle { bytes: 5, every: MINUTE, from });
        let mut stream = asked(&fleet);
        let whole = healthy_answer("req-1");
        let mut piece = vec![0; first(&whole)];
        stream.read_exact(&mut piece).expect("the first piece");
        assert_eq!(piece, whole[..piece.len()]);
        assert_silent(&mut stream);
    };
    check(DripFrom::Head, &|_| 5);
    check(DripFrom::Body, &|whole| {
        whole.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4
    });
}

/// What is received of an answer that is cut there.
fn assert_cut(at: Cut, got: &[u8]) {
    let whole = healthy_answer("req-1");
    assert_eq!(got, &whole[..got.len()], "{at:?}");
    let has_head = got.windows(4).any(|four| four == b"\r\n\r\n");
    match at {
        Cut::Before => assert!(got.is_empty()),
        Cut::Head => assert!(!got.is_empty() && !has_head),
        Cut::Body => assert!(has_head && got.len() < whole.len() && !got.ends_with(b"\r\n\r\n")),
    }
}

#[test]
fn a_close_comes_before_in_the_head_or_in_the_body() {
    for at in [Cut::Before, Cut::Head, Cut::Body] {
        let fleet = sick(DspAct::Close { at });
        let mut got = Vec::new();
        asked(&fleet).read_to_end(&mut got).expect("an orderly end");
        assert_cut(at, &got);
        until(&fleet, "closed", |stats| stats.connections_open == 0);
    }
}

#[test]
fn a_reset_comes_before_in_the_head_or_in_the_body() {
    for at in [Cut::Before, Cut::Head, Cut::Body] {
        let fleet = sick(DspAct::Reset { at });
        let mut got = Vec::new();
        let error = asked(&fleet).read_to_end(&mut got).expect_err("no orderly end");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert_cut(at, &got);
        until(&fleet, "closed", |stats| stats.connections_open == 0);
    }
}

#[test]
fn garbage_is_no_http() {
    let fleet = sick(DspAct::Garbage);
    let mut seen = BTreeSet::new();
    for n in 0..20 {
        let mut stream = connect(&fleet);
        ask(&mut stream, &format!("req-{n}"));
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("an orderly end");
        assert!(!got.is_empty() && !got.starts_with(b"H"), "{got:?}");
        seen.insert(got);
    }
    assert_eq!(seen.len(), 20, "drawn by request");
}

#[test]
fn malformed_bodies_are_no_responses_in_every_way() {
    let is_response = |body: &[u8]| {
        let parsed = serde_json::from_slice::<Value>(body).ok();
        parsed.is_some_and(|value| value["seatbid"].is_array())
    };
    let mut bodies = BTreeSet::new();
    for how in Garble::ALL {
        let fleet = sick(BidFault::Malformed { how: Some(how) });
        let mut stream = asked(&fleet);
        let (head, body) = raw_answer(&mut stream);
        assert_eq!(status_of(&head), 200);
        assert!(!is_response(&body), "{how:?}: {}", String::from_utf8_lossy(&body));
        assert_goes_on(&fleet, &mut stream);
        bodies.insert(body);
    }
    assert_eq!(bodies.len(), Garble::ALL.len());
    // Without a kind, each request draws its own.
    let drawn = || {
        let fleet = sick(BidFault::Malformed { how: None });
        let mut stream = connect(&fleet);
        let ids = (0..40).map(|n| format!("req-{n}"));
        let bodies = ids.map(|id| {
            ask(&mut stream, &id);
            raw_answer(&mut stream).1
        });
        bodies.collect::<Vec<_>>()
    };
    let first = drawn();
    assert_eq!(first, drawn(), "whenever it is asked");
    assert!(first.iter().all(|body| !is_response(body)));
    let is_html = |body: &Vec<u8>| body.starts_with(b"<");
    assert!(first.iter().any(Vec::is_empty) && first.iter().any(is_html));
}

#[test]
fn a_huge_answer_is_as_long_as_it_says() {
    let bytes = 3 * 1024 * 1024 + 1;
    let fleet = sick(BidFault::Huge { bytes: Some(bytes) });
    let mut stream = asked(&fleet);
    let (_, body) = raw_answer(&mut stream);
    assert_eq!(body.len() as u64, bytes);
    let response: Value = serde_json::from_slice(&body).expect("JSON to its end");
    assert_eq!(response["id"], "req-1");
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn an_endless_answer_starves_nobody_and_ends_with_its_reader() {
    let fleet = sick(BidFault::Huge { bytes: None });
    let mut endless = asked(&fleet);
    let head = head(&mut endless);
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    let mut much = vec![0; 8 * 1024 * 1024];
    endless.read_exact(&mut much).expect("more and more");
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    // A client that reads nothing is left behind, too.
    let mut other = asked(&fleet);
    assert_bid(answer(&mut other), "req-1");
    let reader = std::thread::spawn(move || {
        endless.read_exact(&mut much).expect("still more");
    });
    for _ in 0..20 {
        ask(&mut other, "req-2");
        assert_bid(answer(&mut other), "req-2");
    }
    reader.join().expect("read");
    until(&fleet, "ended", |stats| stats.connections_open == 1);
}

#[test]
fn a_deep_answer_is_as_deep_as_it_says() {
    let fleet = sick(BidFault::Deep { levels: 100_000 });
    let mut stream = asked(&fleet);
    let (_, body) = answer(&mut stream);
    assert_eq!(body.matches('[').count(), 100_000);
    assert_eq!(body.matches(']').count(), 100_000);
    assert!(body.starts_with("{\"id\":\"req-1\"") && body.ends_with("]}"));
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn lies_are_told_in_their_place_and_nowhere_else() {
    // The markup is removed: its padding compensates for the longer lie.
    let parsed = |body: &str| -> Value {
        let mut response: Value = serde_json::from_str(body).expect("JSON");
        response["seatbid"][0]["bid"][0]["adm"] = Value::Null;
        response
    };
    let response = |act: DspAct| parsed(&answer(&mut asked(&sick(act))).1);
    let whole = String::from_utf8(healthy_answer("req-1")).expect("UTF-8");
    let honest = parsed(whole.split_once("\r\n\r\n").expect("a body").1);
    let check = |act: BidFault, pointer: &str, want: &str| {
        let mut lie = response(act.into());
        let place = lie.pointer_mut(pointer).expect("a place for the lie");
        assert_eq!(*place, want);
        *place = honest.pointer(pointer).expect("the same place").clone();
        assert_eq!(lie, honest);
    };
    check(BidFault::WrongId, "/id", "not-req-1");
    check(BidFault::WrongImp, "/seatbid/0/bid/0/impid", "not-imp-1");
    check(BidFault::WrongCurrency { code: "XTS".to_owned() }, "/cur", "XTS");
}

#[test]
fn late_answers_are_the_same_but_late() {
    let fleet = sick(DspAct::Late { by: Duration::from_millis(5) });
    let mut stream = asked(&fleet);
    assert_bid(answer(&mut stream), "req-1");
    fleet.set_behaviour(0, DspAct::Late { by: MINUTE }).expect("later");
    ask(&mut stream, "req-2");
    until(&fleet, "asked", |stats| stats.late == 2);
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    assert_bid(answer(&mut asked(&fleet)), "req-1");
    assert_silent(&mut stream);
}

#[test]
fn a_refused_port_comes_back() {
    let fleet = sick(DspBehaviour::HEALTHY);
    let address = fleet.addresses()[0];
    for round in 0..3 {
        let mut open = asked(&fleet);
        assert_bid(answer(&mut open), "req-1");
        fleet.set_behaviour(0, DspAct::Refused).expect("refused");
        assert_closed(&mut open);
        assert_eq!(fleet.stats().total().connections_open, 0);
        for _ in 0..3 {
            let error = TcpStream::connect(address).expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "round {round}");
        }
        fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    }
    assert_bid(answer(&mut asked(&fleet)), "req-1");
}

#[test]
fn gzip_is_sent_where_it_is_accepted_or_always() {
    let gzip = post(BODY).replacen("Host", "Accept-Encoding: gzip\r\nHost", 1);
    let check = |always: bool, request: &str, want: bool| {
        let fleet = sick(DspAct::Gzip { always });
        let mut stream = connect(&fleet);
        stream.write_all(request.as_bytes()).expect("sent");
        let (head, body) = raw_answer(&mut stream);
        assert_eq!(field(&head, "content-encoding"), want.then_some("gzip"));
        let body = if want { inflated(&body).expect("a sound gzip") } else { body };
        assert_bid((200, String::from_utf8(body).expect("UTF-8")), "req-1");
        assert_goes_on(&fleet, &mut stream);
        assert_eq!(fleet.stats().total().bids, 2);
    };
    check(false, &post(BODY), false);
    check(false, &gzip, true);
    check(true, &post(BODY), true);
    // A 204 has no body to compress.
    let fleet = fleet_of(DspProfile { no_bid_ppm: 1_000_000, ..bidding() });
    fleet.set_behaviour(0, DspAct::Gzip { always: true }).expect("set");
    assert_eq!(answer(&mut asked(&fleet)), (204, String::new()));
}

#[test]
fn a_bomb_is_small_and_inflates_to_its_size() {
    let inflated_bytes = 32 * 1024 * 1024;
    let fleet = sick(DspAct::GzipBomb { inflated: inflated_bytes });
    let mut stream = asked(&fleet);
    let (head, body) = raw_answer(&mut stream);
    assert_eq!(field(&head, "content-encoding"), Some("gzip"));
    assert!(body.len() < 48 * 1024, "{}", body.len());
    assert_eq!(inflated(&body).expect("a sound gzip").len(), inflated_bytes);
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn bad_gzip_cannot_be_read() {
    let fleet = sick(DspAct::BadGzip);
    let mut stream = connect(&fleet);
    for n in 0..20 {
        ask(&mut stream, &format!("req-{n}"));
        let (head, body) = raw_answer(&mut stream);
        assert_eq!(field(&head, "content-encoding"), Some("gzip"));
        inflated(&body).expect_err("it is bad");
    }
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn chunks_are_as_small_as_asked_for() {
    let fleet = sick(DspAct::Chunked { bytes: 1 });
    let mut stream = asked(&fleet);
    let head = head(&mut stream);
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    let mut body = String::new();
    loop {
        let mut chunk = [0; 3];
        stream.read_exact(&mut chunk).expect("a chunk's head");
        if chunk == *b"0\r\n" {
            break;
        }
        assert_eq!(chunk, *b"1\r\n");
        stream.read_exact(&mut chunk).expect("a chunk");
        body.push(chunk[0].into());
    }
    stream.read_exact(&mut [0; 2]).expect("the end");
    assert_bid((200, body), "req-1");
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn a_redirect_leads_home_or_elsewhere() {
    let fleet = sick(DspAct::Redirect { code: 307, to: None });
    let mut stream = asked(&fleet);
    let (head, body) = raw_answer(&mut stream);
    let home = format!("http://{}/elsewhere", fleet.addresses()[0]);
    assert_eq!((status_of(&head), body.len()), (307, 0));
    assert_eq!(field(&head, "location"), Some(home.as_str()));
    let to = Some("http://192.0.2.1/".to_owned());
    fleet.set_behaviour(0, DspAct::Redirect { code: 302, to: to.clone() }).expect("set");
    ask(&mut stream, "req-1");
    let (head, _) = raw_answer(&mut stream);
    assert_eq!((status_of(&head), field(&head, "location")), (302, to.as_deref()));
    assert_goes_on(&fleet, &mut stream);
}

#[test]
fn interim_answers_come_before_the_answer_or_without_end() {
    let fleet = sick(DspAct::Interim { code: 103, count: Some(1000) });
    let mut stream = asked(&fleet);
    for _ in 0..1000 {
        assert_eq!(head(&mut stream), "HTTP/1.1 103 Wait\r\n\r\n");
    }
    assert_bid(answer(&mut stream), "req-1");
    fleet.set_behaviour(0, DspAct::Interim { code: 100, count: None }).expect("set");
    ask(&mut stream, "req-1");
    let one = b"HTTP/1.1 100 Wait\r\n\r\n";
    let mut flood = vec![0; one.len() * 100_000];
    stream.read_exact(&mut flood).expect("more and more");
    assert!(flood.chunks(one.len()).all(|each| each == one));
    drop(stream);
    until(&fleet, "ended", |stats| stats.connections_open == 0);
}

#[test]
fn a_closing_dsp_answers_first() {
    for announced in [true, false] {
        let fleet = sick(DspAct::Closing { announced });
        let mut stream = asked(&fleet);
        let (head, body) = raw_answer(&mut stream);
        assert_eq!(field(&head, "connection"), announced.then_some("close"));
        assert_bid((200, String::from_utf8(body).expect("UTF-8")), "req-1");
        assert_closed(&mut stream);
    }
}

#[test]
fn a_share_falls_on_the_same_requests_whenever_they_come() {
    let half = || DspBehaviour {
        share_ppm: 500_000,
        ..DspAct::Status { code: 503, body: String::new() }.into()
    };
    let statuses = |order: &mut dyn Iterator<Item = u32>| {
        let fleet = sick(half());
        let mut stream = connect(&fleet);
        let mut statuses: Vec<_> = order
            .map(|n| {
                let id = format!("req-{n}");
                ask(&mut stream, &id);
                let (head, body) = raw_answer(&mut stream);
                if status_of(&head) == 200 {
                    assert_eq!([head.as_bytes(), &body].concat(), healthy_answer(&id));
                }
                (n, status_of(&head))
            })
            .collect();
        let sick = statuses.iter().filter(|(_, status)| *status == 503).count() as u64;
        assert_eq!(fleet.stats().total().misbehaved, sick);
        assert!((10..50).contains(&sick), "{sick}");
        statuses.sort_unstable();
        statuses
    };
    assert_eq!(statuses(&mut (0..60)), statuses(&mut (0..60).rev()));
}

#[test]
fn pipelined_requests_keep_their_order_around_sick_ones() {
    let act = DspAct::Trickle { bytes: 500, every: Duration::from_millis(1), from: DripFrom::Head };
    let fleet = sick(DspBehaviour { share_ppm: 500_000, ..act.into() });
    let mut stream = connect(&fleet);
    let ids: Vec<_> = (0..40).map(|n| format!("req-{n}")).collect();
    for id in &ids {
        ask(&mut stream, id);
    }
    for id in &ids {
        assert_bid(answer(&mut stream), id);
    }
    let sick = fleet.stats().total().misbehaved;
    assert!((5..35).contains(&sick), "{sick}");
}

#[test]
fn what_is_no_request_is_told_so_by_a_sick_dsp_too() {
    let fleet = sick(DspAct::Hang);
    let mut stream = connect(&fleet);
    stream.write_all(post("{}").as_bytes()).expect("sent");
    assert_eq!(answer(&mut stream).0, 400);
    let total = fleet.stats().total();
    assert_eq!((total.misbehaved, total.malformed), (0, 1));
}

#[test]
fn a_request_that_ends_its_connection_does_so_after_a_sick_answer() {
    let fleet = sick(DspAct::Status { code: 503, body: "x".to_owned() });
    let mut stream = connect(&fleet);
    let request = post(BODY).replacen("Host", "Connection: close\r\nHost", 1);
    stream.write_all(request.as_bytes()).expect("sent");
    assert_eq!(answer(&mut stream), (503, "x".to_owned()));
    assert_closed(&mut stream);
}

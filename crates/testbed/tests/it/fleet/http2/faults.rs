//! Every fault of a DSP over HTTP/2.

use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;
use testbed::dsp::{BidFault, DspAct, DspBehaviour, Fleet};
use testbed::server::{Cut, DripFrom};

use super::super::fixture::{self as http1, assert_bid, bidding, connect, fleet_of, sick, until};
use super::fixture::{Answer, Event, FrameClient};

const MINUTE: Duration = Duration::from_secs(60);

/// One request on a fresh connection.
fn asked(fleet: &Fleet) -> FrameClient {
    let mut client = FrameClient::connect(fleet);
    client.ask(1, "req-1");
    client
}

/// Sends another request once the DSP is well: the connection has survived.
fn assert_goes_on(fleet: &Fleet, client: &mut FrameClient) {
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    client.ask(101, "req-2");
    assert_bid((200, client.answer(101).text()), "req-2");
}

/// The first answer of a DSP that goes on.
fn answer_of(act: impl Into<DspBehaviour>) -> Answer {
    let fleet = sick(act);
    let mut client = asked(&fleet);
    let answer = client.answer(1);
    assert_goes_on(&fleet, &mut client);
    answer
}

fn healthy_body() -> String {
    let fleet = fleet_of(bidding());
    asked(&fleet).answer(1).text()
}

#[test]
fn statuses_and_redirects_come_as_they_are() {
    for (code, body) in [(503, "overloaded"), (500, ""), (204, ""), (200, "{}")] {
        let answer = answer_of(DspAct::Status { code, body: body.to_owned() });
        assert_eq!((answer.status(), answer.text().as_str()), (code, body));
    }
    let to = Some("http://192.0.2.1/".to_owned());
    let answer = answer_of(DspAct::Redirect { code: 302, to: to.clone() });
    assert_eq!((answer.status(), answer.field("location")), (302, to.as_deref()));
}

#[test]
fn who_hangs_serves_other_streams() {
    let fleet = sick(DspAct::Hang);
    let mut client = asked(&fleet);
    client.assert_silent();
    assert_goes_on(&fleet, &mut client);
    drop(client);
    until(&fleet, "let go", |stats| stats.connections_open == 0);
}

#[test]
fn a_trickle_comes_in_small_frames_and_delays_no_other_stream() {
    let every = Duration::from_millis(1);
    for from in [DripFrom::Head, DripFrom::Body] {
        let answer = answer_of(DspAct::Trickle { bytes: 100, every, from });
        assert_eq!(answer.text(), healthy_body());
        assert!(answer.pieces >= answer.body.len() / 100);
    }
    let slow = DspAct::Trickle { bytes: 5, every: MINUTE, from: DripFrom::Body };
    let fleet = sick(slow);
    let mut client = asked(&fleet);
    let head = client.next_of_streams();
    assert!(matches!(head, Event::Head { stream: 1, is_last: false, .. }), "{head:?}");
    client.assert_silent();
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn closes_and_resets_come_where_they_should() {
    for at in [Cut::Before, Cut::Head, Cut::Body] {
        let ends =
            [(DspAct::Close { at }, Event::End), (DspAct::Reset { at }, Event::ConnectionReset)];
        for (act, end) in ends {
            let fleet = sick(act);
            let mut client = asked(&fleet);
            // A head that is cut off is never sent.
            if at == Cut::Body {
                let head = client.next_of_streams();
                assert!(matches!(head, Event::Head { is_last: false, .. }), "{head:?}");
                let data = client.next_of_streams();
                let Event::Data { bytes, is_last: false, .. } = data else { panic!("{data:?}") };
                assert!(healthy_body().as_bytes().starts_with(&bytes));
            }
            assert_eq!(client.next_of_streams(), end, "{at:?}");
            until(&fleet, "closed", |stats| stats.connections_open == 0);
        }
    }
}

#[test]
fn garbage_is_no_frame() {
    let fleet = sick(DspAct::Garbage);
    for n in 0..20 {
        let mut client = FrameClient::connect(&fleet);
        client.ask(1, &format!("req-{n}"));
        let rest = client.rest();
        assert!(rest.ends_with(b"\r\n\r\n"), "{rest:?}");
    }
    until(&fleet, "closed", |stats| stats.connections_open == 0);
}

#[test]
fn late_answers_delay_no_other_stream() {
    let fleet = sick(DspAct::Late { by: Duration::from_millis(5) });
    let mut client = asked(&fleet);
    assert_bid((200, client.answer(1).text()), "req-1");
    fleet.set_behaviour(0, DspAct::Late { by: MINUTE }).expect("later");
    client.ask(3, "req-3");
    until(&fleet, "asked", |stats| stats.late == 2);
    client.assert_silent();
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn compressed_and_chunked_bodies_are_whole() {
    let answer = answer_of(DspAct::Gzip { always: true });
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    let mut body = String::new();
    GzDecoder::new(&answer.body[..]).read_to_string(&mut body).expect("a sound gzip");
    assert_eq!(body, healthy_body());
    let answer = answer_of(DspAct::BadGzip);
    GzDecoder::new(&answer.body[..]).read_to_end(&mut Vec::new()).expect_err("it is bad");
    let answer = answer_of(DspAct::GzipBomb { inflated: 32 << 20 });
    let mut inflated = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut inflated).expect("a sound gzip");
    assert_eq!(inflated.len(), 32 << 20);
    let answer = answer_of(DspAct::Chunked { bytes: 1 });
    assert_eq!((answer.text(), answer.field("transfer-encoding")), (healthy_body(), None));
    assert_eq!(answer.pieces, answer.body.len() + 1);
}

#[test]
fn huge_and_endless_answers_keep_to_the_windows() {
    let fleet = sick(BidFault::Huge { bytes: Some(3_000_000) });
    let mut client = FrameClient::with_settings(&fleet, &[(4, 1 << 30)]);
    let mut update = Vec::new();
    http2::frame::write_window_update(&mut update, 0, 1 << 30);
    client.send(&update);
    client.ask(1, "req-1");
    assert_eq!(client.answer(1).body.len(), 3_000_000);
    assert_goes_on(&fleet, &mut client);
    let fleet = sick(BidFault::Huge { bytes: None });
    let mut client = asked(&fleet);
    let mut got = 0;
    while got < 65_535 {
        match client.next_of_streams() {
            Event::Head { is_last: false, .. } => (),
            Event::Data { bytes, is_last: false, .. } => got += bytes.len(),
            event => panic!("{event:?}"),
        }
    }
    client.assert_silent();
    // Another stream has a window of its own.
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn interim_answers_come_first_or_without_end() {
    let answer = answer_of(DspAct::Interim { code: 103, count: Some(100) });
    assert_eq!(answer.interim, vec!["103"; 100]);
    assert_bid((200, answer.text()), "req-1");
    let fleet = sick(DspAct::Interim { code: 103, count: None });
    let mut client = asked(&fleet);
    for _ in 0..50_000 {
        let interim = client.next_of_streams();
        assert!(matches!(interim, Event::Head { is_last: false, .. }), "{interim:?}");
    }
    // Others are served meanwhile.
    let mut other = connect(&fleet);
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    http1::ask(&mut other, "req-2");
    assert_bid(http1::answer(&mut other), "req-2");
    drop(client);
    until(&fleet, "ended", |stats| stats.connections_open == 1);
}

#[test]
fn a_closing_dsp_says_so_by_goaway_or_not_at_all() {
    let closing = |late: Duration| {
        let fleet = sick(DspAct::Late { by: late });
        let mut client = asked(&fleet);
        until(&fleet, "asked", |stats| stats.late == 1);
        fleet.set_behaviour(0, DspAct::Closing { announced: true }).expect("set");
        client.ask(3, "req-3");
        (fleet, client)
    };
    let (_fleet, mut client) = closing(MINUTE);
    assert_bid((200, client.answer(3).text()), "req-3");
    assert_eq!(client.next_of_streams(), Event::GoAway { last_stream: 3, code: 0 });
    // The open stream keeps the connection open, but there are no new ones.
    client.ask(5, "req-5");
    assert_eq!(client.next_of_streams(), Event::Reset { stream: 5, code: 7 });
    let mut reset = Vec::new();
    http2::frame::write_reset(&mut reset, 1, http2::Http2ErrorCode::CANCEL);
    client.send(&reset);
    assert_eq!(client.next_of_streams(), Event::End);
    // The open stream is answered.
    let (_fleet, mut client) = closing(Duration::from_millis(10));
    let (mut ended, mut goaways) = (Vec::new(), 0);
    loop {
        match client.next_of_streams() {
            Event::Data { stream, is_last: true, .. } => ended.push(stream),
            Event::GoAway { .. } => goaways += 1,
            Event::End => break,
            event => assert!(matches!(event, Event::Head { .. }), "{event:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!((ended.as_slice(), goaways), (&[1, 3][..], 1));
    let fleet = sick(DspAct::Closing { announced: false });
    let mut client = asked(&fleet);
    assert_bid((200, client.answer(1).text()), "req-1");
    assert_eq!(client.next_of_streams(), Event::End);
}

#[test]
fn a_refused_port_closes_its_connections() {
    let fleet = fleet_of(bidding());
    let mut client = asked(&fleet);
    assert_bid((200, client.answer(1).text()), "req-1");
    fleet.set_behaviour(0, DspAct::Refused).expect("refused");
    assert_eq!(client.next_of_streams(), Event::End);
    assert_eq!(fleet.stats().total().connections_open, 0);
}

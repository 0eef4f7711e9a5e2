//! The fleet over HTTP/2, as a raw client of frames meets it. In modules: faulty DSPs, and other
//! implementations of clients.

mod clients;
mod faults;
mod fixture;
mod hostile;

use std::io::{Read, Write};
use std::time::Duration;

use http2::frame::{
    self, FrameType, SETTING_HEADER_TABLE_SIZE, SETTING_INITIAL_WINDOW_SIZE,
    SETTING_MAX_CONCURRENT_STREAMS, WINDOW_MAX,
};
use testbed::dsp::{self, DspAct, DspBehaviour, DspProfile, Fleet};
use testbed::server::{ServedVersions, ServerOptions};

pub(crate) use self::fixture::FrameClient;
use self::fixture::{Event, Field, HEAD, bid_request, block, raw};
use super::fixture::{
    BODY, answer, ask, assert_bid, assert_closed, bidding, connect, fleet_of, sick, until,
};

const MINUTE: Duration = Duration::from_secs(60);

fn serving(http: ServedVersions) -> Fleet {
    dsp::start(vec![bidding()], &ServerOptions { http, ..ServerOptions::default() })
        .expect("a fleet on free ports")
}

#[test]
fn both_versions_share_a_port_unless_one_is_off() {
    let fleet = serving(ServedVersions::Both);
    let (mut one, mut two) = (connect(&fleet), FrameClient::connect(&fleet));
    for n in 0..3 {
        ask(&mut one, "req-1");
        two.ask(2 * n + 1, "req-2");
        assert_bid(answer(&mut one), "req-1");
        assert_bid((200, two.answer(2 * n + 1).text()), "req-2");
    }
    assert_eq!(fleet.stats().total().connections_open, 2);
    // A preface that comes byte by byte, and a request that begins like one.
    let mut slow = connect(&fleet);
    for byte in frame::PREFACE {
        slow.write_all(&[*byte]).expect("sent");
    }
    let mut settings = [0; 9];
    slow.read_exact(&mut settings).expect("the server's preface");
    assert_eq!(settings[3], FrameType::Settings as u8);
    let mut like = connect(&fleet);
    like.write_all(b"PRI /x HTTP/1.1\r\n\r\n").expect("sent");
    assert_eq!(answer(&mut like).0, 405);

    let fleet = serving(ServedVersions::Http1);
    let mut client = FrameClient::connect(&fleet);
    let Event::Garbage(bytes) = client.next() else { panic!("it is no frame") };
    assert!(bytes.starts_with(b"HTTP/1.1 400 "), "{bytes:?}");
    let fleet = serving(ServedVersions::Http2);
    let mut client = FrameClient::connect(&fleet);
    client.assert_silent();
    let mut stream = connect(&fleet);
    ask(&mut stream, "req-1");
    let mut rest = Vec::new();
    // A reset, because the request was not read to its end, or a clean close.
    drop(stream.read_to_end(&mut rest));
    assert_eq!(rest, b"");
    until(&fleet, "closed", |stats| stats.connections_open == 1);
}

#[test]
fn a_server_announces_its_limits_and_answers_pings() {
    let fleet = fleet_of(bidding());
    let mut client = FrameClient::connect(&fleet);
    let want =
        vec![(SETTING_MAX_CONCURRENT_STREAMS, 1_000), (SETTING_INITIAL_WINDOW_SIZE, 1 << 20)];
    assert_eq!(client.next(), Event::Settings(want));
    assert_eq!(client.next(), Event::Other(FrameType::WindowUpdate as u8));
    assert_eq!(client.next(), Event::Other(FrameType::Settings as u8)); // The reply to ours.
    client.assert_silent();
}

#[test]
fn answers_leave_as_they_become_due() {
    let late = DspAct::Late { by: Duration::from_millis(15) };
    let fleet = sick(DspBehaviour { share_ppm: 500_000, ..late.into() });
    let mut client = FrameClient::connect(&fleet);
    let ids = || (0..60).map(|n| (2 * n + 1, format!("req-{n}")));
    let requests: Vec<u8> = ids().flat_map(|(stream, id)| bid_request(stream, &id)).collect();
    client.send(&requests);
    let mut order = Vec::new();
    for _ in 0..60 {
        let (stream, answer) = client.next_answer();
        assert_bid((200, answer.text()), &format!("req-{}", stream / 2));
        assert_eq!(answer.field("content-length"), Some(answer.body.len().to_string().as_str()));
        order.push(stream);
    }
    let late = usize::try_from(fleet.stats().total().late).expect("few");
    assert!((10..50).contains(&late), "{late}");
    let (punctual, late) = order.split_at(60 - late);
    assert!(punctual.is_sorted() && late.is_sorted() && punctual.last() > late.first());
}

#[test]
fn requests_may_be_cut_and_framed_in_any_way() {
    let fleet = fleet_of(bidding());
    let mut client = FrameClient::connect(&fleet);
    for byte in bid_request(1, "req-1") {
        client.send(&[byte]);
    }
    assert_bid((200, client.answer(1).text()), "req-1");
    let (head, body) = (block(&HEAD), BODY.as_bytes());
    let mut out = raw(FrameType::Headers, 0, 3, &head[..5]);
    out.extend(raw(FrameType::Continuation, 0, 3, &head[5..9]));
    out.extend(raw(FrameType::Continuation, frame::END_HEADERS, 3, &head[9..]));
    for byte in body {
        frame::write_data(&mut out, 3, &[*byte], false);
    }
    frame::write_data(&mut out, 3, &[], true);
    // Padding, a priority, and trailers.
    let padded = [&[2, 0, 0, 0, 0, 0][..], &head, &[0, 0]].concat();
    out.extend(raw(FrameType::Headers, frame::END_HEADERS | 0x28, 5, &padded));
    out.extend(raw(FrameType::Data, 0x8, 5, &[&[1], body, &[0]].concat()));
    frame::write_headers(&mut out, 5, &block(&[("x-sum", "1")]), true);
    client.send(&out);
    assert_bid((200, client.answer(3).text()), "req-1");
    assert_bid((200, client.answer(5).text()), "req-1");
    let mut get = Vec::new();
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/nowhere")];
    frame::write_headers(&mut get, 7, &block(&fields), true);
    client.send(&get);
    assert_eq!(client.answer(7).status(), 404);
    let total = fleet.stats().total();
    assert_eq!((total.requests, total.malformed, total.connections_open), (3, 0, 1));
}

#[test]
fn requests_that_are_refused_leave_the_connection_open() {
    let fleet = fleet_of(bidding());
    let mut client = FrameClient::connect(&fleet);
    let (mut stream, mut malformed) = (1, 0);
    let mut check = |fields: &[Field<'_>], body: Option<&str>, status: Option<u16>| {
        let mut out = Vec::new();
        frame::write_headers(&mut out, stream, &block(fields), body.is_none());
        for piece in body.map(|body| body.as_bytes().chunks(3_000)).into_iter().flatten() {
            frame::write_data(&mut out, stream, piece, false);
        }
        client.send(&out);
        let mut code = None;
        match client.next_of_streams() {
            Event::Head { fields, is_last, .. } => {
                assert_eq!(status.map(|status| status.to_string()), Some(fields[0].1.clone()));
                assert!(is_last);
                if body.is_some() {
                    code = Some(0);
                }
            }
            event => assert_eq!((event, status), (Event::Reset { stream, code: 1 }, None)),
        }
        if let Some(code) = code {
            assert_eq!(client.next_of_streams(), Event::Reset { stream, code });
        }
        client.assert_silent();
        (stream, malformed) = (stream + 2, malformed + 1);
        assert_eq!(fleet.stats().total().malformed, malformed);
        client.ask(stream, "req-1");
        assert_bid((200, client.answer(stream).text()), "req-1");
        stream += 2;
    };
    let with = |more: &[Field<'static>]| [&HEAD[..], more].concat();
    let long = "x".repeat(8_000);
    check(&HEAD, Some(&long), Some(413));
    check(&with(&[("content-length", "4097")]), Some(""), Some(413));
    let many = [&HEAD[..], &[("x", "y"); 500]].concat(); // Each counts 34 bytes.
    check(&many, None, Some(431));
    check(&[(":method", "DELETE"), (":scheme", "http"), (":path", "/")], None, Some(405));
    check(&HEAD[..3], None, None); // No path.
    check(&HEAD[1..], None, None); // No method.
    check(&with(&[("Upper", "x")]), None, None);
    check(&with(&[("connection", "close")]), None, None);
    check(&with(&[("x", "1"), (":path", "/")]), None, None);
    check(&with(&[("content-length", "5")]), None, None);
    check(&with(&[("content-length", "+0")]), None, None);
}

#[test]
fn a_malformed_frame_ends_its_connection_only() {
    let fleet = fleet_of(bidding());
    let mut other = FrameClient::connect(&fleet);
    let mut malformed = 0;
    let mut check = |bytes: &[u8], want: u32| {
        let mut client = FrameClient::connect(&fleet);
        client.ask(1, "req-1");
        client.answer(1);
        client.send(bytes);
        assert_eq!(client.next_of_streams(), Event::GoAway { last_stream: 1, code: want });
        assert_eq!(client.next(), Event::End);
        drop(client);
        malformed += 1;
        assert_eq!(fleet.stats().total().malformed, malformed);
        until(&fleet, "closed", |stats| stats.connections_open == 1);
    };
    let headers = |flags: u8, stream: u32| raw(FrameType::Headers, flags, stream, &block(&HEAD));
    let continuation = raw(FrameType::Continuation, 0, 3, &[b' '; 16_000]);
    check(&raw(FrameType::Data, 0, 0, b"x"), 1);
    check(&raw(FrameType::Data, 0, 3, b"x"), 1); // Never opened.
    check(&raw(FrameType::ResetStream, 0, 3, &[0; 4]), 1);
    check(&headers(frame::END_HEADERS, 2), 1);
    check(&raw(FrameType::PushPromise, 0, 1, &[0; 8]), 1);
    check(&raw(FrameType::Ping, 0, 0, b"short"), 6);
    check(&raw(FrameType::Settings, 0, 0, b"x"), 6);
    check(&raw(FrameType::Settings, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]), 3);
    check(&raw(FrameType::Settings, 0, 0, &[0, 5, 0, 0, 0, 1]), 1);
    check(&raw(FrameType::Data, 0, 1, &[0; 16_385]), 6);
    check(&raw(FrameType::WindowUpdate, 0, 0, &[0; 4]), 1);
    check(&raw(FrameType::WindowUpdate, 0, 0, &WINDOW_MAX.to_be_bytes()), 3);
    check(&continuation, 1); // Nothing to continue.
    check(&[headers(0, 3), raw(FrameType::Ping, 0, 0, &[0; 8])].concat(), 1);
    check(&[headers(0, 3), continuation.clone(), continuation.clone()].concat(), 0xb);
    check(&raw(FrameType::Headers, frame::END_HEADERS, 3, &[0xff; 3]), 9);
    other.ask(1, "req-1");
    assert_bid((200, other.answer(1).text()), "req-1");
    // The preface itself.
    let mut stream = connect(&fleet);
    let preface = [frame::PREFACE, &raw(FrameType::Ping, 0, 0, &[0; 8])].concat();
    stream.write_all(&preface).expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    assert_eq!(rest[rest.len() - 14], FrameType::GoAway as u8);
}

#[test]
fn a_cancelled_answer_is_never_sent() {
    let fleet = sick(DspAct::Late { by: Duration::from_millis(20) });
    let mut client = FrameClient::connect(&fleet);
    let mut out = [bid_request(1, "req-1"), bid_request(3, "req-3")].concat();
    frame::write_reset(&mut out, 1, http2::Http2ErrorCode::CANCEL);
    client.send(&out);
    // Its alarm is due before the other one's.
    assert_bid((200, client.answer(3).text()), "req-3");
    client.assert_silent();
    // A cancelled request is never handed to its service.
    let mut partial = Vec::new();
    frame::write_headers(&mut partial, 5, &block(&HEAD), false);
    frame::write_reset(&mut partial, 5, http2::Http2ErrorCode::CANCEL);
    frame::write_data(&mut partial, 5, BODY.as_bytes(), true);
    client.send(&partial);
    client.assert_silent();
    assert_eq!(fleet.stats().total().requests, 2);
}

#[test]
fn data_waits_for_the_windows_of_the_client() {
    let fleet = fleet_of(DspProfile { bid_bytes: 100_000, ..bidding() });
    let mut client = FrameClient::with_settings(&fleet, &[(SETTING_INITIAL_WINDOW_SIZE, 10)]);
    client.send(&[bid_request(1, "req-1"), bid_request(3, "req-3")].concat());
    let mut got = [0; 2];
    let mut receive = |client: &mut FrameClient, want: [usize; 2]| {
        while got != want {
            match client.next_of_streams() {
                Event::Head { is_last: false, .. } => (),
                Event::Data { stream, bytes, .. } => got[stream as usize / 2] += bytes.len(),
                event => panic!("{event:?}"),
            }
        }
        client.assert_silent();
    };
    receive(&mut client, [10, 10]);
    let update = |client: &mut FrameClient, stream: u32, increment: u32| {
        let mut out = Vec::new();
        frame::write_window_update(&mut out, stream, increment);
        client.send(&out);
    };
    update(&mut client, 3, 5);
    receive(&mut client, [10, 15]);
    let mut settings = Vec::new();
    frame::write_settings(&mut settings, &[(SETTING_INITIAL_WINDOW_SIZE, 30)]);
    client.send(&settings);
    receive(&mut client, [30, 35]);
    // The connection's window admits 65,535 bytes of all streams.
    update(&mut client, 3, 1 << 20);
    receive(&mut client, [30, 65_505]);
    update(&mut client, 1, 1 << 20);
    client.assert_silent();
    // From then on, streams take turns.
    update(&mut client, 0, 16_384);
    update(&mut client, 0, 1 << 20);
    let (first, second) = (client.next_answer(), client.next_answer());
    assert_eq!((first.0, second.0), (3, 1));
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let fleet = sick(DspAct::Hang);
    let mut client = FrameClient::connect(&fleet);
    let requests: Vec<u8> = (0..1_000).flat_map(|n| bid_request(2 * n + 1, "req-1")).collect();
    client.send(&requests);
    client.assert_silent();
    client.ask(2_001, "req-1");
    assert_eq!(client.next_of_streams(), Event::Reset { stream: 2_001, code: 7 });
    let mut reset = Vec::new();
    frame::write_reset(&mut reset, 1, http2::Http2ErrorCode::CANCEL);
    client.send(&reset);
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    client.ask(2_003, "req-1");
    assert_bid((200, client.answer(2_003).text()), "req-1");
}

#[test]
fn a_client_without_a_dynamic_table_is_respected() {
    let fleet = fleet_of(bidding());
    let mut client = FrameClient::with_settings(&fleet, &[(SETTING_HEADER_TABLE_SIZE, 0)]);
    for n in 0..3 {
        client.ask(2 * n + 1, "req-1");
        let answer = client.answer(2 * n + 1);
        assert_eq!(answer.field("content-type"), Some("application/json"));
    }
}

#[test]
fn a_client_that_leaves_takes_its_answers_along() {
    let fleet = sick(DspAct::Late { by: MINUTE });
    let mut client = FrameClient::connect(&fleet);
    client.ask(1, "req-1");
    until(&fleet, "asked", |stats| stats.late == 1);
    drop(client);
    until(&fleet, "closed", |stats| stats.connections_open == 0);
    // A half-closed client gets what is ready.
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    let mut client = FrameClient::connect(&fleet);
    client.ask(1, "req-1");
    client.socket.shutdown(std::net::Shutdown::Write).expect("half closed");
    assert_bid((200, client.answer(1).text()), "req-1");
    assert_closed(&mut client.socket);
}

#[test]
fn whatever_a_client_sends_others_are_served() {
    let fleet = fleet_of(bidding());
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: u64| {
        // xorshift64
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits % below
    };
    for _ in 0..300 {
        let mut out = frame::PREFACE.to_vec();
        frame::write_settings(&mut out, &[(SETTING_INITIAL_WINDOW_SIZE, 100)]);
        for _ in 0..20 {
            let small = |number: u64| u8::try_from(number).expect("it is below 256");
            let (stream, flags) = (u32::from(small(draw(6))), small(draw(256)));
            match draw(4) {
                0 => out.extend(bid_request(stream, "req-1")),
                1 => out.extend(raw(FrameType::Headers, flags, stream, &block(&HEAD))),
                2 => {
                    let increment = u32::from(small(draw(128))) << 24;
                    frame::write_window_update(&mut out, stream, increment);
                }
                _ => {
                    let payload: Vec<u8> = (0..draw(12)).map(|_| small(draw(256))).collect();
                    let mut any = raw(FrameType::Data, flags, stream, &payload);
                    any[3] = small(draw(11));
                    out.extend(any);
                }
            }
        }
        // The server may have closed before everything is sent.
        drop(connect(&fleet).write_all(&out));
    }
    until(&fleet, "closed", |stats| stats.connections_open == 0);
    let mut client = FrameClient::connect(&fleet);
    client.ask(1, "req-1");
    assert_bid((200, client.answer(1).text()), "req-1");
}

//! What a DSP can do wrong only over HTTP/2, as a raw client meets it.

use std::time::Duration;

use http2::frame::{FrameType, SETTING_INITIAL_WINDOW_SIZE};
use testbed::dsp::{DspAct, DspBehaviour, Fleet};
use testbed::server::{FloodFrame, Http2Fault};

use super::super::fixture::{self, answer, assert_bid, connect, sick, until};
use super::fixture::{Event, FrameClient};

/// One request on a fresh connection, whose SETTINGS have been exchanged.
fn asked(fault: Http2Fault) -> (Fleet, FrameClient) {
    let fleet = sick(DspAct::Http2(fault));
    let mut client = FrameClient::connect(&fleet);
    client.assert_silent();
    client.ask(1, "req-1");
    (fleet, client)
}

/// The connection has survived.
fn assert_goes_on(fleet: &Fleet, client: &mut FrameClient) {
    fleet.set_behaviour(0, DspBehaviour::HEALTHY).expect("well again");
    client.ask(101, "req-2");
    assert_bid((200, client.answer(101).text()), "req-2");
}

#[test]
fn every_form_answers_properly_over_http_1() {
    let (times, frames) = (5, FloodFrame::Continuation);
    for fault in [
        Http2Fault::Reset { code: 7 },
        Http2Fault::Flood { frames, times },
        Http2Fault::HpackBomb,
        Http2Fault::Endless { bytes: 1, every: Duration::from_millis(1) },
        Http2Fault::GoAway,
    ] {
        let fleet = sick(DspAct::Http2(fault));
        let mut stream = connect(&fleet);
        for _ in 0..2 {
            fixture::ask(&mut stream, "req-1");
            assert_bid(answer(&mut stream), "req-1");
        }
    }
}

#[test]
fn streams_are_reset_with_their_code() {
    for code in [7, 8, 2] {
        let (fleet, mut client) = asked(Http2Fault::Reset { code });
        assert_eq!(client.next_of_streams(), Event::Reset { stream: 1, code });
        assert_goes_on(&fleet, &mut client);
    }
}

#[test]
fn floods_come_before_the_answer() {
    let settings = Event::Settings(Vec::new());
    let ping = Event::Other(FrameType::Ping as u8);
    for (frames, want) in [(FloodFrame::Settings, settings), (FloodFrame::Ping, ping)] {
        let (fleet, mut client) = asked(Http2Fault::Flood { frames, times: 10_000 });
        for _ in 0..10_000 {
            assert_eq!(client.next(), want);
        }
        assert_bid((200, client.answer(1).text()), "req-1");
        assert_goes_on(&fleet, &mut client);
    }
    let frames = FloodFrame::Continuation;
    let (fleet, mut client) = asked(Http2Fault::Flood { frames, times: 1_000 });
    assert_eq!(client.next_continuations(), 1_001);
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn a_bomb_is_a_short_block_of_a_long_head() {
    let (fleet, mut client) = asked(Http2Fault::HpackBomb);
    let answer = client.answer(1);
    let bytes: usize = answer.fields.iter().map(|(_, value)| value.len()).sum();
    assert!(bytes > 48_000_000, "{bytes}");
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn windows_shrink_to_nothing_or_overflow() {
    let (_fleet, mut client) = asked(Http2Fault::ZeroWindow);
    assert_eq!(client.next(), Event::Settings(vec![(SETTING_INITIAL_WINDOW_SIZE, 0)]));
    assert_bid((200, client.answer(1).text()), "req-1");
    let (_fleet, mut client) = asked(Http2Fault::WindowOverflow);
    assert_eq!(client.next(), Event::Other(FrameType::WindowUpdate as u8));
    assert_bid((200, client.answer(1).text()), "req-1");
}

#[test]
fn an_endless_answer_comes_in_small_frames() {
    let (fleet, mut client) =
        asked(Http2Fault::Endless { bytes: 3, every: Duration::from_millis(1) });
    let head = client.next_of_streams();
    assert!(matches!(head, Event::Head { is_last: false, .. }), "{head:?}");
    for _ in 0..50 {
        let data = client.next_of_streams();
        assert_eq!(data, Event::Data { stream: 1, bytes: vec![b' '; 3], is_last: false });
    }
    drop(client);
    until(&fleet, "closed", |stats| stats.connections_open == 0);
}

#[test]
fn trailers_end_an_answer() {
    let (fleet, mut client) = asked(Http2Fault::Trailers);
    let head = client.next_of_streams();
    assert!(matches!(head, Event::Head { is_last: false, .. }), "{head:?}");
    let data = client.next_of_streams();
    assert!(matches!(data, Event::Data { is_last: false, .. }), "{data:?}");
    let fields = vec![("x-trailer".to_owned(), "1".to_owned())];
    assert_eq!(client.next_of_streams(), Event::Head { stream: 1, fields, is_last: true });
    assert_goes_on(&fleet, &mut client);
}

#[test]
fn goaway_comes_in_mid_answer() {
    let (_fleet, mut client) = asked(Http2Fault::GoAway);
    let head = client.next_of_streams();
    assert!(matches!(head, Event::Head { is_last: false, .. }), "{head:?}");
    let data = client.next_of_streams();
    assert!(matches!(data, Event::Data { is_last: false, .. }), "{data:?}");
    assert_eq!(client.next_of_streams(), Event::GoAway { last_stream: 1, code: 0 });
    let data = client.next_of_streams();
    assert!(matches!(data, Event::Data { is_last: true, .. }), "{data:?}");
    assert_eq!(client.next(), Event::End);
}

#[test]
fn data_comes_for_a_stream_that_never_was() {
    let (fleet, mut client) = asked(Http2Fault::UnknownStream);
    let want = Event::Data { stream: 1_001, bytes: b"x".to_vec(), is_last: false };
    assert_eq!(client.next_of_streams(), want);
    assert_bid((200, client.answer(1).text()), "req-1");
    assert_goes_on(&fleet, &mut client);
}

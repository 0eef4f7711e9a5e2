//! The examples of RFC 6455, section 5.7; what a server writes; what a reader borrows and holds.

use std::borrow::Cow;

use super::client::{BINARY, CONTINUATION, FIN, PING, Reading, TEXT, frame};
use crate::websocket::{
    CLOSE_REASON_BYTES_MAX, CloseCode, ServerFrameHeader, WebSocketEvent, WebSocketReader,
    write_binary, write_close, write_close_reply, write_ping, write_pong, write_text,
};

#[test]
fn examples_are_read() {
    let check = |bytes: &[u8], want: &[WebSocketEvent<'_>]| {
        for size in 1..=bytes.len() {
            let reading = Reading::of(bytes.chunks(size), 65_536);
            assert_eq!((&reading.events[..], reading.violation), (want, None), "{size} at a time");
        }
    };
    let hello = || WebSocketEvent::Text("Hello".into());
    check(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", &[hello()]);
    // Section 5.7 shows the fragments and the ping as a server sends them.
    let fragments = [frame(TEXT, b"Hel"), frame(FIN | CONTINUATION, b"lo")].concat();
    check(&fragments, &[hello()]);
    check(&frame(PING, b"Hello"), &[WebSocketEvent::Ping(b"Hello".into())]);
    let pong = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    check(pong, &[WebSocketEvent::Pong(b"Hello".into())]);
    let binary = |length: usize| WebSocketEvent::Binary(vec![7; length].into());
    check(&frame(FIN | BINARY, &[7; 256]), &[binary(256)]);
    for size in [1, 997, 65_549, 65_550] {
        let reading = Reading::of(frame(FIN | BINARY, &[7; 65_536]).chunks(size), 65_536);
        assert!(reading.events == [binary(65_536)], "{size} at a time");
    }
}

#[test]
fn servers_write_the_examples() {
    let check = |write: &dyn Fn(&mut Vec<u8>), want: &[u8]| {
        let mut out = b"before".to_vec();
        write(&mut out);
        assert_eq!(&out[6..], want);
    };
    check(&|out| write_text(out, "Hello"), b"\x81\x05Hello");
    check(&|out| write_ping(out, b"Hello"), b"\x89\x05Hello");
    check(&|out| write_pong(out, b"Hello"), b"\x8a\x05Hello");
    let binary = |head: &[u8], length: usize| {
        let payload = vec![7; length];
        check(&|out| write_binary(out, &payload), &[head, &payload].concat());
        assert_eq!(ServerFrameHeader::binary(length).as_bytes(), head);
        let text = ServerFrameHeader::text(length);
        assert_eq!(text.as_bytes(), [&[0x81], &head[1..]].concat());
    };
    binary(b"\x82\x00", 0);
    binary(b"\x82\x7d", 125);
    binary(b"\x82\x7e\x00\x7e", 126);
    binary(b"\x82\x7e\x01\x00", 256);
    binary(b"\x82\x7e\xff\xff", 65_535);
    binary(b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 65_536);
    check(&|out| write_close_reply(out, None), b"\x88\x00");
    check(&|out| write_close_reply(out, Some(CloseCode::GOING_AWAY)), b"\x88\x02\x03\xe9");
    check(&|out| write_close(out, CloseCode::NORMAL, "bye"), b"\x88\x05\x03\xe8bye");
}

#[test]
fn close_reasons_are_cut_between_characters() {
    for (reason, kept) in [
        ("x".repeat(123), 123),
        ("x".repeat(124), 123),
        (format!("{}é", "x".repeat(121)), 123),
        (format!("{}é", "x".repeat(122)), 122),
        ("€".repeat(100), 123),
        ("🦀".repeat(100), 120),
    ] {
        let mut out = Vec::new();
        write_close(&mut out, CloseCode::private(4000).unwrap(), &reason);
        assert!(kept <= CLOSE_REASON_BYTES_MAX);
        assert_eq!(usize::from(out[1]), 2 + kept, "{reason}");
        assert_eq!(out[4..], reason.as_bytes()[..kept]);
    }
}

#[test]
#[should_panic(expected = "at most 125 bytes")]
fn long_pings_are_not_written() {
    write_ping(&mut Vec::new(), &[0; 126]);
}

#[test]
fn private_codes_have_their_range() {
    for (number, is_private) in [(3999, false), (4000, true), (4999, true), (5000, false)] {
        assert_eq!(CloseCode::private(number).map(CloseCode::number).is_some(), is_private);
    }
}

fn is_borrowed(event: &WebSocketEvent<'_>) -> bool {
    matches!(
        event,
        WebSocketEvent::Text(Cow::Borrowed(_))
            | WebSocketEvent::Binary(Cow::Borrowed(_))
            | WebSocketEvent::Ping(Cow::Borrowed(_))
            | WebSocketEvent::Pong(Cow::Borrowed(_))
    )
}

/// A frame whose payload is cut is copied, any other is borrowed, and nothing stays behind.
#[test]
fn whole_payloads_are_borrowed() {
    for first in [FIN | TEXT, FIN | BINARY, PING] {
        let bytes = frame(first, b"Hello");
        for cut in 0..bytes.len() {
            let mut bytes = bytes.clone();
            let (mut start, mut rest) = bytes.split_at_mut(cut);
            let mut reader = WebSocketReader::new(5);
            assert_eq!(reader.read(&mut start), Ok(None));
            assert_eq!(reader.is_idle(), cut == 0);
            let within_payload = cut > 6;
            assert_eq!(reader.held_bytes() > 0, within_payload, "cut at {cut}");
            let event = reader.read(&mut rest).unwrap().unwrap();
            assert_eq!(is_borrowed(&event), !within_payload, "cut at {cut}");
            assert!(reader.is_idle() && reader.held_bytes() == 0);
        }
    }
}

/// Memory follows the bytes that arrive, not the length that a frame declares.
#[test]
fn memory_follows_what_arrives() {
    let mut ping = frame(PING, &[7; 125]);
    let (mut start, rest) = ping.split_at_mut(6 + 70);
    let (mut next, _) = rest.split_at_mut(50);
    let mut reader = WebSocketReader::new(0);
    assert_eq!((reader.read(&mut start), reader.held_bytes()), (Ok(None), 70));
    assert_eq!((reader.read(&mut next), reader.held_bytes()), (Ok(None), 125));

    let limit = 1 << 40;
    let mut bytes = b"\x82\xff\x00\x00\x01\x00\x00\x00\x00\x00\x37\xfa\x21\x3d".to_vec();
    bytes.extend([0; 100]);
    let mut reader = WebSocketReader::new(limit);
    let (mut header, mut rest) = bytes.split_at_mut(14);
    assert_eq!(reader.read(&mut header), Ok(None));
    assert_eq!(reader.held_bytes(), 0);
    assert_eq!(reader.read(&mut rest), Ok(None));
    assert!((100..256).contains(&reader.held_bytes()), "{}", reader.held_bytes());
}

/// A caller may stop between two events: the rest of the input is its own.
#[test]
fn input_is_taken_event_by_event() {
    let mut bytes = [frame(PING, b""), frame(FIN | TEXT, b"x")].concat();
    let mut rest = &mut bytes[..];
    let mut reader = WebSocketReader::new(5);
    assert_eq!(reader.read(&mut rest), Ok(Some(WebSocketEvent::Ping(b"".into()))));
    assert_eq!(rest.len(), 7);
    assert_eq!(reader.read(&mut rest), Ok(Some(WebSocketEvent::Text("x".into()))));
    assert_eq!(reader.read(&mut rest), Ok(None));
}

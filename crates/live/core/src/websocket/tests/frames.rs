//! The examples of RFC 6455, section 5.7, as a server writes them.

use crate::websocket::{
    CLOSE_REASON_BYTES_MAX, CloseCode, ServerFrameHeader, write_binary, write_close,
    write_close_reply, write_ping, write_pong, write_text,
};

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

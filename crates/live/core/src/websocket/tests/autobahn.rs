//! Cases after groups 1 to 7 of the Autobahn test suite, against an echo server on this codec.

use super::client::{BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, close, frame};
use crate::websocket::{
    WebSocketEvent, WebSocketReader, write_binary, write_close, write_close_reply, write_pong,
    write_text,
};

const END: u8 = FIN | CONTINUATION;

/// What an echo server sends, as one line per frame.
fn echo<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Vec<String> {
    let (mut reader, mut out) = (WebSocketReader::new(1 << 20), Vec::new());
    for part in parts {
        let mut part = part.to_vec();
        let mut rest = &mut part[..];
        loop {
            match reader.read(&mut rest) {
                Ok(None) => break,
                Ok(Some(WebSocketEvent::Text(text))) => write_text(&mut out, &text),
                Ok(Some(WebSocketEvent::Binary(bytes))) => write_binary(&mut out, &bytes),
                Ok(Some(WebSocketEvent::Ping(payload))) => write_pong(&mut out, &payload),
                Ok(Some(WebSocketEvent::Pong(_))) => (),
                Ok(Some(WebSocketEvent::Close { code, .. })) => write_close_reply(&mut out, code),
                Err(violation) => {
                    write_close(&mut out, violation.code(), &violation.to_string());
                }
            }
        }
    }
    sent_lines(&out)
}

fn sent_lines(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        let (length, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => {
                (u64::from_be_bytes(rest[..8].try_into().unwrap()).try_into().unwrap(), &rest[8..])
            }
            short => (usize::from(*short), rest),
        };
        let (payload, rest) = rest.split_at(length);
        lines.push(match *first {
            0x81 => format!("text {}", str::from_utf8(payload).unwrap()),
            0x82 => format!("binary {payload:x?}"),
            0x8A => format!("pong {payload:x?}"),
            0x88 if payload.is_empty() => "close".to_owned(),
            0x88 => format!("close {}", u16::from_be_bytes([payload[0], payload[1]])),
            first => panic!("a server does not send {first:x}"),
        });
        bytes = rest;
    }
    lines
}

/// The frames whole, one by one, and in chops.
fn check(frames: &[Vec<u8>], want: &[&str]) {
    let bytes = frames.concat();
    let name: Vec<_> = frames.iter().map(Vec::len).collect();
    assert!(echo([&bytes[..]]) == want, "frames of {name:?}: {:?}", echo([&bytes[..]]));
    assert!(echo(frames.iter().map(|frame| &frame[..])) == want, "{name:?} frame by frame");
    for size in [1, 2, 5, 997] {
        assert!(echo(bytes.chunks(size)) == want, "{name:?} in chops of {size}");
    }
}

fn text(payload: &str) -> Vec<u8> {
    frame(FIN | TEXT, payload.as_bytes())
}

#[test]
fn group_1_framing() {
    for length in [0, 125, 126, 127, 128, 65_535, 65_536] {
        let payload = "*".repeat(length);
        check(&[text(&payload)], &[&format!("text {payload}")]);
        let payload = vec![0xFE; length];
        check(&[frame(FIN | BINARY, &payload)], &[&format!("binary {payload:x?}")]);
    }
}

#[test]
fn group_2_pings_and_pongs() {
    let pong = |payload: &[u8]| format!("pong {payload:x?}");
    for payload in [&b""[..], b"Hello", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", &[0xFE; 125]] {
        check(&[frame(PING, payload)], &[&pong(payload)]);
        check(&[frame(PONG, payload)], &[]);
    }
    check(&[frame(PING, &[0xFE; 126])], &["close 1002"]);
    check(&[frame(PONG, b"unsolicited"), frame(PING, b"ping")], &[&pong(b"ping")]);
    let pings: Vec<_> = (0..10).map(|number| frame(PING, &[number])).collect();
    let pongs: Vec<_> = (0..10).map(|number| pong(&[number])).collect();
    check(&pings, &pongs.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn group_3_reserved_bits() {
    check(&[frame(FIN | 0x40 | TEXT, b"*")], &["close 1002"]);
    let (good, ping) = (text("*"), frame(PING, b""));
    for rsv in [0x20, 0x30, 0x40] {
        let bad = frame(FIN | rsv | TEXT, b"*");
        check(&[good.clone(), bad, ping.clone()], &["text *", "close 1002"]);
    }
    check(&[frame(FIN | 0x50 | BINARY, b"*")], &["close 1002"]);
    check(&[frame(PING | 0x60, b"*")], &["close 1002"]);
    check(&[frame(CLOSE | 0x70, b"")], &["close 1002"]);
}

#[test]
fn group_4_opcodes() {
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        check(&[frame(FIN | opcode, b"")], &["close 1002"]);
        let frames = [text("*"), frame(FIN | opcode, b"*"), frame(PING, b"")];
        check(&frames, &["text *", "close 1002"]);
    }
}

#[test]
fn group_5_fragments() {
    let (first, next, last) = (frame(TEXT, b"a"), frame(CONTINUATION, b"b"), frame(END, b"c"));
    let ping = frame(PING, b"");
    check(&[frame(PING & !FIN, b"a"), last.clone()], &["close 1002"]);
    check(&[frame(PONG & !FIN, b"a"), last.clone()], &["close 1002"]);
    check(&[first.clone(), last.clone()], &["text ac"]);
    check(&[first.clone(), ping.clone(), last.clone()], &["pong []", "text ac"]);
    let frames = [&first, &next, &ping, &next, &ping, &last].map(Vec::clone);
    check(&frames, &["pong []", "pong []", "text abbc"]);
    for stray in [&next, &last] {
        check(&[stray.clone(), text("x")], &["close 1002"]);
        check(&[text("x"), stray.clone(), text("x")], &["text x", "close 1002"]);
        let frames = [first.clone(), last.clone(), stray.clone(), text("x")];
        check(&frames, &["text ac", "close 1002"]);
    }
    check(&[first.clone(), text("x")], &["close 1002"]);
    check(&[frame(TEXT, b""), frame(CONTINUATION, b""), frame(END, b"")], &["text "]);
}

#[test]
fn group_6_text_is_utf8() {
    let greek = "Hello-µ@ßöäüàá-UTF-8!!";
    let valid: &[&[u8]] = &[
        greek.as_bytes(),
        "κόσμε".as_bytes(),
        // The first and the last of each length.
        b"\x00\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
        // Next to the surrogates; the replacement character; noncharacters.
        b"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd\xef\xbf\xbe\xf0\x9f\xbf\xbe\xf3\xbf\xbf\xbf",
    ];
    for bytes in valid {
        let want = format!("text {}", str::from_utf8(bytes).unwrap());
        check(&[frame(FIN | TEXT, bytes)], &[&want]);
        let mut fragments = vec![frame(TEXT, b"")];
        fragments.extend(bytes.iter().map(|byte| frame(CONTINUATION, &[*byte])));
        fragments.push(frame(END, b""));
        check(&fragments, &[&want]);
    }
    // Cut within a character: wrong at the end of the message.
    let text = "κό𐍈".as_bytes();
    for end in (0..text.len()).filter(|end| str::from_utf8(&text[..*end]).is_err()) {
        check(&[frame(FIN | TEXT, &text[..end])], &["close 1007"]);
        check(&[frame(TEXT, &text[..end]), frame(END, b"")], &["close 1007"]);
    }
}

/// Text fails with the first byte that is wrong, and waits for no other.
#[test]
fn group_6_text_fails_fast() {
    // The last byte of each is the first that is wrong.
    let lone_continuations: &[&[u8]] = &[b"\x80", b"\xbf", b"\xce\xba\x80", b"\xc2\x80\x80"];
    let lone_starts: &[&[u8]] = &[b"\xc3 ", b"\xe2\x82 ", b"\xf0\x9f\xa6 ", b"\xf0\x9f\xa6\xc3"];
    let overlong: &[&[u8]] =
        &[b"\xc0", b"\xc1", b"\xe0\x80", b"\xe0\x9f", b"\xf0\x80", b"\xf0\x8f"];
    let surrogates: &[&[u8]] = &[b"\xed\xa0", b"\xed\xaf", b"\xed\xb0", b"\xed\xbf"];
    let beyond_unicode: &[&[u8]] =
        &[b"\xf4\x90", b"\xf5", b"\xf8", b"\xfb", b"\xfc", b"\xfd", b"\xfe", b"\xff"];
    let cases = [lone_continuations, lone_starts, overlong, surrogates, beyond_unicode].concat();
    for wrong in cases {
        // Within a frame that goes on.
        let bytes = frame(FIN | TEXT, &[wrong, &[b'x'; 100]].concat());
        let end = 6 + wrong.len();
        for size in [1, end] {
            let parts = bytes[..end - 1].chunks(size);
            assert!(echo(parts.clone()).is_empty(), "{wrong:x?}");
            assert_eq!(echo(parts.chain([&bytes[end - 1..end]])), ["close 1007"], "{wrong:x?}");
        }
        // Within a message that goes on.
        let (last, start) = wrong.split_last().unwrap();
        check(&[frame(TEXT, start)], &[]);
        check(&[frame(TEXT, start), frame(CONTINUATION, &[*last])], &["close 1007"]);
    }
}

#[test]
fn group_7_close() {
    let (ping, bye) = (frame(PING, b""), close(1000, b"bye"));
    check(&[text("x"), bye.clone()], &["text x", "close 1000"]);
    check(&[bye.clone(), bye.clone()], &["close 1000"]);
    check(&[bye.clone(), ping.clone(), text("x")], &["close 1000"]);
    check(&[frame(TEXT, b"a"), bye.clone(), frame(END, b"b")], &["close 1000"]);
    check(&[frame(FIN | TEXT, &[b'*'; 262_144])[..9_000].to_vec()], &[]);
    check(&[frame(CLOSE, b"")], &["close"]);
    check(&[frame(CLOSE, b"\x03")], &["close 1002"]);
    check(&[close(1000, b"")], &["close 1000"]);
    check(&[close(1000, &[b'*'; 123])], &["close 1000"]);
    check(&[close(1000, &[b'*'; 124])], &["close 1002"]);
    check(&[close(1000, b"\xce\xba\xe1\xbd\xb9\xed\xa0\x80edited")], &["close 1007"]);
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        check(&[close(code, b"")], &[&format!("close {code}")]);
    }
    for code in [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535] {
        check(&[close(code, b"")], &["close 1002"]);
    }
}

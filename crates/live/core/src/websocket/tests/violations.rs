//! Each violation with its code, and the input closest to it that is right.

use super::client::{BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, Reading, TEXT, close, frame};
use crate::websocket::WebSocketViolation as V;
use crate::websocket::{CLOSE_REASON_BYTES_MAX, FRAGMENTS_MAX};

const BYTES_MAX: usize = 100_000;

/// Whole, byte by byte, and in parts between: the same violation after the same events.
fn check(bytes: &[u8], want: Option<V>) {
    let whole = Reading::of([bytes], BYTES_MAX);
    assert_eq!(whole.violation, want, "{:x?}", &bytes[..bytes.len().min(20)]);
    for size in [1, 3, 4096] {
        assert_eq!(Reading::of(bytes.chunks(size), BYTES_MAX), whole);
    }
    if let Some(violation) = want {
        let code = match violation {
            V::TextNotUtf8 | V::CloseReasonNotUtf8 => 1007,
            V::TooManyFragments => 1008,
            V::MessageTooBig { .. } => 1009,
            _ => 1002,
        };
        assert_eq!(violation.code().number(), code, "{violation}");
        let message = violation.to_string();
        assert!(message.len() <= CLOSE_REASON_BYTES_MAX, "{message}");
    }
}

#[test]
fn headers_are_checked() {
    for reserved in [0x10, 0x20, 0x40, 0x70] {
        check(&[FIN | reserved | TEXT], Some(V::ReservedBits));
        check(&frame(CLOSE | reserved, b""), Some(V::ReservedBits));
    }
    for opcode in 0..16 {
        let unknown = (3..8).contains(&opcode) || opcode > 10;
        let first = FIN | opcode;
        check(&[first], unknown.then_some(V::UnknownOpcode(opcode)));
    }
    for control in [CLOSE, PING, PONG] {
        check(&frame(control & !FIN, b""), Some(V::FragmentedControl));
        check(&frame(control, b""), None);
        check(&[control, 0x80 | 126], Some(V::ControlTooLong));
        check(&[control, 0x80 | 127], Some(V::ControlTooLong));
        check(&[control, 0x80 | 125], None);
    }
    check(b"\x81\x05Hello", Some(V::Unmasked));
    check(&frame(FIN | TEXT, b"Hello"), None);
    let mask = b"\0\0\0\0";
    check(&[b"\x82\xfe\x00\x7d", &mask[..]].concat(), Some(V::LengthNotMinimal));
    check(&[b"\x82\xfe\x00\x7e", &mask[..]].concat(), None);
    check(b"\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff", Some(V::LengthNotMinimal));
    check(b"\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00", None);
    check(b"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00", Some(V::LengthTopBit));
    // The length without its top bit is only too long.
    let huge = [b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff", &mask[..]].concat();
    check(&huge, Some(V::MessageTooBig { bytes_max: BYTES_MAX }));
}

#[test]
fn messages_are_checked() {
    let (start, end) = (frame(TEXT, b"a"), frame(FIN | CONTINUATION, b"b"));
    check(&end, Some(V::ContinuationWithoutStart));
    check(&frame(CONTINUATION, b""), Some(V::ContinuationWithoutStart));
    check(&[&start[..], &end, &end].concat(), Some(V::ContinuationWithoutStart));
    check(&[&start[..], &end, &start].concat(), None);
    check(&[&start[..], &start].concat(), Some(V::MessageInterrupted));
    check(&[&start[..], &frame(FIN | BINARY, b"")].concat(), Some(V::MessageInterrupted));
    check(&[&start[..], &frame(PING, b""), &end].concat(), None);

    let most = [start, frame(CONTINUATION, b"").repeat(FRAGMENTS_MAX as usize - 2)].concat();
    check(&[&most[..], &end].concat(), None);
    let more = [&most[..], &frame(CONTINUATION, b""), &end].concat();
    check(&more, Some(V::TooManyFragments));

    let too_big = V::MessageTooBig { bytes_max: BYTES_MAX };
    check(&frame(FIN | TEXT, &[b'x'; BYTES_MAX]), None);
    // Known from the header.
    check(&frame(FIN | TEXT, &[b'x'; BYTES_MAX + 1])[..14], Some(too_big));
    let start = frame(BINARY, &[7; BYTES_MAX - 200]);
    check(&[&start[..], &frame(FIN | CONTINUATION, &[7; 200])].concat(), None);
    let more = frame(FIN | CONTINUATION, &[7; 201]);
    check(&[&start[..], &more[..8]].concat(), Some(too_big));
    let control = frame(PING, &[7; 125]);
    check(&[&start[..], &control, &frame(FIN | CONTINUATION, &[7; 200])].concat(), None);

    check(&frame(FIN | TEXT, b"\xc3\xa9"), None);
    check(&frame(FIN | TEXT, b"\xc3"), Some(V::TextNotUtf8));
    check(&frame(FIN | BINARY, b"\xc3"), None);
}

#[test]
fn close_frames_are_checked() {
    check(&frame(CLOSE, b""), None);
    check(&frame(CLOSE, b"\x03"), Some(V::ClosePayloadTooShort));
    check(&close(1000, b""), None);
    check(&close(1000, &[b'x'; 123]), None);
    check(&close(1000, &[b'x'; 124]), Some(V::ControlTooLong));
    for codes in [1000..=1003, 1007..=1014, 3000..=3999, 4000..=4999_u16] {
        check(&close(*codes.start(), b"why"), None);
        check(&close(*codes.end(), b"why"), None);
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65_535] {
        check(&close(code, b"why"), Some(V::CloseCodeReserved(code)));
    }
    check(&close(1000, b"\xff"), Some(V::CloseReasonNotUtf8));
    check(&close(1000, "é".as_bytes()), None);
    // After a close frame the client's bytes are no longer looked at.
    check(&[&close(1000, b"")[..], b"\xff\xff\xff"].concat(), None);
}

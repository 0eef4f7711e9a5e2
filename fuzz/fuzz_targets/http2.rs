//! Any bytes as a DSP's side of an HTTP/2 connection, in pieces of any size: bounded, each stream
//! ends once, and the pieces do not change the result.
#![no_main]

use http2::frame::write_settings;
use http2::{Http2Client, Http2ClientOptions, Http2ErrorCode, RequestHead, StreamCall, StreamEnd};
use libfuzzer_sys::fuzz_target;

const BODY_MAX: usize = 4096;

struct NumberedCall(usize);

impl StreamCall for NumberedCall {
    fn on_field(&mut self, name: &[u8], _: &[u8]) {
        assert!(!name.starts_with(b":") && !name.iter().any(u8::is_ascii_uppercase));
    }
}

/// Ends of the calls, the output, and whether the server was right.
fn read(input: &[u8], size: usize) -> (Vec<(usize, String)>, Vec<u8>, bool) {
    let head = RequestHead::new([(":method", "POST"), (":path", "/bid"), ("x-key", "k")]);
    let options =
        Http2ClientOptions { body_bytes_max: BODY_MAX, streams_max: 16, small_frames_max: 8 };
    let mut client = Http2Client::new(&head, options);
    for index in 0..4 {
        let asked = client.request(NumberedCall(index), &[], 5, [&b"hello"[..]].into_iter());
        assert!(asked.is_ok());
    }
    client.mark_sent();
    let mut ends = Vec::new();
    let mut on_end = |call: NumberedCall, end: StreamEnd<'_>| {
        if let StreamEnd::Response { status, body } = end {
            assert!(body.len() <= BODY_MAX && (200..1000).contains(&status));
        }
        ends.push((call.0, format!("{end:?}")));
    };
    let mut greeting = Vec::new();
    write_settings(&mut greeting, &[]);
    let mut is_right = true;
    for piece in [&greeting[..]].into_iter().chain(input.chunks(size.max(1))) {
        is_right = is_right && client.receive(piece, &mut on_end).is_ok();
    }
    let output = client.output().to_vec();
    client.end(Http2ErrorCode::NO_ERROR, &mut on_end);
    (ends, output, is_right)
}

fuzz_target!(|data: &[u8]| {
    let Some((size, input)) = data.split_first() else { return };
    let whole = read(input, input.len());
    let pieces = read(input, usize::from(*size) % 64 + 1);
    // Credit is given after each read, so only its places in the output differ.
    assert_eq!((&whole.0, whole.2), (&pieces.0, pieces.2));
    let mut calls: Vec<_> = whole.0.iter().map(|(call, _)| *call).collect();
    calls.sort_unstable();
    assert_eq!(calls, [0, 1, 2, 3]);
});

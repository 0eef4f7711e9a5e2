//! A conversation that is cut off, or in which the server goes away or resets a stream, at every
//! byte: each call ends exactly once, and is never called unprocessed if the server may have seen it.

use http2::frame::{
    FRAME_HEADER_BYTES, FrameHeader, write_data, write_go_away, write_headers, write_reset,
    write_settings,
};
use http2::hpack::{Indexing, write_indexed, write_literal};
use http2::{Http2Client, Http2ClientOptions, Http2ErrorCode, RequestHead, StreamCall, StreamEnd};

const CALLS: u32 = 6;

struct StreamId(u32);

impl StreamCall for StreamId {
    fn on_field(&mut self, _: &[u8], _: &[u8]) {}
}

/// How each stream ended, in order.
type Ends = Vec<(u32, String)>;

fn client() -> Http2Client<StreamId> {
    let head = RequestHead::new([(":method", "POST"), (":path", "/bid")]);
    let options = Http2ClientOptions { body_bytes_max: 4096, streams_max: 16, small_frames_max: 8 };
    let mut client = Http2Client::new(&head, options);
    for call in 0..CALLS {
        let stream = client.request(StreamId(2 * call + 1), &[], 5, std::iter::once(&b"hello"[..]));
        assert!(stream.is_ok());
    }
    client.mark_sent();
    client
}

/// The server's frames: heads and bodies of all answers, interleaved.
fn conversation() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut frame = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        write(&mut bytes);
        frames.push(bytes);
    };
    frame(&|out| write_settings(out, &[]));
    let streams = [3, 1, 11, 5, 7, 9];
    for stream in streams {
        frame(&|out| {
            let mut block = Vec::new();
            write_indexed(&mut block, 8);
            let value = stream.to_string();
            write_literal(&mut block, b"x-stream", value.as_bytes(), Indexing::Incremental);
            write_headers(out, stream, &block, false);
        });
        frame(&|out| write_data(out, stream, b"first ", false));
    }
    for stream in streams {
        frame(&|out| write_data(out, stream, b"last", true));
    }
    frames
}

fn text(end: &StreamEnd<'_>) -> String {
    match end {
        StreamEnd::Response { status, body } => {
            format!("{status} {}", String::from_utf8_lossy(body))
        }
        other => format!("{other:?}"),
    }
}

/// Receives `bytes`, then loses the connection.
fn play(bytes: &[u8]) -> Ends {
    let mut client = client();
    let mut ends = Vec::new();
    let mut on_end = |call: StreamId, end: StreamEnd<'_>| ends.push((call.0, text(&end)));
    client.receive(bytes, &mut on_end).expect("the server is right");
    client.end(Http2ErrorCode::NO_ERROR, &mut on_end);
    let mut ended: Vec<_> = ends.iter().map(|(stream, _)| *stream).collect();
    ended.sort_unstable();
    assert_eq!(ended, (0..CALLS).map(|call| 2 * call + 1).collect::<Vec<_>>());
    ends
}

/// Streams whose last frame is within `bytes`, and those that have begun.
fn answered(bytes: &[u8]) -> (Vec<u32>, Vec<u32>) {
    let (mut whole, mut begun, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some(header) = FrameHeader::read(rest)
        && let Some(next) = rest.get(FRAME_HEADER_BYTES + header.length..)
    {
        if header.flags & 1 != 0 && header.kind == 0 {
            whole.push(header.stream);
        } else if header.kind == 1 {
            begun.push(header.stream);
        }
        rest = next;
    }
    (whole, begun)
}

#[test]
fn a_connection_lost_at_every_byte() {
    let bytes = conversation().concat();
    for cut in 0..=bytes.len() {
        let (whole, begun) = answered(&bytes[..cut]);
        for (stream, end) in play(&bytes[..cut]) {
            let want = if whole.contains(&stream) {
                "200 first last".to_owned()
            } else {
                format!("Lost {{ has_begun: {} }}", begun.contains(&stream))
            };
            assert_eq!(end, want, "stream {stream}, cut at {cut}");
        }
    }
}

#[test]
fn go_away_after_every_frame_with_every_last_stream() {
    let frames = conversation();
    for place in 1..=frames.len() {
        for last in 0..=2 * CALLS {
            let mut go_away = Vec::new();
            write_go_away(&mut go_away, last, Http2ErrorCode::NO_ERROR);
            let before = frames[..place].concat();
            let bytes = [before.clone(), go_away, frames[place..].concat()].concat();
            let (whole, _) = answered(&before);
            for (stream, end) in play(&bytes) {
                let want = match whole.contains(&stream) || stream <= last {
                    true => "200 first last",
                    false => "Unprocessed",
                };
                assert_eq!(end, want, "stream {stream}, last {last} after {place} frames");
            }
        }
    }
}

#[test]
fn a_reset_of_every_stream_after_every_frame() {
    let frames = conversation();
    let codes = [Http2ErrorCode::REFUSED_STREAM, Http2ErrorCode::INTERNAL_ERROR];
    for place in 1..=frames.len() {
        for (reset, code) in (0..CALLS).flat_map(|call| codes.map(|code| (2 * call + 1, code))) {
            let mut frame = Vec::new();
            write_reset(&mut frame, reset, code);
            let before = frames[..place].concat();
            let bytes = [before.clone(), frame, frames[place..].concat()].concat();
            let (whole, begun) = answered(&before);
            for (stream, end) in play(&bytes) {
                let is_refused = code == Http2ErrorCode::REFUSED_STREAM && !begun.contains(&stream);
                let want = match stream == reset && !whole.contains(&stream) {
                    true if is_refused => "Unprocessed".to_owned(),
                    true => format!("Reset({code:?})"),
                    false => "200 first last".to_owned(),
                };
                assert_eq!(end, want, "stream {stream}, {reset} reset after {place} frames");
            }
        }
    }
}

/// What was not handed to the transport was not seen.
#[test]
fn calls_that_were_never_sent_are_unprocessed() {
    for sent in 0..=CALLS {
        let head = RequestHead::new([(":method", "POST"), (":path", "/bid")]);
        let options =
            Http2ClientOptions { body_bytes_max: 4096, streams_max: 16, small_frames_max: 8 };
        let mut client = Http2Client::new(&head, options);
        for call in 0..CALLS {
            if call == sent {
                client.mark_sent();
            }
            let asked = client.request(StreamId(2 * call + 1), &[], 2, std::iter::once(&b"{}"[..]));
            assert!(asked.is_ok());
        }
        if sent == CALLS {
            client.mark_sent();
        }
        client.end(Http2ErrorCode::NO_ERROR, |call, end| {
            let want = match call.0 < 2 * sent + 1 {
                true => StreamEnd::Lost { has_begun: false },
                false => StreamEnd::Unprocessed,
            };
            assert_eq!(end, want, "stream {}, {sent} sent", call.0);
        });
    }
}

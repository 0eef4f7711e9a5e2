//! What a server may send, frame by frame, and what becomes of the calls.

use super::*;
use crate::frame::{FrameType, write_data, write_go_away, write_headers, write_ping, write_reset};
use crate::frame::{write_settings, write_window_update};
use crate::hpack::{Indexing, write_indexed, write_literal};

const BODY_MAX: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
struct TestCall(&'static str);

impl StreamCall for TestCall {
    fn on_field(&mut self, _: &[u8], _: &[u8]) {}
}

type TestClient = Http2Client<TestCall>;

/// A client with two open streams, 1 and 3, whose requests are sent.
fn client() -> TestClient {
    let head = RequestHead::new([(":method", "POST"), (":path", "/bid"), ("x-key", "k")]);
    let options =
        Http2ClientOptions { body_bytes_max: BODY_MAX, streams_max: 4, small_frames_max: 3 };
    let mut client = TestClient::new(&head, options);
    for name in ["one", "three"] {
        ask(&mut client, name).expect("there is room");
    }
    client.mark_sent();
    client
}

fn ask(client: &mut TestClient, name: &'static str) -> Result<u32, StreamRefusal> {
    let asked = client.request(TestCall(name), &[], 5, [&b"he"[..], b"llo"].into_iter());
    asked.map_err(|(_, refusal)| refusal)
}

/// The server's SETTINGS, and what `write` adds.
fn frames(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_settings(&mut bytes, &[]);
    write(&mut bytes);
    bytes
}

/// A header block of `:status` 200 and `fields`.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    write_indexed(&mut block, 8);
    for (name, value) in fields {
        write_literal(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Without);
    }
    block
}

fn text(end: &StreamEnd<'_>) -> String {
    match end {
        StreamEnd::Response { status, body } => {
            format!("{status} {}", String::from_utf8_lossy(body))
        }
        other => format!("{other:?}"),
    }
}

/// Receives `bytes`, whole and one by one; both must do the same.
fn receive(bytes: &[u8]) -> (Vec<String>, Result<(), Http2Error>, TestClient) {
    let receive_by = |size: usize| {
        let (mut client, mut ends) = (client(), Vec::new());
        let mut on_end = |call: TestCall, end: StreamEnd<'_>| {
            ends.push(format!("{}: {}", call.0, text(&end)));
        };
        let received = bytes.chunks(size).try_for_each(|it| client.receive(it, &mut on_end));
        (ends, received, client)
    };
    let (ends, received, client) = receive_by(bytes.len());
    let (pieces, received_in_pieces, client_of_pieces) = receive_by(1);
    assert_eq!((&ends, received), (&pieces, received_in_pieces));
    assert_eq!(client.output(), client_of_pieces.output());
    (ends, received, client)
}

#[test]
fn responses_come_in_any_order_and_any_number_of_frames() {
    let bytes = frames(|out| {
        write_headers(out, 3, &block(&[("content-length", "4")]), false);
        write_headers(out, 1, &[0x89], true);
        write_data(out, 3, b"ab", false);
        write_data(out, 3, b"", false);
        write_data(out, 3, b"cd", true);
    });
    let (ends, received, mut client) = receive(&bytes);
    assert_eq!(
        (ends, received),
        (vec!["one: 204 ".to_owned(), "three: 200 abcd".to_owned()], Ok(()))
    );
    assert_eq!(client.streams_len(), 0);
    assert_eq!(ask(&mut client, "five"), Ok(5));
}

#[test]
fn padding_priority_interim_heads_and_trailers_are_taken() {
    let bytes = frames(|out| {
        let mut interim = Vec::new();
        write_literal(&mut interim, b":status", b"103", Indexing::Without);
        write_headers(out, 1, &interim, false);
        // Padded by two bytes, with a priority.
        let mut payload = vec![2, 0, 0, 0, 0, 9];
        payload.extend(block(&[]));
        payload.extend([0, 0]);
        let header =
            FrameHeader { length: payload.len(), kind: 1, flags: 0x4 | 0x8 | 0x20, stream: 1 };
        out.extend(header.to_bytes());
        out.extend(payload);
        write_data(out, 1, b"body", false);
        let mut trailers = Vec::new();
        write_literal(&mut trailers, b"x-sum", b"7", Indexing::Without);
        write_headers(out, 1, &trailers, true);
    });
    let (ends, received, _) = receive(&bytes);
    assert_eq!((ends, received), (vec!["one: 200 body".to_owned()], Ok(())));
}

/// What ends one stream leaves the other alone.
#[test]
fn a_bad_response_ends_its_stream_only() {
    let check = |want: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let bytes = frames(|out| {
            write(out);
            write_headers(out, 3, &[0x89], true);
        });
        let (ends, received, _) = receive(&bytes);
        assert_eq!(received, Ok(()), "{want}");
        assert_eq!(ends.len(), 2, "{ends:?}");
        assert!(ends[0].starts_with(&format!("one: {want}")), "{ends:?}, not {want}");
        assert_eq!(ends[1], "three: 204 ");
    };
    let head = |out: &mut Vec<u8>, fields: &[(&str, &str)], end| {
        write_headers(out, 1, &block(fields), end);
    };
    check("Malformed", &|out| write_data(out, 1, b"x", true));
    check("Malformed", &|out| head(out, &[("content-length", "3")], true));
    check("Malformed", &|out| head(out, &[("content-length", "3x")], false));
    check("Malformed", &|out| {
        head(out, &[("content-length", "1"), ("content-length", "2")], false);
    });
    check("Malformed", &|out| head(out, &[("Upper", "x")], false));
    check("Malformed", &|out| head(out, &[("connection", "close")], false));
    check("Malformed", &|out| head(out, &[("transfer-encoding", "chunked")], false));
    check("Malformed", &|out| head(out, &[(":status", "200")], false));
    check("Malformed", &|out| head(out, &[(":path", "/")], false));
    check("Malformed", &|out| write_headers(out, 1, &[], true));
    check("Malformed", &|out| {
        let mut switch = Vec::new();
        write_literal(&mut switch, b":status", b"101", Indexing::Without);
        write_headers(out, 1, &switch, false);
    });
    check("Malformed", &|out| {
        head(out, &[], false);
        head(out, &[], true); // Trailers with a status.
    });
    check("HeadTooLarge", &|out| head(out, &[("x", "y"); HEAD_FIELDS_MAX], false));
    // A small block that is large once decoded.
    check("HeadTooLarge", &|out| {
        let mut bomb = block(&[]);
        write_literal(&mut bomb, b"x", &[b'y'; 4_000], Indexing::Incremental);
        bomb.extend([0xbe; 12_000]);
        write_headers(out, 1, &bomb, false);
    });
    check("HeadTooLarge", &|out| {
        let mut interim = Vec::new();
        write_literal(&mut interim, b":status", b"100", Indexing::Without);
        for _ in 0..=INTERIM_MAX {
            write_headers(out, 1, &interim, false);
        }
    });
    check("BodyTooLarge", &|out| head(out, &[("content-length", "1001")], false));
    check("BodyTooLarge", &|out| {
        head(out, &[], false);
        write_data(out, 1, &[b'x'; BODY_MAX], false);
        write_data(out, 1, b"y", true);
    });
    check("Trickle", &|out| {
        head(out, &[], false);
        for _ in 0..4 {
            write_data(out, 1, b"x", false);
        }
    });
    check("Reset(Http2ErrorCode(2))", &|out| {
        head(out, &[], false);
        write_reset(out, 1, Http2ErrorCode::INTERNAL_ERROR);
    });
    check("Unprocessed", &|out| write_reset(out, 1, Http2ErrorCode::REFUSED_STREAM));
    // It has begun to answer, so it has seen the request.
    check("Reset(Http2ErrorCode(7))", &|out| {
        head(out, &[], false);
        write_reset(out, 1, Http2ErrorCode::REFUSED_STREAM);
    });
}

#[test]
fn a_body_of_the_largest_size_is_taken() {
    let bytes = frames(|out| {
        write_headers(out, 1, &block(&[("content-length", "1000")]), false);
        write_data(out, 1, &[b'x'; BODY_MAX], true);
    });
    assert_eq!(receive(&bytes).0, [format!("one: 200 {}", "x".repeat(BODY_MAX))]);
}

/// Asserts that `bytes` end the connection with GOAWAY of this code.
fn check_violation(want: Http2ErrorCode, bytes: &[u8]) {
    let (_, received, mut client) = receive(bytes);
    let error = received.expect_err("it is a violation");
    assert_eq!(error.code, want, "{error}");
    let mut go_away = Vec::new();
    write_go_away(&mut go_away, 0, want);
    client.end(error.code, |_, _| ());
    client.end(Http2ErrorCode::NO_ERROR, |_, _| panic!("they have ended"));
    assert_eq!(client.output(), go_away, "{error}");
}

/// The server's SETTINGS, and one frame.
fn raw(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    frames(|out| {
        let header = FrameHeader { length: payload.len(), kind: kind as u8, flags, stream };
        out.extend(header.to_bytes());
        out.extend_from_slice(payload);
    })
}

#[test]
fn a_malformed_frame_ends_the_connection() {
    let protocol = Http2ErrorCode::PROTOCOL_ERROR;
    let size = Http2ErrorCode::FRAME_SIZE_ERROR;
    check_violation(protocol, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    check_violation(protocol, &raw(FrameType::PushPromise, 4, 1, &[0; 8]));
    for (kind, stream, payload) in [
        (FrameType::ResetStream, 1, 3),
        (FrameType::ResetStream, 1, 5),
        (FrameType::Settings, 0, 5),
        (FrameType::Ping, 0, 7),
        (FrameType::Ping, 0, 9),
        (FrameType::GoAway, 0, 7),
        (FrameType::WindowUpdate, 0, 3),
        (FrameType::Priority, 1, 4),
    ] {
        check_violation(size, &raw(kind, 0, stream, &vec![0; payload]));
    }
    check_violation(size, &raw(FrameType::Settings, frame::ACK, 0, &[0; 6]));
    check_violation(size, &raw(FrameType::Data, 0x8, 1, &[]));
    check_violation(size, &raw(FrameType::Headers, 0x24, 1, &[0; 4]));
    check_violation(size, &raw(FrameType::Data, 0, 1, &[0; PAYLOAD_BYTES_MAX + 1]));
    check_violation(protocol, &raw(FrameType::Data, 0x8, 1, &[4, 0, 0, 0]));
    // On the wrong kind of stream, or on one that never was.
    for kind in [FrameType::Data, FrameType::Headers, FrameType::Continuation] {
        check_violation(protocol, &raw(kind, 0x4, 0, &[0x88]));
    }
    for (kind, payload) in [(FrameType::Settings, 6), (FrameType::Ping, 8), (FrameType::GoAway, 8)]
    {
        check_violation(protocol, &raw(kind, 0, 1, &vec![0; payload]));
    }
    for stream in [2, 5] {
        check_violation(protocol, &raw(FrameType::Headers, 0x4, stream, &[0x88]));
        check_violation(protocol, &raw(FrameType::Data, 0, stream, b"x"));
        check_violation(protocol, &raw(FrameType::ResetStream, 0, stream, &[0; 4]));
        check_violation(protocol, &raw(FrameType::WindowUpdate, 0, stream, &[0, 0, 0, 1]));
    }
}

#[test]
fn a_broken_header_block_ends_the_connection() {
    let protocol = Http2ErrorCode::PROTOCOL_ERROR;
    // Header blocks that are interrupted, never began, or end within a field.
    check_violation(protocol, &raw(FrameType::Continuation, 0x4, 1, &[0x88]));
    check_violation(
        protocol,
        &frames(|out| {
            out.extend(FrameHeader { length: 1, kind: 1, flags: 0, stream: 1 }.to_bytes());
            out.push(0x88);
            write_ping(out, [0; 8], false);
        }),
    );
    check_violation(
        protocol,
        &frames(|out| {
            out.extend(FrameHeader { length: 1, kind: 1, flags: 0, stream: 1 }.to_bytes());
            out.push(0x88);
            out.extend(FrameHeader { length: 0, kind: 9, flags: 4, stream: 3 }.to_bytes());
        }),
    );
    let compression = Http2ErrorCode::COMPRESSION_ERROR;
    for block in [&[0x80][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0x40, 0x05, b'a'], &[0xbe]]
    {
        check_violation(compression, &raw(FrameType::Headers, 0x4, 1, block));
    }
}

#[test]
fn wrong_windows_and_settings_end_the_connection() {
    let protocol = Http2ErrorCode::PROTOCOL_ERROR;
    let flow = Http2ErrorCode::FLOW_CONTROL_ERROR;
    check_violation(protocol, &frames(|out| write_window_update(out, 0, 0)));
    check_violation(flow, &frames(|out| write_window_update(out, 0, WINDOW_MAX)));
    for (identifier, value, want) in [
        (SETTING_ENABLE_PUSH, 1, protocol),
        (SETTING_INITIAL_WINDOW_SIZE, WINDOW_MAX + 1, flow),
        (SETTING_MAX_FRAME_SIZE, 16_383, protocol),
        (SETTING_MAX_FRAME_SIZE, 1 << 24, protocol),
    ] {
        check_violation(want, &frames(|out| write_settings(out, &[(identifier, value)])));
    }
}

#[test]
fn a_flood_ends_the_connection() {
    let calm = Http2ErrorCode::ENHANCE_YOUR_CALM;
    check_violation(calm, &frames(|out| (0..3_000).for_each(|_| write_ping(out, [0; 8], false))));
    check_violation(calm, &frames(|out| (0..3_000).for_each(|_| write_settings(out, &[]))));
    check_violation(
        calm,
        &frames(|out| {
            out.extend(FrameHeader { length: 0, kind: 1, flags: 0, stream: 1 }.to_bytes());
            let empty = FrameHeader { length: 0, kind: 9, flags: 0, stream: 1 };
            (0..3_000).for_each(|_| out.extend(empty.to_bytes()));
        }),
    );
    check_violation(
        calm,
        &frames(|out| {
            let piece = vec![0x88; 9_000];
            let mut part = |kind, flags| {
                out.extend(FrameHeader { length: 9_000, kind, flags, stream: 1 }.to_bytes());
                out.extend_from_slice(&piece);
            };
            part(1, 0);
            part(9, 4);
        }),
    );
    // Nothing holds DATA of a cancelled stream, but the window is not endless.
    check_violation(
        calm,
        &frames(|out| {
            write_headers(out, 1, &[0x89], true);
            (0..3_000).for_each(|_| write_data(out, 1, b"", false));
        }),
    );
}

#[test]
fn the_first_frame_must_be_settings() {
    let mut bytes = Vec::new();
    write_ping(&mut bytes, [0; 8], false);
    let (ends, received, _) = receive(&bytes);
    assert_eq!(ends, Vec::<String>::new());
    assert_eq!(received.map_err(|error| error.code), Err(Http2ErrorCode::PROTOCOL_ERROR));
}

#[test]
fn a_ping_and_settings_are_answered() {
    let bytes = frames(|out| {
        write_ping(out, *b"12345678", false);
        write_ping(out, *b"87654321", true);
    });
    let mut want = Vec::new();
    frame::write_settings_ack(&mut want);
    write_ping(&mut want, *b"12345678", true);
    assert_eq!(receive(&bytes).2.output(), want);
}

#[test]
fn go_away_ends_what_the_server_did_not_process() {
    let bytes = frames(|out| {
        write_go_away(out, 1, Http2ErrorCode::NO_ERROR);
        write_headers(out, 1, &[0x89], true);
    });
    let (ends, received, mut client) = receive(&bytes);
    assert_eq!(ends, ["three: Unprocessed", "one: 204 "]);
    assert_eq!(received, Ok(()));
    assert!(client.is_going_away());
    assert_eq!(ask(&mut client, "five"), Err(StreamRefusal::GoingAway));
}

#[test]
fn a_lost_connection_tells_what_the_server_may_have_seen() {
    let mut client = client();
    ask(&mut client, "five").expect("there is room");
    client.receive(&frames(|out| write_headers(out, 3, &[0x88], false)), &mut |_, _| ()).unwrap();
    let mut ends = Vec::new();
    client.end(Http2ErrorCode::NO_ERROR, |call, end| {
        ends.push(format!("{}: {}", call.0, text(&end)));
    });
    assert_eq!(
        ends,
        ["one: Lost { has_begun: false }", "three: Lost { has_begun: true }", "five: Unprocessed"]
    );
}

#[test]
fn a_cancelled_stream_is_reset_and_its_frames_are_ignored() {
    let mut client = client();
    assert_eq!(client.cancel(1), Some(TestCall("one")));
    assert_eq!(client.cancel(1), None);
    let mut want = Vec::new();
    write_reset(&mut want, 1, Http2ErrorCode::CANCEL);
    assert_eq!(client.output(), want);
    let bytes = frames(|out| {
        // Its block changes the table all the same: a later one refers to it.
        let mut keeps = vec![0x88];
        write_literal(&mut keeps, b"x-a", b"b", Indexing::Incremental);
        write_headers(out, 1, &keeps, false);
        write_data(out, 1, b"late", true);
        write_headers(out, 3, &[0x88, 0xbe], true);
    });
    let mut ends = Vec::new();
    let received = client.receive(&bytes, &mut |call, end| ends.push((call, text(&end))));
    assert_eq!(received, Ok(()));
    assert_eq!(ends, [(TestCall("three"), "200 ".to_owned())]);
}

#[test]
fn limits_of_streams_and_windows_refuse_requests() {
    let settings = |settings: &[(u16, u32)]| {
        let mut client = client();
        let mut bytes = Vec::new();
        write_settings(&mut bytes, settings);
        client.receive(&bytes, &mut |_, _| ()).expect("they are valid");
        client
    };
    // Ours, then the server's: two streams are open.
    let mut client = settings(&[]);
    assert_eq!([ask(&mut client, "five"), ask(&mut client, "seven")], [Ok(5), Ok(7)]);
    assert_eq!(ask(&mut client, "nine"), Err(StreamRefusal::StreamLimit));
    let mut client = settings(&[(SETTING_MAX_CONCURRENT_STREAMS, 3)]);
    assert_eq!(ask(&mut client, "five"), Ok(5));
    assert_eq!(ask(&mut client, "seven"), Err(StreamRefusal::StreamLimit));
    // A request has five bytes.
    let mut client = settings(&[(SETTING_INITIAL_WINDOW_SIZE, 4)]);
    assert_eq!(ask(&mut client, "five"), Err(StreamRefusal::Window));
    let mut client = settings(&[(SETTING_INITIAL_WINDOW_SIZE, 5)]);
    assert_eq!(ask(&mut client, "five"), Ok(5));
    // The connection's window is that of all requests together.
    let mut client = settings(&[]);
    assert_eq!(client.room(65_535 - 10), Ok(()));
    assert_eq!(client.room(65_535 - 9), Err(StreamRefusal::Window));
    let mut more = Vec::new();
    write_window_update(&mut more, 0, 9);
    client.receive(&more, &mut |_, _| ()).expect("it is valid");
    assert_eq!(client.room(65_535), Err(StreamRefusal::Window));
    assert_eq!(client.room(65_534), Ok(()));
}

/// A body that is held takes from the connection's window until its stream ends.
#[test]
fn the_connection_s_window_is_given_back_in_halves() {
    const FRAMES: usize = 20;
    let head = RequestHead::new([(":method", "POST")]);
    let options =
        Http2ClientOptions { body_bytes_max: 400_000, streams_max: 9, small_frames_max: 3 };
    let mut client = TestClient::new(&head, options);
    for name in ["one", "three"] {
        ask(&mut client, name).expect("there is room");
    }
    client.mark_sent();
    // Two bodies of 327,680 bytes: together more than half of the window of 1 MiB.
    let mut bytes = frames(|out| {
        for stream in [1, 3] {
            write_headers(out, stream, &block(&[]), false);
            (0..FRAMES).for_each(|_| write_data(out, stream, &[b'x'; PAYLOAD_BYTES_MAX], false));
        }
    });
    client.receive(&bytes, &mut |_, _| ()).expect("they are valid");
    let mut want = Vec::new();
    frame::write_settings_ack(&mut want);
    assert_eq!(client.output(), want, "both are held");
    bytes.clear();
    write_data(&mut bytes, 1, b"", true);
    client.receive(&bytes, &mut |_, _| ()).expect("it is valid");
    assert_eq!(client.output(), want, "less than half is free");
    client.cancel(3);
    write_reset(&mut want, 3, Http2ErrorCode::CANCEL);
    write_window_update(&mut want, 0, 2 * 327_680);
    assert_eq!(client.output(), want);
}

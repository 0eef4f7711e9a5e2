//! Auctions as a collector on a real socket sees them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message as _;
use runtime::control::Control;
use runtime::traces::TracingOptions;

use super::*;

const ID: &str = "0123456789abcdef000000000000002a";
const PATIENCE: Duration = Duration::from_secs(20);

/// The spans that `record` traces, as sent.
fn traced(record: impl FnOnce(&Tracer)) -> Vec<otlp::Span> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (told, posted) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the exporter connects");
        let mut bytes = Vec::new();
        let body = loop {
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).expect("the exporter sends");
            bytes.extend_from_slice(&buffer[..read]);
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&bytes[..end]);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if bytes.len() == end + 4 + length {
                break bytes.split_off(end + 4);
            }
        };
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).expect("the exporter reads");
        told.send(ExportTraceServiceRequest::decode(&*body).expect("OTLP")).expect("it is awaited");
    });
    let text = format!("endpoint = \"http://{address}/v1/traces\"\nsample = \"100%\"");
    let options = runtime::config::parse("t.toml", &text, TracingOptions::read).expect("good keys");
    let control = Control::start().expect("a thread");
    let (tracer, exporting) = runtime::traces::start(options, &control);
    record(&tracer);
    exporting.stop();
    let request = posted.recv_timeout(PATIENCE).expect("the exporter posts");
    let scopes = request.resource_spans.into_iter().flat_map(|of| of.scope_spans);
    scopes.flat_map(|of| of.spans).collect()
}

fn named<'s>(spans: &'s [otlp::Span], name: &str) -> &'s otlp::Span {
    spans.iter().find(|span| span.name == name).expect("a span of this name")
}

fn said<'s>(span: &'s otlp::Span, key: &str) -> &'s str {
    let found = span.attributes.iter().find(|of| of.key == key).expect("an attribute");
    match found.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{key} is no text but {other:?}"),
    }
}

#[test]
fn an_auction_with_its_calls() {
    let arrival = Instant::now();
    let at = |ms| arrival + Duration::from_millis(ms);
    let timings = AuctionTimings {
        arrival,
        received: at(1),
        parsed: at(2),
        asked: Some(at(3)),
        collected: Some(at(90)),
        cleared: Some(at(95)),
        answered: at(96),
    };
    let calls = [
        TracedCalls { dsp: "quick", outcome: CallOutcome::Answered, ended: Some(at(20)) },
        TracedCalls { dsp: "slow", outcome: CallOutcome::Late, ended: None },
    ];
    let spans = traced(|tracer| {
        AuctionTrace { tracer, id: ID, traceparent: None }.record(&timings, "filled", calls);
    });
    assert_eq!(spans.len(), 9);
    let root = named(&spans, "auction");
    assert_eq!(root.trace_id, 0x0123_4567_89ab_cdef_0000_0000_0000_002a_u128.to_be_bytes());
    assert_eq!((said(root, "outcome"), root.kind()), ("filled", otlp::span::SpanKind::Server));
    let ms = |nanos: u64| (nanos - root.start_time_unix_nano) / 1_000_000;
    let times = |span: &otlp::Span| (ms(span.start_time_unix_nano), ms(span.end_time_unix_nano));
    assert_eq!(times(root), (0, 96));
    for (name, from, to) in [
        ("receive", 0, 1),
        ("parse", 1, 2),
        ("ask", 2, 3),
        ("collect", 3, 90),
        ("clear", 90, 95),
        ("answer", 95, 96),
    ] {
        let span = named(&spans, name);
        assert_eq!((&span.parent_span_id, times(span)), (&root.span_id, (from, to)), "{name}");
    }
    let collect = named(&spans, "collect");
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "call").collect();
    let failed = otlp::status::StatusCode::Error;
    for (call, dsp, outcome, to, status) in
        [(calls[0], "quick", "answered", 20, None), (calls[1], "slow", "late", 90, Some(failed))]
    {
        assert_eq!((said(call, "dsp"), said(call, "outcome")), (dsp, outcome));
        assert_eq!((&call.parent_span_id, times(call)), (&collect.span_id, (3, to)), "{dsp}");
        assert_eq!(call.status.as_ref().map(otlp::Status::code), status, "{dsp}");
    }
}

#[test]
fn an_auction_that_ends_early() {
    let arrival = Instant::now();
    let at = |ms| arrival + Duration::from_millis(ms);
    let timings = AuctionTimings {
        arrival,
        received: at(1),
        parsed: at(2),
        asked: None,
        collected: None,
        cleared: None,
        answered: at(4),
    };
    let caller = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let spans = traced(|tracer| {
        AuctionTrace { tracer, id: ID, traceparent: Some(caller) }.record(
            &timings,
            "no_eligible_dsp",
            [],
        );
    });
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["receive", "parse", "ask", "auction"]);
    assert_eq!(spans[3].parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!(spans[2].end_time_unix_nano, spans[3].end_time_unix_nano);
}

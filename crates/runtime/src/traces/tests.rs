//! Traces sent over a real socket to a healthy, failing or dead collector.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message as _;

use super::queue::SpanCounts;
use super::*;
use crate::config::{Section, parse};

const PATIENCE: Duration = Duration::from_secs(20);

const ID: u128 = 0x0123_4567_89ab_cdef_0000_0000_0000_002a;

/// A request as the collector received it.
struct Posted {
    head: String,
    request: ExportTraceServiceRequest,
}

impl Posted {
    fn spans(&self) -> Vec<&otlp::Span> {
        let resources = self.request.resource_spans.iter();
        resources.flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans).collect()
    }

    fn span(&self, name: &str) -> &otlp::Span {
        let spans = self.spans();
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no span `{name}` among {spans:?}"))
    }
}

/// A collector with one response per request; the last response repeats.
struct Collector {
    address: SocketAddr,
    posted: Receiver<Posted>,
}

impl Collector {
    fn start(answers: Vec<(u16, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (told, posted) = channel();
        std::thread::spawn(move || {
            for turn in 0.. {
                let Ok((stream, _)) = listener.accept() else { return };
                let answer = &answers[turn.min(answers.len() - 1)];
                if serve(stream, answer, &told).is_none() {
                    return;
                }
            }
        });
        Self { address, posted }
    }

    fn sound() -> Self {
        Self::start(vec![(200, Vec::new())])
    }

    fn next(&self) -> Posted {
        self.posted.recv_timeout(PATIENCE).expect("the exporter posts")
    }
}

/// Reads one request and answers it. None once the test has ended.
fn serve(mut stream: TcpStream, answer: &(u16, Vec<u8>), told: &Sender<Posted>) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).expect("the exporter sends a request");
        assert!(read > 0, "the exporter hung up in the middle of a request");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end + 2].to_vec()).expect("a head in ASCII");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        if bytes.len() == end + 4 + length {
            break (head, bytes.split_off(end + 4));
        }
    };
    let request = ExportTraceServiceRequest::decode(&*body).expect("OTLP");
    let (status, body) = answer;
    let head_back = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head_back.as_bytes(), body].concat()).expect("the exporter reads");
    told.send(Posted { head, request }).ok()
}

fn options(address: SocketAddr, more: &str) -> TracingOptions {
    let text = format!("endpoint = \"http://{address}/v1/traces\"\nsample = \"100%\"\n{more}");
    parse("tracing.toml", &text, TracingOptions::read).unwrap_or_else(|found| panic!("{found}"))
}

/// A tracer and the thread it runs on.
fn start_on(options: TracingOptions) -> (Tracer, TraceExport, Control) {
    let control = Control::start().expect("a thread");
    let (tracer, exporting) = start(options, &control);
    (tracer, exporting, control)
}

fn started(address: SocketAddr) -> (Tracer, TraceExport, Control) {
    start_on(options(address, ""))
}

/// Finishes a trace of one span.
fn trace_once(tracer: &Tracer, id: u128) {
    let now = Instant::now();
    tracer.sample(id, None).expect("all are sampled").finish(TraceSpan::new("work", now, now));
}

/// Spans by outcome, in the order of the page, then those that wait.
fn counted(tracer: &Tracer) -> [u64; 6] {
    let queue = &tracer.0.as_ref().expect("it is on").queue;
    let SpanCounts { exported, rejected, refused, unreachable, dropped } = &queue.counts;
    let [a, b, c, d, e] = [exported, rejected, refused, unreachable, dropped]
        .map(|count| count.load(Ordering::SeqCst));
    [a, b, c, d, e, queue.waiting.load(Ordering::SeqCst) as u64]
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn said(attributes: &[KeyValue], key: &str) -> Option<any_value::Value> {
    attributes.iter().find(|of| of.key == key)?.value.clone()?.value
}

#[test]
fn a_trace_as_the_collector_sees_it() {
    let collector = Collector::sound();
    let more = "service_name = \"bidding\"\nheaders = { x-key = \"hidden\" }";
    let (tracer, exporting, _control) = start_on(options(collector.address, more));
    let before = SystemTime::now();
    let arrival = Instant::now();
    let at = |ms| arrival + Duration::from_millis(ms);
    let mut trace = tracer.sample(ID, None).unwrap();
    let root = trace.root();
    trace.add(root, TraceSpan::new("parse", at(0), at(1)));
    let collect = trace.add(root, TraceSpan::new("collect", at(2), at(90)));
    let call = TraceSpan::new("call", at(2), at(80)).of_kind(SpanRole::Client).failed(true);
    trace.add(collect, call.with("dsp", "acme").with("status", 503_i64).with("late", true));
    trace.finish(TraceSpan::new("auction", at(0), at(100)).of_kind(SpanRole::Server));
    exporting.stop();
    let after = SystemTime::now();
    let posted = collector.next();
    assert!(posted.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", posted.head);
    for line in [
        &format!("host: {}", collector.address),
        "content-type: application/x-protobuf",
        "x-key: hidden",
    ] {
        assert!(posted.head.lines().any(|found| found == line), "{line} in {}", posted.head);
    }
    let resource = posted.request.resource_spans[0].resource.as_ref().unwrap();
    let name = any_value::Value::StringValue("bidding".to_owned());
    assert_eq!(said(&resource.attributes, "service.name"), Some(name));

    assert_eq!(posted.spans().len(), 4);
    let [root, parse, collect, call] =
        ["auction", "parse", "collect", "call"].map(|name| posted.span(name));
    for (span, above, kind) in [
        (root, &Vec::new(), otlp::span::SpanKind::Server),
        (parse, &root.span_id, otlp::span::SpanKind::Internal),
        (collect, &root.span_id, otlp::span::SpanKind::Internal),
        (call, &collect.span_id, otlp::span::SpanKind::Client),
    ] {
        assert_eq!(span.trace_id, ID.to_be_bytes(), "{}", span.name);
        assert_eq!((&span.parent_span_id, span.kind()), (above, kind), "{}", span.name);
        assert_eq!((span.span_id.len(), span.flags), (8, 0x101), "{}", span.name);
    }
    let mut ids: Vec<_> = posted.spans().iter().map(|span| span.span_id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    let ms = |from: u64, to: u64| (to - from) / 1_000_000;
    let start = root.start_time_unix_nano;
    for (span, from, to) in [(root, 0, 100), (parse, 0, 1), (collect, 2, 90), (call, 2, 80)] {
        let times = (ms(start, span.start_time_unix_nano), ms(start, span.end_time_unix_nano));
        assert_eq!(times, (from, to), "{}", span.name);
    }
    let unix = |moment: SystemTime| moment.duration_since(UNIX_EPOCH).unwrap().as_nanos();
    assert!((unix(before)..=unix(after)).contains(&u128::from(start)));
    assert_eq!(call.status.as_ref().unwrap().code(), otlp::status::StatusCode::Error);
    assert_eq!(collect.status, None);
    let said = ["dsp", "status", "late"].map(|key| said(&call.attributes, key));
    let want = [
        any_value::Value::StringValue("acme".to_owned()),
        any_value::Value::IntValue(503),
        any_value::Value::BoolValue(true),
    ];
    assert_eq!(said, want.map(Some));
    assert_eq!(counted(&tracer), [4, 0, 0, 0, 0, 0]);
}

#[test]
fn a_callers_trace_goes_on() {
    let collector = Collector::sound();
    let (tracer, exporting, _control) = started(collector.address);
    tracer.set_sample(Ppm::ZERO);
    let sampled = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let unsampled = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    assert!(tracer.sample(ID, None).is_none());
    assert!(tracer.sample(ID, Some(unsampled)).is_none());
    assert!(tracer.sample(ID, Some(b"nonsense")).is_none());
    let now = Instant::now();
    for id in [ID, ID + 1] {
        let mut trace = tracer.sample(id, Some(sampled)).unwrap();
        trace.add(trace.root(), TraceSpan::new("parse", now, now));
        trace.finish(TraceSpan::new("auction", now, now));
    }
    exporting.stop();
    let posted = collector.next();
    let spans = posted.spans();
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!((spans.len(), ids.len()), (4, 4), "two auctions of one caller's trace");
    for span in spans {
        assert_eq!(span.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        if span.name == "auction" {
            assert_eq!(span.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
            assert_eq!(span.flags, 0x301, "its parent is elsewhere");
        }
    }
    let (tracer, exporting, _control) = start_on(options(collector.address, "callers = false"));
    tracer.set_sample(Ppm::ZERO);
    assert!(tracer.sample(ID, Some(sampled)).is_none());
    exporting.stop();
}

#[test]
fn what_is_sampled_is_the_share_and_the_same_everywhere() {
    let ids = || (0..100_000_u128).map(|count| (0xfeed_beef << 64) | count);
    let sampled = |share| ids().filter(|id| is_sampled(*id, share)).collect::<Vec<_>>();
    assert_eq!(sampled(0).len(), 0);
    assert_eq!(sampled(1_000_000).len(), 100_000);
    let tenth = sampled(100_000);
    assert!((9_700..10_300).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(tenth, sampled(100_000));
    let fifth = sampled(200_000);
    assert!(tenth.iter().all(|id| fifth.contains(id)), "a larger share has the smaller one");
    assert!(Tracer::off().sample(ID, None).is_none());
}

/// More spans than the queue takes: nothing blocks, and all are counted.
#[test]
fn a_dead_collector() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (tracer, exporting, _control) = started(nobody);
    let traces = SPANS_WAITING_MAX as u64 + 1000;
    for id in 0..traces {
        trace_once(&tracer, id.into());
    }
    assert!(counted(&tracer)[4] >= 1000, "{:?}", counted(&tracer));
    exporting.stop();
    let [exported, _, _, unreachable, dropped, waiting] = counted(&tracer);
    assert_eq!((exported, waiting), (0, 0));
    assert_eq!(unreachable + dropped, traces);
    trace_once(&tracer, ID);
    assert_eq!(counted(&tracer)[4], dropped + 1, "nobody sends any more");
    let mut page = Exposition::default();
    tracer.expose(&mut page);
    let line = format!("vickrey_tracing_spans_total{{outcome=\"unreachable\"}} {unreachable}\n");
    assert!(page.text().contains(&line), "{}", page.text());
}

#[test]
fn a_collector_that_never_answers() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = options(deaf.local_addr().unwrap(), "");
    let options = TracingOptions { timeout: Duration::from_millis(20), ..options };
    let (tracer, exporting, _control) = start_on(options);
    trace_once(&tracer, ID);
    exporting.stop();
    assert_eq!(counted(&tracer), [0, 0, 0, 1, 0, 0]);
}

#[test]
fn a_busy_collector_gets_the_batch_again() {
    let collector = Collector::start(vec![(503, Vec::new()), (200, Vec::new())]);
    let (tracer, exporting, _control) = started(collector.address);
    trace_once(&tracer, ID);
    let (first, second) = (collector.next(), collector.next());
    assert_eq!(first.span("work").span_id, second.span("work").span_id);
    until("the batch is counted", || counted(&tracer) == [1, 0, 0, 0, 0, 0]);
    exporting.stop();
}

#[test]
fn a_collector_that_refuses() {
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "no".to_owned() };
    let partial = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    for (answer, want) in
        [((400, Vec::new()), [0, 0, 2, 0, 0, 0]), ((200, partial), [1, 1, 0, 0, 0, 0])]
    {
        let collector = Collector::start(vec![answer]);
        let (tracer, exporting, _control) = started(collector.address);
        trace_once(&tracer, ID);
        trace_once(&tracer, ID + 1);
        exporting.stop();
        assert_eq!(counted(&tracer), want);
    }
}

#[test]
fn a_trace_has_a_limit() {
    let collector = Collector::sound();
    let (tracer, exporting, _control) = started(collector.address);
    let now = Instant::now();
    let mut trace = tracer.sample(ID, None).unwrap();
    for _ in 0..SPANS_PER_TRACE_MAX + 9 {
        trace.add(trace.root(), TraceSpan::new("call", now, now));
    }
    trace.finish(TraceSpan::new("auction", now, now));
    exporting.stop();
    assert_eq!(counted(&tracer), [SPANS_PER_TRACE_MAX as u64, 0, 0, 0, 10, 0]);
    assert_eq!(collector.next().span("auction").parent_span_id, Vec::<u8>::new());
}

#[test]
fn what_is_dropped_unfinished_was_never_there() {
    let collector = Collector::sound();
    let (tracer, exporting, _control) = started(collector.address);
    drop(tracer.sample(ID, None).unwrap());
    exporting.stop();
    assert_eq!(counted(&tracer), [0; 6]);
}

#[test]
fn keys() {
    let problems = |text: &str| {
        let read = |s: &mut Section<'_>| TracingOptions::read(s);
        let text = format!("endpoint = \"http://a/\"\n{text}");
        parse("t.toml", &text, read).map_err(|found| found.to_string())
    };
    assert!(
        problems("headers = { host = \"hidden\" }")
            .unwrap_err()
            .contains("is written by the exporter")
    );
    let error = problems("headers = { x = \"a\\nb\" }").unwrap_err();
    assert!(
        error.contains("headers.x: is not a header value") && !error.contains("a\\nb"),
        "{error}"
    );
    let options = problems("headers = { x = \"hidden\" }").unwrap();
    assert!(!format!("{options:?}").contains("hidden"), "{options:?}");
}

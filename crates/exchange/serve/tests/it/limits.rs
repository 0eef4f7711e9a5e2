//! HTTP that is too large, too slow, too much or malformed: it is bounded, answered or closed, and
//! the exchange serves others as before.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::fixtures::{
    Caller, Dsp, Running, Script, Setup, Step, banner, bid, bids, ok, posted, posted_with, until,
};

const BODY_MAX: usize = 4096;

fn start(dsp: &Dsp) -> Running {
    let exchange = "body_max = \"4KiB\"\nbody_timeout = \"100ms\"\nhead_timeout = \"200ms\"\n\
                    idle_timeout = \"200ms\"\nhead_max = \"8KiB\"\n";
    let dsps = [(dsp.address, "")];
    Running::start(&Setup { exchange, dsps: &dsps, ..Setup::default() })
}

#[track_caller]
fn check(request: &[u8], want: u16) {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut caller = exchange.caller();
    caller.send(request);
    let reply = caller.reply();
    assert_eq!(reply.status, want, "{reply:?}");
    if want != 200 {
        assert!(reply.json()["error"]["problem"].is_string(), "{reply:?}");
        assert_eq!(exchange.count(|metrics| metrics.turned_away.value()), 1);
    }
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served");
}

/// A request of exactly this length.
fn padded(bytes: usize) -> String {
    let empty = banner(r#","ext":"""#).len();
    banner(&format!(r#","ext":"{}""#, "x".repeat(bytes - empty)))
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn chunked(body: &str) -> Vec<u8> {
    let head = "POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut request = head.to_owned();
    for chunk in body.as_bytes().chunks(700) {
        let text = std::str::from_utf8(chunk).expect("ASCII");
        request.push_str(&format!("{:x}\r\n{text}\r\n", chunk.len()));
    }
    request.push_str("0\r\n\r\n");
    request.into_bytes()
}

#[test]
fn bodies_have_a_cap() {
    check(&posted(&padded(BODY_MAX)), 200);
    check(&posted(&padded(BODY_MAX + 1)), 413);
    check(&chunked(&padded(BODY_MAX)), 200);
    check(&chunked(&padded(BODY_MAX + 1)), 413);
}

#[test]
fn a_client_that_is_still_sending_reads_the_answer() {
    const LARGE: usize = 1024 * 1024;
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let mut stream = TcpStream::connect(exchange.address).expect("the exchange listens");
    let head =
        format!("POST /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-length: {LARGE}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the exchange reads");
    stream.peek(&mut [0]).expect("the answer, before the body");
    stream.write_all(&vec![b' '; LARGE]).expect("the exchange reads on");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer, and then the end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn methods_paths_and_content_types() {
    check(b"GET /openrtb2/auction HTTP/1.1\r\nhost: x\r\n\r\n", 405);
    check(b"DELETE /openrtb2/auction HTTP/1.1\r\nhost: x\r\n\r\n", 405);
    check(b"POST /openrtb2 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404);
    check(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", 404);
    let with_type = |media_type: &str| {
        posted_with(&format!("content-type: {media_type}\r\n"), banner("").as_bytes())
    };
    check(&with_type("text/html"), 415);
    check(&with_type("application/x-www-form-urlencoded"), 415);
    check(&with_type("text/plain"), 200);
    check(&with_type("TEXT/PLAIN; charset=utf-8"), 200);
    check(&with_type("application/json;charset=utf-8"), 200);
    check(&posted_with("", banner("").as_bytes()), 200);
}

#[test]
fn a_wrong_method_is_told_the_right_one() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut caller = exchange.caller();
    caller.send(b"PUT /openrtb2/auction HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(caller.reply().header("allow"), Some("POST"));
}

#[test]
fn compressed_bodies() {
    let gzip = "content-encoding: gzip\r\n";
    check(&posted_with(gzip, &gzipped(&banner(""))), 200);
    check(&posted_with(gzip, &gzipped(&padded(BODY_MAX))), 200);
    check(&posted_with(gzip, &gzipped(&padded(BODY_MAX + 1))), 400);
    check(&posted_with(gzip, banner("").as_bytes()), 400);
    let whole = gzipped(&banner(""));
    check(&posted_with(gzip, &whole[..whole.len() - 9]), 400);
    // It inflates a thousandfold.
    let bomb = gzipped(&"0".repeat(3 * 1024 * 1024));
    assert!(bomb.len() < BODY_MAX);
    check(&posted_with(gzip, &bomb), 400);
    check(&posted_with("content-encoding: identity\r\n", banner("").as_bytes()), 200);
    check(&posted_with("content-encoding: br\r\n", banner("").as_bytes()), 415);
}

#[test]
fn floods_of_headers() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let with_fields = |count: usize, value: &str| {
        // `host`, `content-length` and these.
        let fields: String = (2..count).map(|n| format!("x-{n}: {value}\r\n")).collect();
        posted_with(&fields, banner("").as_bytes())
    };
    let status = |request: &[u8]| {
        let mut caller = exchange.caller();
        caller.send(request);
        let reply = caller.try_reply().expect("an end");
        let status = reply.map(|reply| reply.status);
        assert!(status == Some(200) || caller.is_closed(), "what is refused is closed");
        status
    };
    assert_eq!(status(&with_fields(64, "v")), Some(200));
    assert_eq!(status(&with_fields(65, "v")), Some(431));
    assert_eq!(status(b"\x16\x03\x01 this is no HTTP\r\n\r\n"), Some(400));
    // Unread bytes cause a reset, which may overtake the response.
    let bounded = |status| matches!(status, Some(414 | 431) | None);
    assert!(bounded(status(&with_fields(60, &"v".repeat(1000)))));
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(20_000));
    assert!(bounded(status(long.as_bytes())));
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served");
}

#[test]
fn slow_heads_are_cut_off() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut slow = exchange.caller();
    slow.send(b"POST /openrtb2/auction HTTP/1.1\r\nhost:");
    let mut silent = exchange.caller();
    let mut idle = exchange.caller();
    assert_eq!(idle.post(&banner("")).status, 200);
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served meanwhile");
    assert!(matches!(slow.try_reply(), Ok(None)) || slow.is_closed());
    assert!(idle.is_closed());
    assert!(silent.is_closed());
}

#[test]
fn slow_bodies_are_told_so() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut slow = exchange.caller();
    let request = posted(&banner(""));
    slow.send(&request[..request.len() - 1]);
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served meanwhile");
    assert_eq!(slow.reply().status, 408);
    assert!(slow.is_closed());
    assert_eq!(exchange.count(|metrics| metrics.turned_away.value()), 1);
    // A request in pieces, but in time, is a normal auction.
    let mut pieces = exchange.caller();
    for piece in request.chunks(40) {
        pieces.send(piece);
    }
    assert_eq!(pieces.reply().status, 200);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut caller = exchange.caller();
    let body = |n: usize| banner("").replace("caller-1", &format!("caller-{n}"));
    let requests: Vec<u8> = (0..20).flat_map(|n| posted(&body(n))).collect();
    caller.send(&requests);
    for n in 0..20 {
        let reply = caller.reply();
        assert_eq!(reply.json()["id"], format!("caller-{n}"));
    }
    caller.finish();
    assert!(caller.is_closed());
}

/// A response must not wait for the next auction, nor for the rest of a request.
#[test]
fn answers_do_not_wait_for_the_next_request() {
    let answer = Step::Write(ok(&bids(&bid("1.00"))).into());
    let script = [Step::Read, answer.clone(), Step::Read, Step::Wait, answer];
    let dsp = Dsp::start([Script::once(script)]);
    let exchange = Running::with(&[&dsp]);
    let mut caller = exchange.caller();
    let request = posted(&banner(""));
    let (begun, rest) = request.split_at(30);
    caller.send(&[&request, &request, begun].concat());
    assert_eq!(caller.reply().status, 200);
    dsp.request(1);
    dsp.permit();
    assert_eq!(caller.reply().status, 200);
    caller.send(rest);
    assert_eq!(caller.reply().status, 200);
}

#[test]
fn half_closed_sockets_end() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let mut half = exchange.caller();
    half.send(&posted(&banner("")));
    half.finish();
    // With or without a response, the connection ends.
    let _ = half.try_reply();
    assert!(half.is_closed());
    let mut cut = exchange.caller();
    cut.send(b"POST /openrtb2/auc");
    cut.finish();
    let _ = cut.try_reply();
    assert!(cut.is_closed());
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served");
}

#[test]
fn connections_beyond_the_cap_are_closed() {
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, connections_max: 2, ..Setup::default() });
    let mut first = exchange.caller();
    let mut second = exchange.caller();
    assert_eq!(first.post(&banner("")).status, 200);
    assert_eq!(second.post(&banner("")).status, 200);
    // A new one takes the place of the longest idle one.
    until("there is room", || {
        let mut caller = Caller::connect(exchange.address);
        caller.send(&posted(&banner("")));
        matches!(caller.try_reply(), Ok(Some(reply)) if reply.status == 200)
    });
    assert!(first.is_closed());
    assert_ne!(exchange.scraped("connections_evicted_total"), "0");
}

/// A connection with an auction in flight is not closed for another.
#[test]
fn auctions_under_way_keep_their_connections() {
    let answer = Step::Write(ok(&bids(&bid("1.00"))).into());
    let dsp = Dsp::start([Script::once([Step::Read, Step::Wait, answer])]);
    let dsps = [(dsp.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, connections_max: 1, ..Setup::default() });
    let mut caller = exchange.caller();
    caller.send(&posted(&banner("")));
    dsp.request(0);
    assert!(exchange.caller().is_closed(), "a second one is one too many");
    assert_eq!(exchange.scraped("connections_refused_total"), "1");
    dsp.permit();
    assert_eq!(caller.reply().status, 200);
    assert_eq!(exchange.scraped("connections_evicted_total"), "0");
}

/// RFC 9112, sections 3.2 and 6.1: what follows such a head cannot be trusted.
#[test]
fn malformed_heads_are_refused_and_closed() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp);
    let body = banner("");
    let heads = [
        "",
        "host: a\r\nhost: a\r\n",
        "host: a, b\r\n",
        "host: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "host: a\r\ntransfer-encoding: gzip, chunked\r\n",
    ];
    for head in heads {
        let (length, body) = if head.contains("chunked") {
            (String::new(), format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
        } else {
            (format!("content-length: {}\r\n", body.len()), body.clone())
        };
        let mut caller = exchange.caller();
        let line = "POST /openrtb2/auction HTTP/1.1";
        caller.send(format!("{line}\r\n{head}{length}\r\n{body}").as_bytes());
        assert_eq!(caller.reply().status, 400, "{head}");
        assert!(caller.is_closed(), "{head}");
    }
    let turned_away = exchange.count(|metrics| metrics.turned_away.value());
    assert_eq!((turned_away, dsp.requests()), (heads.len() as u64, 0));
}

/// A caller that sends requests and never reads is disconnected once the kernel's buffers are full.
#[test]
fn callers_that_do_not_read_are_cut_off() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::start(&Setup {
        exchange: "write_timeout = \"200ms\"",
        dsps: &[(dsp.address, "")],
        ..Setup::default()
    });
    let mut deaf = TcpStream::connect(exchange.address).unwrap();
    let question = b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    // Blocks once both buffers are full, and fails once the exchange has closed.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while deaf.write_all(&question).is_ok() {
        assert!(std::time::Instant::now() < deadline, "it is still listened to");
    }
    assert_eq!(exchange.auction(&banner("")).status, 200, "others are served");
}

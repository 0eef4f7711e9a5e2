//! A simulated origin, healthy and not, and the load of a cache, which must notice what is wrong.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use testbed::cache::{CacheKeys, CacheLoad, CacheLoadOptions, CacheOutcomes};
use testbed::load::{self, LoadLength, LoadMode, LoadOptions, LoadReport};
use testbed::origin::{
    self, OriginAct, OriginBehaviour, OriginFault, OriginOptions, SimulatedOrigin,
};
use testbed::server::{Cut, ServerOptions};

fn start(options: &OriginOptions, act: OriginAct) -> SimulatedOrigin {
    origin::start(options, act.into(), &ServerOptions::default()).expect("a port")
}

/// Sends a request with these lines, and returns head and body.
fn ask(origin: &SimulatedOrigin, target: &str, lines: &str) -> (String, String) {
    let mut stream = TcpStream::connect(origin.address()).expect("it listens");
    write!(stream, "GET {target} HTTP/1.1\r\nhost: o\r\nconnection: close\r\n{lines}\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[test]
fn bodies_are_of_their_paths() {
    let options = OriginOptions {
        vary: Some("x-v".to_owned()),
        surrogate_keys: 4,
        bytes: 10,
        ..OriginOptions::default()
    };
    let origin = start(&options, OriginAct::Healthy);
    let (head, body) = ask(&origin, "/ab", "x-v: 7\r\n");
    assert_eq!(body, "/ab 7\n/ab ");
    for line in
        ["HTTP/1.1 200 OK", "Cache-Control: max-age=60", "Vary: x-v", "Surrogate-Key: group-"]
    {
        assert!(head.contains(line), "{head}");
    }
    let etag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap();
    let (head, body) = ask(&origin, "/ab", &format!("x-v: 7\r\nif-none-match: {etag}\r\n"));
    assert!(head.starts_with("HTTP/1.1 304") && body.is_empty(), "{head}");
    assert_eq!(ask(&origin, "/ab?bytes=3", "x-v: 7\r\n").1, "/ab");
    let part = |range: &str| {
        let (head, body) = ask(&origin, "/ab", &format!("x-v: 7\r\nrange: bytes={range}\r\n"));
        let range = head.lines().find_map(|line| line.strip_prefix("Content-Range: "));
        (range.unwrap_or_default().to_owned(), body)
    };
    assert_eq!(part("5-7"), ("bytes 5-7/10".to_owned(), "\n/a".to_owned()));
    assert_eq!(part("-2"), ("bytes 8-9/10".to_owned(), "b ".to_owned()));
    assert_eq!(part("8-"), ("bytes 8-9/10".to_owned(), "b ".to_owned()));
    assert_eq!(part("x"), (String::new(), "/ab 7\n/ab ".to_owned()));
    let stats = origin.stats();
    assert_eq!((stats.requests, stats.not_modified, stats.parts), (7, 1, 3));
}

/// 100 requests for 10 keys by one connection, straight to the origin.
fn load(origin: &SimulatedOrigin, bytes: usize) -> LoadReport<CacheOutcomes> {
    let load = CacheLoadOptions {
        url: format!("{}/o/", origin.url()),
        host: None,
        keys: CacheKeys::Scan { count: 10 },
        bytes,
        vary: None,
        seed: 1,
    };
    let options = LoadOptions {
        mode: LoadMode::Closed { in_flight: 1 },
        warm_up: Duration::ZERO,
        length: LoadLength::Count(100),
        timeout: Duration::from_millis(200),
        ..LoadOptions::default()
    };
    let load_of_cache = CacheLoad::new(load).expect("options that make sense");
    load::run(&options, "origin", load_of_cache, Arc::default(), &mut |_| ()).expect("a thread")
}

#[test]
fn right_answers_are_valid_however_they_are_framed() {
    for act in [OriginAct::Healthy, OriginAct::Interim { code: 103, count: Some(2) }] {
        for bytes in [0, 1, 1_000, 300_000] {
            let origin = start(&OriginOptions::default(), act.clone());
            let report = load(&origin, bytes);
            assert_eq!(report.counts.calls.valid, 100, "{act:?} {bytes}: {report}");
            assert_eq!(report.counts.outcomes.unknown, 100);
            assert_eq!(report.counts.calls.answer_bytes, 100 * bytes as u64);
        }
    }
    let origin = start(&OriginOptions::default(), OriginAct::Chunked { bytes: 100 });
    assert_eq!(load(&origin, 1_000).counts.calls.valid, 100);
}

#[test]
fn every_fault_is_noticed() {
    use OriginFault::{Endless, HugeHead, LongBody, ShortBody, TwoLengths};
    for act in [
        OriginAct::Status { code: 503, body: String::new() },
        OriginAct::Close { at: Cut::Body },
        OriginAct::Reset { at: Cut::Body },
        OriginAct::Garbage,
        OriginAct::Content(ShortBody),
        OriginAct::Content(LongBody),
        OriginAct::Content(TwoLengths),
        OriginAct::Content(HugeHead),
    ] {
        let origin = start(&OriginOptions::default(), act.clone());
        let calls = load(&origin, 1_000).counts.calls;
        assert_eq!((calls.valid, calls.sent), (0, 100), "{act:?}");
        assert_eq!(origin.stats().faults, 100, "{act:?}");
        origin.set_behaviour(OriginBehaviour::HEALTHY).unwrap();
        assert_eq!(load(&origin, 1_000).counts.calls.valid, 100, "after {act:?}");
    }
    let origin = start(&OriginOptions::default(), OriginAct::Content(Endless));
    let (mut stream, mut read) = (TcpStream::connect(origin.address()).unwrap(), vec![0; 10 << 20]);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: o\r\n\r\n").unwrap();
    stream.read_exact(&mut read).unwrap();
}

#[test]
fn a_body_of_another_request_is_noticed() {
    let options = OriginOptions { vary: Some("x-v".to_owned()), ..OriginOptions::default() };
    let origin = start(&options, OriginAct::Healthy);
    // The bodies have a variant, which the load did not ask for.
    let report = load(&origin, 1_000);
    assert_eq!((report.counts.calls.valid, report.counts.calls.invalid), (0, 100));
    assert_eq!(report.problems, ["a body that is not of its URL"]);
}

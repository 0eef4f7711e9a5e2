//! Clients of a cache whose origin fails, breaks off and lies: what they get whole is right, and is
//! stored; nothing else is.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use testbed::cache::{CacheKeys, CacheLoad, CacheLoadOptions, CacheOutcomes};
use testbed::load::{self, LoadLength, LoadMode, LoadOptions, LoadReport};
use testbed::origin::{self, OriginAct, OriginBehaviour, OriginFault, OriginOptions};
use testbed::server::{Cut, ServerOptions};

use super::fixtures::{Proxy, until};

const REQUESTS: usize = 60;

/// One request for each key, by several connections.
fn ask_for_all(proxy: &Proxy) -> LoadReport<CacheOutcomes> {
    ask_for(proxy, CacheKeys::Scan { count: REQUESTS })
}

/// Requests for these keys, by several connections.
fn ask_for(proxy: &Proxy, keys: CacheKeys) -> LoadReport<CacheOutcomes> {
    let load = CacheLoadOptions {
        url: format!("http://{}/o/", proxy.address),
        host: None,
        keys,
        bytes: 20_000,
        vary: None,
        seed: 1,
    };
    let options = LoadOptions {
        mode: LoadMode::Closed { in_flight: 6 },
        warm_up: Duration::ZERO,
        length: LoadLength::Count(REQUESTS as u64),
        timeout: Duration::from_secs(1),
        ..LoadOptions::default()
    };
    let load = CacheLoad::new(load).expect("options that make sense");
    load::run(&options, "cache", load, Arc::default(), &mut |_| ()).expect("a thread")
}

#[test]
fn what_is_served_whole_is_right_and_nothing_else_is_stored() {
    use OriginFault::{Endless, HugeHead, LongBody, ShortBody, TwoLengths};
    for act in [
        OriginAct::Status { code: 503, body: "no\n".to_owned() },
        OriginAct::Hang,
        OriginAct::Close { at: Cut::Before },
        OriginAct::Close { at: Cut::Head },
        OriginAct::Close { at: Cut::Body },
        OriginAct::Reset { at: Cut::Body },
        OriginAct::Garbage,
        OriginAct::Interim { code: 103, count: None },
        OriginAct::Content(ShortBody),
        OriginAct::Content(LongBody),
        OriginAct::Content(TwoLengths),
        OriginAct::Content(Endless),
        OriginAct::Content(HugeHead),
    ] {
        let behaviour = OriginBehaviour { act: act.clone(), share_ppm: 300_000 };
        let server = ServerOptions::default();
        let origin = origin::start(&OriginOptions::default(), behaviour, &server).expect("a port");
        let keys = "failures_max = 0\nanswer_timeout = \"200ms\"\nbody_timeout = \"200ms\"";
        let proxy = Proxy::before(origin.address(), "object_max = \"64KiB\"", keys);
        let calls = ask_for_all(&proxy).counts.calls;
        assert_eq!((calls.sent, calls.invalid), (REQUESTS as u64, 0), "{act:?}: {calls:?}");
        let faults = origin.stats().faults;
        assert!(faults > 5, "{act:?}: {faults}");
        // A body that is too long is cut off, and is whole for the client.
        // One that is too short is completed by a part.
        let is_harmless = matches!(act, OriginAct::Content(LongBody | ShortBody));
        assert!(act != OriginAct::Content(ShortBody) || origin.stats().parts > 0, "{calls:?}");
        let failed = calls.sent - calls.valid;
        assert!(is_harmless || failed > 0, "{act:?}: {calls:?}");
        origin.set_behaviour(OriginBehaviour::HEALTHY).expect("it runs");
        let report = ask_for_all(&proxy);
        assert_eq!(report.counts.calls.valid, REQUESTS as u64, "after {act:?}: {report}");
        let hits = report.counts.outcomes.hits;
        assert!(hits <= calls.valid, "{act:?}: {hits} hits after {} answers", calls.valid);
        assert!(act == OriginAct::Content(Endless) || hits == calls.valid, "{act:?}: {hits}");
    }
}

#[test]
fn each_request_of_a_client_counts_once() {
    let act = OriginAct::Status { code: 500, body: "no\n".to_owned() };
    let behaviour = OriginBehaviour { act, share_ppm: 200_000 };
    for (cache_control, validates) in [
        ("max-age=600", false),
        // Some wait while another validates.
        ("max-age=0", true),
        // Validated in the background, which is no request.
        ("max-age=0, stale-while-revalidate=600", true),
        ("no-store", false),
    ] {
        let options = OriginOptions {
            cache_control: cache_control.to_owned(),
            latency: Duration::from_millis(1),
            ..OriginOptions::default()
        };
        let origin = origin::start(&options, behaviour.clone(), &ServerOptions::default());
        let origin = origin.expect("a port");
        let proxy = Proxy::before(origin.address(), "", "failures_max = 0");
        let counts = ask_for(&proxy, CacheKeys::Zipf { count: 4 }).counts;
        let figures = proxy.cache().figures();
        assert_eq!(figures.requests, counts.calls.sent, "{cache_control}: {counts:?}");
        let outcomes = &counts.outcomes;
        assert_eq!(figures.hits, outcomes.hits + outcomes.stale, "{cache_control}: {counts:?}");
        assert_eq!(origin.stats().not_modified > 0, validates, "{cache_control}: {counts:?}");
    }
}

#[test]
fn an_origin_that_does_not_answer_is_left_alone_and_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let proxy = Proxy::before(address, "", "failures_max = 3\nfailure_pause = \"3s\"");
    let statuses: Vec<_> = (0..3).map(|_| proxy.get("/", &[]).status).collect();
    assert_eq!(statuses, [502; 3]);
    // Whatever the method.
    let refused = [proxy.get("/", &[]), proxy.client().send("POST", "/other", &[])];
    for refused in refused {
        assert_eq!((refused.status, &*refused.field("retry-after").unwrap()), (503, "1"));
        assert_eq!(refused.text(), "the origin failed 3 times in a row, and is tried again soon\n");
    }
    until("three connections", || asked.load(Ordering::Relaxed) == 3);
    until("a request that tries it", || proxy.get("/", &[]).status == 502);
    assert_eq!(proxy.get("/", &[]).status, 503);
    until("a fourth connection", || asked.load(Ordering::Relaxed) == 4);
}

#[test]
fn what_is_stale_stands_in_for_an_origin_that_is_left_alone() {
    let proxy = Proxy::start("failures_max = 1\nfailure_pause = \"10m\"\nstale_if_error = \"1h\"");
    let stale = "200 OK\r\ncache-control: max-age=60\r\nage: 60\r\netag: \"v1\"\r\n";
    proxy.origin.answer(stale, "hello");
    assert_eq!(proxy.get("/", &[]).text(), "hello");
    proxy.origin.raw("nonsense\r\n\r\n".into());
    for _ in 0..3 {
        let answer = proxy.get("/", &[]);
        assert_eq!((answer.status, answer.text(), &*answer.cache()), (200, "hello", "hit"));
    }
    assert_eq!(proxy.origin.received().len(), 2);
    assert_eq!(proxy.get("/other", &[]).status, 503);
}

#[test]
fn a_client_that_sends_its_body_slowly_is_no_failure_of_the_origin() {
    let keys = "failures_max = 1\nfailure_pause = \"10m\"\nanswer_timeout = \"1s\"";
    let proxy = Proxy::start(keys);
    let mut client = proxy.client();
    client.write("POST /a HTTP/1.1\r\nhost: cdn.example\r\ncontent-length: 10\r\n\r\n1");
    assert_eq!(client.answer("POST").status, 504);
    proxy.origin.answer("200 OK\r\ncache-control: max-age=60\r\n", "hello");
    assert_eq!(proxy.get("/b", &[]).text(), "hello");
}

#[test]
fn the_limit_of_connections_is_no_failure_of_the_origin() {
    let proxy = Proxy::with_connections(1, "failures_max = 1\nfailure_pause = \"10m\"");
    let mut first = proxy.client();
    first.write("GET /first HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    proxy.origin.until_received(1);
    for _ in 0..3 {
        let refused = proxy.get("/second", &[]);
        assert_eq!(
            (refused.status, refused.text()),
            (503, "too many connections to origins are open\n")
        );
    }
    proxy.origin.answer("200 OK\r\n", "hello").answer("200 OK\r\n", "hello");
    assert_eq!(first.answer("GET").text(), "hello");
    until("a free connection", || proxy.get("/third", &[]).status == 200);
}

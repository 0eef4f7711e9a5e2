//! The load generator against servers that answer well, badly, or not at all. The tests assert
//! counts, never times.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use testbed::dsp::{self, DspProfile, Fleet};
use testbed::exchange::{Beacons, ExchangeLoad, ExchangeOutcomes};
use testbed::load::{
    self, LoadConnections, LoadCounts, LoadLength, LoadMode, LoadOptions, LoadProgress, LoadReport,
    Objectives, OnProgress,
};
use testbed::server::ServerOptions;
use testbed::traffic::{Traffic, TrafficOptions};

fn fleet(profile: DspProfile) -> Fleet {
    dsp::start(vec![profile], &ServerOptions::default()).expect("a fleet")
}

/// A load of an exchange and its options.
struct LoadSetup {
    target: String,
    beacons: Option<Beacons>,
    load: LoadOptions,
}

type ExchangeReport = LoadReport<ExchangeOutcomes>;

impl LoadSetup {
    fn new(target: impl Into<String>) -> Self {
        Self { target: target.into(), beacons: None, load: LoadOptions::default() }
    }

    fn run(&self, traffic: Traffic, on_progress: OnProgress<'_>) -> Result<ExchangeReport, String> {
        self.run_until(&Arc::default(), traffic, on_progress)
    }

    fn run_until(
        &self,
        stop: &Arc<AtomicBool>,
        traffic: Traffic,
        on_progress: OnProgress<'_>,
    ) -> Result<ExchangeReport, String> {
        let workload = ExchangeLoad::new(&self.target, traffic, self.beacons.clone())
            .map_err(|error| error.to_string())?;
        load::run(&self.load, &self.target, workload, Arc::clone(stop), on_progress)
            .map_err(|error| error.to_string())
    }
}

fn options(address: SocketAddr, mode: LoadMode, length: LoadLength) -> LoadSetup {
    let load = LoadOptions {
        mode,
        length,
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(20),
        ..LoadOptions::default()
    };
    LoadSetup { load, ..LoadSetup::new(format!("http://{address}/openrtb2/auction")) }
}

fn run(options: &LoadSetup) -> ExchangeReport {
    let report = options.run(Traffic::reference(), &mut |_| ()).expect("a report");
    assert_accounted(&report.counts);
    report
}

/// Every request ended in exactly one way.
fn assert_accounted(counts: &LoadCounts<ExchangeOutcomes>) {
    let LoadCounts { calls, outcomes } = counts;
    assert_eq!(calls.valid, outcomes.ok_bid + outcomes.no_bid + outcomes.nbr, "{counts:?}");
    assert_eq!(calls.refused, outcomes.client_errors + outcomes.server_errors, "{counts:?}");
    let answered = calls.valid + calls.refused + calls.invalid;
    let ended = answered + calls.timeouts + calls.connect_errors + calls.broken;
    assert_eq!(calls.sent, ended + calls.abandoned, "{counts:?}");
}

/// A server that answers every request with `reply` of its body, or of its head for a GET.
fn server(reply: fn(&str) -> String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            std::thread::spawn(move || serve_connection(stream, reply));
        }
    });
    address
}

fn serve_connection(mut stream: TcpStream, mut reply: impl FnMut(&str) -> String) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
        let is_get = text.starts_with("GET ");
        if is_get || body.len() == testbed::traffic::REFERENCE_BYTES {
            bytes.clear();
            let asked = if is_get { &text } else { body };
            if stream.write_all(reply(asked).as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The id at the start of a reference request.
fn id_of(request: &str) -> &str {
    &request["{\"id\":\"".len()..][..testbed::traffic::ID_BYTES]
}

#[test]
fn a_closed_loop_counts_bids_and_no_bids() {
    let fleet = fleet(DspProfile { no_bid_ppm: 500_000, ..DspProfile::default() });
    let mode = LoadMode::Closed { in_flight: 4 };
    let report = run(&options(fleet.addresses()[0], mode, LoadLength::Count(500)));
    let (counts, dsp) = (&report.counts, fleet.stats().total());
    assert_eq!((counts.calls.sent, counts.calls.valid, counts.calls.errors()), (500, 500, 0));
    assert_eq!((counts.outcomes.ok_bid, counts.outcomes.no_bid), (dsp.bid_answers, dsp.no_bids));
    assert_eq!(counts.outcomes.bids, dsp.bids);
    assert!(counts.outcomes.price_micros > 0 && counts.calls.answer_bytes > 0);
    assert_eq!(counts.calls.request_bytes, 500 * 3072);
    assert_eq!((report.connections, report.stopped), (4, false));
    let objectives = Objectives {
        p99_max: Some(Duration::from_secs(20)),
        error_rate_max_ppm: Some(0),
        ..Objectives::default()
    };
    assert_eq!(report.violations(&objectives), [""; 0]);
}

#[test]
fn generated_traffic_of_every_kind_is_answered() {
    let fleet = fleet(DspProfile { no_bid_ppm: 0, chunked_ppm: 500_000, ..DspProfile::default() });
    let mode = LoadMode::Closed { in_flight: 2 };
    let options = options(fleet.addresses()[0], mode, LoadLength::Count(300));
    let traffic = Traffic::generated(&TrafficOptions::default()).expect("valid options");
    let report = options.run(traffic, &mut |_| ()).expect("a report");
    assert_eq!((report.counts.outcomes.ok_bid, report.counts.calls.errors()), (300, 0), "{report}");
}

#[test]
fn a_warm_up_is_sent_but_not_measured() {
    let fleet = fleet(DspProfile::default());
    let mode = LoadMode::Open { rate_per_s: 1_000 };
    let mut options = options(fleet.addresses()[0], mode, LoadLength::Count(100));
    options.load.warm_up = Duration::from_millis(50);
    let report = run(&options);
    assert_eq!((report.counts.calls.sent, report.counts.calls.valid), (100, 100));
    assert_eq!(fleet.stats().total().requests, 150);
}

#[test]
fn an_open_loop_sends_every_request_however_slow_the_target() {
    let late_by = Duration::from_millis(30);
    let fleet = fleet(DspProfile { late_ppm: 1_000_000, late_by, ..DspProfile::default() });
    let mode = LoadMode::Open { rate_per_s: 2_000 };
    let mut options = options(fleet.addresses()[0], mode, LoadLength::Count(200));
    options.load.tmax = Some(Duration::from_millis(1));
    let report = run(&options);
    assert_eq!((report.counts.calls.sent, report.counts.calls.unsent), (200, 0));
    assert_eq!(report.counts.calls.valid, 200);
    assert_eq!(report.counts.calls.after_tmax, 200);
    // Requests do not wait for each other while there are connections.
    assert!(report.connections > 1, "{report}");
    assert!(report.overshoot_us.is_some_and(|overshoot| overshoot.p50 >= 29_000));
}

#[test]
fn latency_counts_from_the_intended_time() {
    // One connection with 20 ms per answer: of 20 requests intended within the first 20 ms, the
    // last waits for 19 others. A loop that starts its clock on sending would measure 20 ms for
    // all.
    let late_by = Duration::from_millis(20);
    let fleet = fleet(DspProfile { late_ppm: 1_000_000, late_by, ..DspProfile::default() });
    let mode = LoadMode::Open { rate_per_s: 1_000 };
    let mut options = options(fleet.addresses()[0], mode, LoadLength::Count(20));
    options.load.connections = LoadConnections::AsNeeded { max: 1 };
    let report = run(&options);
    assert_eq!((report.counts.calls.valid, report.connections), (20, 1));
    assert!(report.latency_us.is_some_and(|latency| latency.max >= 380_000), "{report}");
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let fleet = fleet(DspProfile {
        late_ppm: 1_000_000,
        late_by: Duration::from_millis(100),
        ..DspProfile::default()
    });
    let mode = LoadMode::Open { rate_per_s: 1_000 };
    let mut options = options(fleet.addresses()[0], mode, LoadLength::Count(50));
    options.load.connections = LoadConnections::AsNeeded { max: 1 };
    options.load.timeout = Duration::from_millis(10);
    let report = run(&options);
    assert_eq!(report.counts.calls.sent + report.counts.calls.unsent, 50);
    assert!(report.counts.calls.unsent > 0 && report.counts.calls.timeouts > 0, "{report}");
    assert_eq!(report.counts.calls.timeouts, report.counts.calls.sent);
    let objectives = Objectives { error_rate_max_ppm: Some(999_999), ..Objectives::default() };
    assert_eq!(report.violations(&objectives).len(), 1);
}

#[test]
fn an_open_loop_that_fell_behind_ends() {
    // The kernel accepts, but nobody reads. All connections are busy when the schedule ends, and
    // the ticks come faster than this many workers can be joined.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let mode = LoadMode::Open { rate_per_s: 20_000 };
    let mut options = options(address, mode, LoadLength::Count(8_000));
    options.load.connections = LoadConnections::AsNeeded { max: 500 };
    options.load.timeout = Duration::from_millis(50);
    let counts = run(&options).counts;
    assert_eq!(counts.calls.sent + counts.calls.unsent, 8_000, "{counts:?}");
    assert!(counts.calls.unsent > 0, "{counts:?}");
}

#[test]
fn an_open_loop_ends_though_beacons_hang() {
    // One answer with so many beacons that calling them all would take a thousand timeouts.
    let address = server(|asked| {
        if asked.starts_with("GET ") {
            return String::new();
        }
        let adm = "http://b.example/n/x ".repeat(1_000);
        let id = id_of(asked);
        ok(&format!(r#"{{"id":"{id}","seatbid":[{{"bid":[{{"price":1,"adm":"{adm}"}}]}}]}}"#))
    });
    let mut options = options(address, LoadMode::Open { rate_per_s: 100 }, LoadLength::Count(3));
    options.load.connections = LoadConnections::AsNeeded { max: 1 };
    options.load.timeout = Duration::from_millis(250);
    let prefix = "http://b.example/n/".to_owned();
    options.beacons = Some(Beacons { prefix, share_ppm: 1_000_000 });
    let counts = run(&options).counts;
    // The only connection calls beacons until the grace period ends, so the other two are never
    // sent.
    assert_eq!((counts.calls.valid, counts.calls.sent, counts.calls.unsent), (1, 1, 2));
    assert!((1..1_000).contains(&counts.outcomes.beacons_failed), "{counts:?}");
}

#[test]
fn refusals_are_no_answers_and_the_first_is_quoted() {
    let address = server(|_| {
        let body = r#"{"error":"no such path"}"#;
        format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let mut options = options(address, LoadMode::Open { rate_per_s: 1_000 }, LoadLength::Count(20));
    options.load.tmax = Some(Duration::from_secs(20));
    let report = run(&options);
    let counts = &report.counts;
    assert_eq!((counts.calls.valid, counts.calls.refused, counts.calls.errors()), (0, 20, 20));
    assert_eq!((counts.calls.in_time, report.answers_per_s), (0, 0.0));
    let refused = &report.statuses[&404];
    assert_eq!((refused.count, refused.in_time), (20, Some(20)));
    assert_eq!(report.problems, [r#"status 404 Not Found: {"error":"no such path"}"#]);
}

#[test]
fn fixed_connections_are_all_opened_and_used_in_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (opened, used) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&opened), Arc::clone(&used));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            counted.0.fetch_add(1, Ordering::Relaxed);
            let used = Arc::clone(&counted.1);
            std::thread::spawn(move || {
                let mut requests = 0;
                serve_connection(stream, |_| {
                    requests += 1;
                    used.fetch_add(usize::from(requests == 1), Ordering::Relaxed);
                    "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
                });
            });
        }
    });
    let mode = LoadMode::Open { rate_per_s: 2_000 };
    let mut options = options(address, mode, LoadLength::Count(400));
    options.load.connections = LoadConnections::Fixed(150);
    let report = run(&options);
    assert_eq!((report.counts.calls.valid, report.connections), (400, 150));
    while opened.load(Ordering::Relaxed) < 150 {
        std::thread::yield_now();
    }
    // An idle connection may take a request from the one whose turn it is.
    assert!(used.load(Ordering::Relaxed) >= 75, "{}", used.load(Ordering::Relaxed));
}

#[test]
fn a_target_that_hangs_is_counted_as_timeouts() {
    // The kernel accepts, but nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let mut options = options(address, LoadMode::Closed { in_flight: 3 }, LoadLength::Count(9));
    options.load.timeout = Duration::from_millis(20);
    let report = run(&options);
    assert_eq!((report.counts.calls.timeouts, report.counts.calls.sent), (9, 9));
    assert_eq!(report.latency_us.map(|latency| latency.p50 >= 19_000), Some(true));
}

#[test]
fn a_target_that_refuses_is_counted_as_connect_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    for mode in [LoadMode::Closed { in_flight: 3 }, LoadMode::Open { rate_per_s: 1_000 }] {
        let report = run(&options(address, mode, LoadLength::Count(9)));
        assert_eq!((report.counts.calls.connect_errors, report.counts.calls.sent), (9, 9));
        assert_eq!(report.latency_us, None);
        assert!(report.problems[0].contains("refused"), "{:?}", report.problems);
    }
}

#[test]
fn answers_are_verified() {
    let check = |reply: fn(&str) -> String, count: fn(&LoadCounts<ExchangeOutcomes>) -> u64| {
        let options =
            options(server(reply), LoadMode::Closed { in_flight: 2 }, LoadLength::Count(6));
        let report = run(&options);
        assert_eq!((count(&report.counts), report.counts.calls.sent), (6, 6), "{report}");
    };
    check(|body| ok(&format!("{{\"id\":\"{}\",\"nbr\":8}}", id_of(body))), |c| c.outcomes.nbr);
    check(|_| ok("{\"id\":\"another\",\"nbr\":8}"), |c| c.calls.invalid);
    check(|_| ok("{"), |c| c.calls.invalid);
    check(
        |_| "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".into(),
        |c| c.outcomes.client_errors,
    );
    check(
        |_| "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into(),
        |c| c.outcomes.server_errors,
    );
    check(|_| "HTTP/1.1 204 No Content\r\n\r\n".into(), |c| c.outcomes.no_bid);
    check(|_| "not HTTP at all\r\n\r\n".into(), |c| c.calls.broken);
}

#[test]
fn a_stopped_run_reports_what_it_has() {
    let fleet = fleet(DspProfile::default());
    let mode = LoadMode::Closed { in_flight: 2 };
    let options = options(fleet.addresses()[0], mode, LoadLength::For(Duration::from_secs(600)));
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut on_progress = move |progress: &LoadProgress| {
        if progress.answered > 0 {
            flag.store(true, Ordering::Relaxed);
        }
    };
    let report = options.run_until(&stop, Traffic::reference(), &mut on_progress);
    let report = report.expect("a report");
    assert!(report.stopped && report.counts.calls.valid > 0, "{report}");
    assert_accounted(&report.counts);
}

#[test]
fn a_stopped_run_does_not_wait_for_a_target_that_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let mode = LoadMode::Closed { in_flight: 3 };
    let mut options = options(address, mode, LoadLength::Count(9));
    options.load.timeout = Duration::from_secs(600);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut on_progress = move |progress: &LoadProgress| {
        if progress.in_flight == 3 {
            flag.store(true, Ordering::Relaxed);
        }
    };
    let report = options.run_until(&stop, Traffic::reference(), &mut on_progress);
    let counts = report.expect("a report").counts;
    assert_eq!((counts.calls.sent, counts.calls.abandoned), (3, 3));
}

#[test]
fn beacons_in_answers_are_called_and_their_failures_counted() {
    let address = server(|asked| {
        if asked.starts_with("GET /n/good ") {
            return "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
        } else if asked.starts_with("GET ") {
            return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
        }
        let id = id_of(asked);
        let adm = "http://b.example/n/good http://b.example/n/bad http://c.example/n/other";
        ok(&format!(r#"{{"id":"{id}","seatbid":[{{"bid":[{{"price":1,"adm":"{adm}"}}]}}]}}"#))
    });
    let mut options = options(address, LoadMode::Closed { in_flight: 2 }, LoadLength::Count(20));
    for (share_ppm, called, failed) in [(1_000_000, 40, 20), (0, 0, 0)] {
        let prefix = "http://b.example/n/".to_owned();
        options.beacons = Some(Beacons { prefix, share_ppm });
        let counts = run(&options).counts;
        assert_eq!((counts.outcomes.ok_bid, counts.calls.errors()), (20, 0), "{counts:?}");
        assert_eq!((counts.outcomes.beacons, counts.outcomes.beacons_failed), (called, failed));
    }
}

#[test]
fn senseless_options_are_refused() {
    let check = |want: &str, edit: &dyn Fn(&mut LoadSetup)| {
        let mut options = LoadSetup::new("http://127.0.0.1:1/openrtb2/auction");
        edit(&mut options);
        let error = options.run(Traffic::reference(), &mut |_| ()).expect_err(want);
        assert!(error.contains(want), "{error}");
    };
    check("one request per second", &|o| o.load.mode = LoadMode::Open { rate_per_s: 0 });
    check("in flight", &|o| o.load.mode = LoadMode::Closed { in_flight: 0 });
    check("one connection", &|o| {
        o.load.mode = LoadMode::Open { rate_per_s: 1 };
        o.load.connections = LoadConnections::Fixed(0);
    });
    check("timeout", &|o| o.load.timeout = Duration::ZERO);
    check("length", &|o| o.load.length = LoadLength::Count(0));
    check("length", &|o| o.load.length = LoadLength::For(Duration::ZERO));
    check("slash at the end", &|o| {
        o.beacons = Some(Beacons { prefix: "http://b.example".to_owned(), share_ppm: 1 });
    });
    check("only http", &|o| o.target = "https://127.0.0.1/".to_owned());
    check("http://host:port/path", &|o| o.target = "127.0.0.1:8080".to_owned());
    check("core 100000", &|o| o.load.core = Some(100_000));
}

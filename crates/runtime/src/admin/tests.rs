//! Tests through a raw socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Client};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::config::parse;
use crate::listen::listen;
use crate::metrics::Exposition;
use crate::shards::ConnectionTimeouts;
use crate::shutdown::Shutdown;

struct Fixture {
    admin: Admin,
    /// Dropped last.
    control: Control,
    address: SocketAddr,
    warm: Arc<AtomicBool>,
    slow: Arc<AtomicBool>,
    shutdown: Shutdown,
}

fn start(config: &str) -> Fixture {
    start_with(config, |_| ())
}

fn start_with(config: &str, change: impl FnOnce(&mut AdminOptions)) -> Fixture {
    let text = format!("listen = '127.0.0.1:0'\n{config}");
    let mut options = parse("admin.toml", &text, AdminOptions::read).unwrap();
    change(&mut options);
    let listener = listen(options.listen).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new(Duration::from_secs(3600));
    let warm = Arc::new(AtomicBool::new(false));
    let allowance = ChangeAllowance::new(options.changes);
    let mut pages = Pages {
        exposition: Exposition::default(),
        readiness: Readiness::default(),
        shutdown: shutdown.clone(),
        apis: vec![api(), configuration(Held).limited(&allowance)],
    };
    pages.exposition.add(|page| page.counters("answers", "Answers.")?.value(&[], 42));
    let check = Arc::clone(&warm);
    pages.readiness.add("warm", move || check.load(Ordering::SeqCst));
    let slow = Arc::<AtomicBool>::default();
    let is_slow = Arc::clone(&slow);
    let remark = move || is_slow.load(Ordering::SeqCst).then(|| "it is slow".to_owned());
    pages.readiness.remark("disk", remark);
    let control = Control::start().unwrap();
    let admin = Admin::start(&options, listener, pages, &control).unwrap();
    Fixture { admin, control, address, warm, slow, shutdown }
}

fn connect(address: SocketAddr) -> Client {
    let client = Client::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

/// Everything the server sends in response to `sent`, until it closes the connection.
fn exchange(address: SocketAddr, sent: &str) -> String {
    let mut client = connect(address);
    client.write_all(sent.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

impl Fixture {
    #[track_caller]
    fn check(&self, request: &str, status: &str, body: &str) {
        let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = exchange(self.address, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{request}{answer}");
    }

    /// Status and body of the response to a request, to which this adds `host` and the last line.
    fn ask(&self, request: &str) -> (u16, String) {
        let (line, headers) = request.split_once('\n').unwrap_or((request, ""));
        let headers = headers.replace('\n', "\r\n");
        let headers = if headers.is_empty() { headers } else { headers + "\r\n" };
        let request =
            format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        let answer = exchange(self.address, &request);
        let status = answer[9..12].parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    #[track_caller]
    fn check_code(&self, request: &str, status: u16, code: &str) {
        let (found, body) = self.ask(request);
        assert_eq!(found, status, "{request}: {body}");
        let json: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(json["error"]["code"], code, "{request}");
        assert!(json["error"]["message"].is_string(), "{request}");
    }
}

/// A service's API: it shows the request, and one route panics.
fn api() -> Api {
    let route = |method, path, answer: fn(&&str, &ApiCall) -> ReplyResult| {
        let operation = Operation::new("things", path, "A thing.").nothing("Done.");
        Route { method, path, answer, operation }
    };
    let shown =
        |state: &&str, call: &ApiCall| Ok(Reply::json(&json!([state, call.parameter("id")])));
    let routes = vec![
        route(Method::Get, "/v1/things/{id}", shown),
        route(Method::Put, "/v1/things/{id}", |_, _| Ok(Reply::nothing())),
        route(Method::Get, "/v1/panic", |_, _| panic!("a defect")),
        route(Method::Patch, "/v1/echo", |_, call| echoed(call)),
    ];
    Api::new("state", routes)
}

fn echoed(call: &ApiCall) -> ReplyResult {
    let echo = json!({
        "query": call.query("a b")?,
        "names": call.query_names().collect::<Vec<_>>(),
        "header": call.header("if-match").unwrap_or_default(),
        "authorization": call.header("authorization").unwrap_or_default(),
        "body": String::from_utf8_lossy(call.body()),
    });
    Ok(Reply::json(&echo).created("/v1/echo/1").with_version(7))
}

#[test]
fn a_route_is_told_all_of_a_request_but_the_token() {
    let fixture = start("token = '0123456789abcdef'");
    let head = "authorization: Bearer 0123456789abcdef\nif-match: \"3\"";
    let sent = format!("PATCH /v1/echo?x=1&a+b=c%2Fd&a+b=e\n{head}\ncontent-length: 2\n\n{{}}");
    let (status, body) = fixture.ask(&sent);
    let want = json!({
        "query": "c/d",
        "names": ["x", "a b", "a b"],
        "header": "\"3\"",
        "authorization": null,
        "body": "{}",
    });
    // Two bytes of the request follow the body: an empty line.
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (201, want));
    fixture.check_code(&format!("PATCH /v1/echo?a+b=%ff\n{head}"), 400, "bad_request");
    let line = "PATCH /v1/echo HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let request = format!("{line}authorization: Bearer 0123456789abcdef\r\n\r\n");
    let answer = exchange(fixture.address, &request);
    assert!(answer.contains("\r\nlocation: /v1/echo/1\r\n"), "{answer}");
    assert!(answer.contains("\r\netag: \"7\"\r\n"), "{answer}");
    fixture.admin.stop();
}

/// An API may allow larger bodies; the others do not.
#[test]
fn a_part_of_the_api_has_a_limit_of_its_own() {
    let routes = vec![Route {
        method: Method::Put,
        path: "/v1/large",
        answer: |(), call| Ok(Reply::json(&call.body().len())),
        operation: Operation::new("things", "large", "Takes much.").json::<usize>(200, "How much."),
    }];
    let options = parse("admin.toml", "listen = '127.0.0.1:0'", AdminOptions::read).unwrap();
    let listener = listen(options.listen).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new(Duration::from_secs(3600));
    let apis = vec![api(), Api::new((), routes).with_bodies(100_000)];
    let (exposition, readiness) = (Exposition::default(), Readiness::default());
    let pages = Pages { exposition, readiness, shutdown: shutdown.clone(), apis };
    let control = Control::start().unwrap();
    let admin = Admin::start(&options, listener, pages, &control).unwrap();
    let (warm, slow) = (Arc::default(), Arc::default());
    let fixture = Fixture { admin, control, address, warm, slow, shutdown };
    let put = |path: &str, length: usize| {
        let body = "x".repeat(length);
        fixture.ask(&format!("PUT {path}\ncontent-length: {length}\n\n{body}"))
    };
    assert_eq!(put("/v1/large", 100_000), (200, "100000\n".to_owned()));
    assert_eq!(put("/v1/large", 100_001).0, 413);
    assert_eq!(put("/v1/things/a", 100_000).0, 413);
    fixture.admin.stop();
}

/// A configuration whose first reload fails.
struct Held;

impl Configuration for Held {
    fn in_force(&self) -> ConfigurationInForce {
        ConfigurationInForce {
            generation: 7,
            loaded_at: rfc3339(SystemTime::UNIX_EPOCH),
            file: "vickrey.toml".to_owned(),
            configuration: json!({ "admin": { "token": "***" } }),
            needs_restart: vec!["admin.listen".to_owned()],
        }
    }

    fn reload(&self) -> Result<ReloadSummary, ReloadError> {
        let two = "listen = 1\nconnections_max = 0";
        Err(parse("vickrey.toml", two, AdminOptions::read).unwrap_err().into())
    }
}

#[test]
fn pages() {
    let fixture = start("");
    let check = |request, status, body| fixture.check(request, status, body);
    let metrics = "# HELP vickrey_answers_total Answers.\n# TYPE vickrey_answers_total counter\n\
                   vickrey_answers_total 42\n";
    check("GET /metrics", "200 OK", metrics);
    check("HEAD /metrics", "200 OK", "");
    check("GET /metrics?name[]=x", "200 OK", metrics);
    check("GET /health/live", "200 OK", "live\n");
    for request in ["GET /", "GET /metrics/", "POST /", "GET /v1/things", "GET /v1/things/"] {
        fixture.check_code(request, 404, "not_found");
    }
    fixture.check_code("POST /metrics", 405, "method_not_allowed");

    check("GET /health/ready", "503 Service Unavailable", "not ready: warm\n");
    fixture.warm.store(true, Ordering::SeqCst);
    check("GET /health/ready", "200 OK", "ready\n");
    fixture.slow.store(true, Ordering::SeqCst);
    check("GET /health/ready", "200 OK", "degraded; disk: it is slow\n");
    fixture.shutdown.begin();
    check("GET /health/ready", "503 Service Unavailable", "draining\n");
    check("GET /health/live", "200 OK", "live\n");

    let Fixture { admin, control: _control, address, .. } = fixture;
    admin.stop();
    assert!(Client::connect(address).is_err());
}

#[test]
fn headers() {
    let fixture = start("");
    let ask = |request: &str| {
        let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        exchange(fixture.address, &request)
    };
    assert!(ask("DELETE /metrics").contains("\r\nallow: GET, HEAD\r\n"));
    assert!(ask("DELETE /v1/things/a").contains("\r\nallow: GET, HEAD, PUT\r\n"));
    assert!(ask("GET /v1/config").contains("\r\ncache-control: no-store\r\n"));
    let kind = "\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(ask("GET /metrics").contains(kind));
    // All `accept` lines count; one of them is not text.
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: \u{e9}\r\n\
                   accept: text/plain;q=0.5\r\naccept: application/openmetrics-text\r\n\r\n";
    let answer = exchange(fixture.address, request);
    let kind = "\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(answer.contains(kind), "{answer}");
    let body = "# HELP vickrey_answers Answers.\n# TYPE vickrey_answers counter\n\
                vickrey_answers_total 42\n# EOF\n";
    assert!(answer.ends_with(body), "{answer}");
    fixture.admin.stop();
}

#[test]
fn a_kept_alive_connection_is_answered_again() {
    let fixture = start("");
    let request = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = exchange(fixture.address, &format!("{request}{request}{last}"));
    assert_eq!(answer.matches("\r\n\r\nlive\n").count(), 3, "{answer}");
    fixture.admin.stop();
}

#[test]
fn slow_headers_and_nonsense_are_ended() {
    let fixture = start_with("", |options| {
        let short = Duration::from_millis(20);
        options.timeouts = ConnectionTimeouts { idle: short, head: short };
    });
    // The server closes each of these by itself; otherwise the client's timeout fails the test.
    exchange(fixture.address, "GET /metrics HTTP/1.1\r\nhost:");
    exchange(fixture.address, "");
    let answer = exchange(fixture.address, "\u{1}\u{2}\u{3}\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    fixture.admin.stop();
}

/// Whether the connection answers a health request.
fn is_live(mut client: &Client) -> bool {
    let mut answer = [0; 4096];
    let sent = client.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let read = sent.and_then(|()| client.read(&mut answer)).unwrap_or(0);
    answer[..read].starts_with(b"HTTP/1.1 200 OK\r\n")
}

/// Whether the server closes the connection, with or without unread bytes.
fn is_closed(mut client: &Client) -> bool {
    match client.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn silent_connections_make_place() {
    let fixture = start("connections_max = 2");
    let silent = [connect(fixture.address), connect(fixture.address)];
    let (third, fourth) = (connect(fixture.address), connect(fixture.address));
    assert!(is_live(&third) && is_live(&fourth));
    assert!(silent.iter().all(is_closed), "the longest idle ones go first");
    assert!(is_live(&third) && is_live(&fourth));
    fixture.admin.stop();
}

/// A request under way keeps its connection, and health and metrics still respond.
#[test]
fn health_is_answered_when_all_connections_are_busy() {
    let fixture = start("connections_max = 1");
    let mut busy = connect(fixture.address);
    busy.write_all(b"PUT /v1/things/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n")
        .unwrap();
    // Until its head is read, the connection is idle and can be evicted.
    let start = std::time::Instant::now();
    while fixture.ask("GET /v1/things/a").0 != 503 {
        assert!(start.elapsed() < Duration::from_secs(30), "it is never busy");
        if is_closed_already(&busy) {
            busy = connect(fixture.address);
            let head = b"PUT /v1/things/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n";
            busy.write_all(head).unwrap();
        }
    }
    fixture.check_code("GET /v1/things/a", 503, "unavailable");
    for page in ["/health/live", "/metrics"] {
        assert_eq!(fixture.ask(&format!("GET {page}")).0, 200);
    }
    // Connections for health are limited too, and idle ones are evicted.
    let silent: Vec<_> = (0..2 * HEALTH_CONNECTIONS).map(|_| connect(fixture.address)).collect();
    assert_eq!(fixture.ask("GET /health/live").0, 200);
    assert!(is_closed(&silent[0]));
    busy.write_all(b"x").unwrap();
    let mut answer = [0; 4096];
    let read = busy.read(&mut answer).unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 204 "), "its request was never cut off");
    fixture.admin.stop();
}

/// Health needs no token, so a body that never arrives must not occupy a connection.
#[test]
fn health_waits_for_no_body() {
    let fixture = start("token = '0123456789abcdef'");
    for body in ["content-length: 1", "transfer-encoding: chunked"] {
        let head = format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\n{body}\r\n\r\n");
        let answer = exchange(fixture.address, &head);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    }
    fixture.admin.stop();
}

/// Whether the server has closed the connection.
fn is_closed_already(client: &Client) -> bool {
    client.set_nonblocking(true).unwrap();
    let peeked = client.peek(&mut [0]);
    client.set_nonblocking(false).unwrap();
    !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn hosts_are_checked() {
    let fixture = start("hosts = ['exchange-1.Internal']");
    let status = |line: &str, headers: &str| {
        let sent = format!("{line}\r\n{headers}connection: close\r\n\r\n");
        exchange(fixture.address, &sent)[9..12].parse::<u16>().unwrap()
    };
    let of = |host: &str| status("GET /metrics HTTP/1.1", &format!("host: {host}\r\n"));
    for host in ["127.0.0.1", "10.0.0.1:9464", "[::1]:9464", "LocalHost:1", "exchange-1.internal:1"]
    {
        assert_eq!(of(host), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
        assert_eq!(of(host), 421, "{host}");
    }
    assert_eq!(status("GET http://evil.example/metrics HTTP/1.1", "host: localhost\r\n"), 421);
    assert_eq!(status("GET /health/live HTTP/1.1", "host: evil.example\r\n"), 200);
    assert_eq!(status("GET /metrics HTTP/1.0", ""), 200);
    // Not even health responds: the bytes after the head cannot be trusted.
    let live = "GET /health/live HTTP/1.1";
    assert_eq!(status(live, ""), 400);
    assert_eq!(status(live, "host: a\r\nhost: a\r\n"), 400);
    let twice = "host: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n";
    assert_eq!(status(live, twice), 400);
    fixture.admin.stop();
    let problems = parse("x", "hosts = ['a:1', '']", AdminOptions::read).unwrap_err();
    assert_eq!(problems.count(), 2);
}

#[test]
fn changes_have_a_limit() {
    let fixture = start("changes_burst = 3\nchange_interval = '90500ms'");
    let ask = || {
        let line = "POST /v1/reload HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        exchange(fixture.address, line)
    };
    for _ in 0..3 {
        let answer = ask();
        assert!(!answer.starts_with("HTTP/1.1 429 "), "{answer}");
    }
    let limited = ask();
    assert!(limited.starts_with("HTTP/1.1 429 "), "{limited}");
    assert!(limited.contains("\r\nretry-after: 91\r\n"), "{limited}");
    assert!(limited.contains("too_many_requests"), "{limited}");
    assert_eq!(fixture.ask("GET /v1/config").0, 200, "nothing is changed by that");
    fixture.admin.stop();
}

#[test]
fn services_answer_by_their_routes() {
    let fixture = start("");
    let things = fixture.ask("GET /v1/things/a%2Fb");
    assert_eq!(things, (200, "[\"state\",\"a/b\"]\n".to_owned()));
    assert_eq!(fixture.ask("PUT /v1/things/a"), (204, String::new()));
    fixture.check_code("GET /v1/things/%ff", 400, "bad_request");
    fixture.check_code("POST /v1/things/%ff", 405, "method_not_allowed");
    fixture.check_code("GET /v1/panic", 500, "defect");
    assert_eq!(fixture.ask("GET /v1/things/a").0, 200, "a panic ends one answer alone");
    fixture.admin.stop();
}

#[test]
fn the_configuration() {
    let fixture = start("");
    let (status, body) = fixture.ask("GET /v1/config");
    let want = json!({
        "generation": 7,
        "loaded_at": "1970-01-01T00:00:00.000Z",
        "file": "vickrey.toml",
        "needs_restart": ["admin.listen"],
        "configuration": { "admin": { "token": "***" } },
    });
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, want));
    let (status, body) = fixture.ask("POST /v1/reload");
    let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
    assert_eq!((status, &error["code"]), (422, &json!("invalid_configuration")));
    assert_eq!((&error["count"], error["problems"].as_array().unwrap().len()), (&json!(2), 2));
    let first = &error["problems"][0];
    let found = json!([first["key"], first["line"], first["value"]]);
    assert_eq!(found, json!(["listen", 1, "1"]));
    fixture.admin.stop();
}

const TOKEN: &str = "0123456789abcdef";

#[test]
fn a_token_is_asked_for() {
    let fixture = start(&format!("token = '{TOKEN}'"));
    for path in ["/metrics", "/v1/config", "/v1/things/a", "/", "/v1/none", "/healthy"] {
        let ask = |authorization: &str| {
            fixture.check_code(&format!("GET {path}{authorization}"), 401, "unauthorized");
        };
        ask("");
        ask("\nauthorization: Bearer");
        ask("\nauthorization: Bearer ");
        ask("\nauthorization: Bearer 0123456789abcdeg");
        ask("\nauthorization: Bearer 0123456789abcde");
        ask("\nauthorization: Bearer 0123456789abcdef0");
        ask("\nauthorization: Basic 0123456789abcdef");
        ask("\nauthorization: Digest 0123456789abcdef");
        ask("\nauthorization: 0123456789abcdef");
    }
    for scheme in ["Bearer ", "bearer ", "BEARER   "] {
        let request = format!("GET /metrics\nauthorization: {scheme}{TOKEN}");
        assert_eq!(fixture.ask(&request).0, 200, "{request}");
    }
    assert_eq!(fixture.ask("GET /health/live").0, 200);
    assert_eq!(fixture.ask("GET /health/ready").0, 503);
    let refused =
        exchange(fixture.address, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(refused.contains("\r\nwww-authenticate: Bearer\r\n"), "{refused}");
    fixture.admin.stop();
}

/// For every origin, even our own, and with the right token.
#[test]
fn web_pages_change_nothing() {
    for (config, authorization) in [("", ""), ("token = '0123456789abcdef'", TOKEN)] {
        let fixture = start(config);
        let with = format!("authorization: Bearer {authorization}\norigin: http://a");
        fixture.check_code(&format!("PUT /v1/things/a\n{with}"), 403, "cross_origin");
        fixture.check_code(&format!("POST /v1/reload\n{with}"), 403, "cross_origin");
        assert_eq!(fixture.ask(&format!("GET /v1/things/a\n{with}")).0, 200);
        fixture.admin.stop();
    }
}

#[test]
fn bodies_have_a_limit() {
    let fixture = start("");
    let put = |length: usize| {
        let body = "x".repeat(length);
        fixture.ask(&format!("PUT /v1/things/a\ncontent-length: {length}\n\n{body}"))
    };
    assert_eq!(put(0).0, 204);
    assert_eq!(put(64 * 1024).0, 204);
    let (status, body) = put(64 * 1024 + 1);
    assert_eq!(status, 413, "{body}");
    assert!(body.contains("body_too_large"), "{body}");
    fixture.admin.stop();
}

#[test]
fn who_is_reached_by_others_has_a_token() {
    let check = |text: &str, want: &[&str]| {
        let problems = parse("admin.toml", text, AdminOptions::read).err();
        let lines = problems.iter().flat_map(|problems| problems.iter().map(ToString::to_string));
        assert_eq!(lines.collect::<Vec<_>>(), want, "{text}");
    };
    let remedy = "is reached by others than this machine: set `admin.token`, for example from \
                  `openssl rand -hex 32`, or listen on 127.0.0.1";
    for address in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1"] {
        let text = format!("listen = \"{address}\"");
        check(&text, &[&format!("line 1: listen = \"{address}\": {remedy}")]);
        check(&format!("{text}\ntoken = \"{TOKEN}\""), &[]);
    }
    check("listen = \"[::1]:1\"", &[]);
    check("listen = \"127.1.2.3:1\"", &[]);
    let short = "line 1: token: has fewer than 16 letters: it can be guessed";
    check("token = \"0123456789abcde\"", &[short]);
    let letters = "line 1: token: has letters that no header can bear: use ASCII without spaces";
    check("token = \"0123456789 abcdef\"", &[letters]);
}

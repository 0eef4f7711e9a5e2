//! Tests with a client that speaks to the socket directly.

use std::io::{Read, Write};
use std::net::TcpStream as Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::parse;
use crate::listen::listen;

struct Fixture {
    admin: Admin,
    address: SocketAddr,
    warm: Arc<AtomicBool>,
    shutdown: Shutdown,
}

fn start(config: &str) -> Fixture {
    let text = format!("listen = '127.0.0.1:0'\n{config}");
    let options = parse("admin.toml", &text, AdminOptions::read).unwrap();
    let listener = listen(options.listen).unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new(Duration::from_secs(3600));
    let warm = Arc::new(AtomicBool::new(false));
    let mut pages = Pages {
        exposition: Exposition::default(),
        readiness: Readiness::default(),
        shutdown: shutdown.clone(),
    };
    pages.exposition.add(|page| page.counters("answers", "Answers.")?.value(&[], 42));
    let check = Arc::clone(&warm);
    pages.readiness.add("warm", move || check.load(Ordering::SeqCst));
    let admin = Admin::start(&options, listener, pages).unwrap();
    Fixture { admin, address, warm, shutdown }
}

fn connect(address: SocketAddr) -> Client {
    let client = Client::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
}

/// Everything the server sends in answer to `sent`, until it closes the connection.
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
        let request = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = exchange(self.address, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{request}{answer}");
    }
}

#[test]
fn pages() {
    let fixture = start("");
    let check = |request, status, body| fixture.check(request, status, body);
    let metrics = "# HELP answers Answers.\n# TYPE answers counter\nanswers_total 42\n# EOF\n";
    check("GET /metrics", "200 OK", metrics);
    check("HEAD /metrics", "200 OK", "");
    check("GET /metrics?name[]=x", "200 OK", metrics);
    check("GET /health/live", "200 OK", "live\n");
    check("GET /", "404 Not Found", "no such page\n");
    check("GET /metrics/", "404 Not Found", "no such page\n");
    check("POST /metrics", "405 Method Not Allowed", "only GET\n");
    check("POST /", "404 Not Found", "no such page\n");

    check("GET /health/ready", "503 Service Unavailable", "not ready: warm\n");
    fixture.warm.store(true, Ordering::SeqCst);
    check("GET /health/ready", "200 OK", "ready\n");
    fixture.shutdown.begin();
    check("GET /health/ready", "503 Service Unavailable", "draining\n");
    check("GET /health/live", "200 OK", "live\n");

    let Fixture { admin, address, .. } = fixture;
    admin.stop();
    assert!(Client::connect(address).is_err());
}

#[test]
fn headers() {
    let fixture = start("");
    let ask = |request: &str| {
        let request = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        exchange(fixture.address, &request)
    };
    assert!(ask("DELETE /metrics").contains("\r\nallow: GET, HEAD\r\n"));
    let kind = "\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(ask("GET /metrics").contains(kind));
    fixture.admin.stop();
}

#[test]
fn a_kept_alive_connection_is_answered_again() {
    let fixture = start("");
    let request = "GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = exchange(fixture.address, &format!("{request}{request}{last}"));
    assert_eq!(answer.matches("\r\n\r\nlive\n").count(), 3, "{answer}");
    fixture.admin.stop();
}

#[test]
fn slow_headers_and_nonsense_are_ended() {
    let fixture = start("header_timeout = '20ms'");
    // The server closes each of these by itself, or the client's patience would end the test.
    exchange(fixture.address, "GET /metrics HTTP/1.1\r\nhost:");
    exchange(fixture.address, "");
    let answer = exchange(fixture.address, "\u{1}\u{2}\u{3}\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    fixture.admin.stop();
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let fixture = start("connections_max = 1");
    let mut first = connect(fixture.address);
    let request = b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n";
    let live = |client: &mut Client| {
        let mut answer = [0; 4096];
        client.write_all(request).unwrap();
        let n = client.read(&mut answer).unwrap();
        answer[..n].starts_with(b"HTTP/1.1 200 OK\r\n")
    };
    assert!(live(&mut first));
    let mut second = connect(fixture.address);
    // Closed with or without our bytes unread: an end or a reset.
    assert!(matches!(second.read(&mut [0]), Ok(0) | Err(_)));
    assert!(live(&mut first));
    fixture.admin.stop();
}

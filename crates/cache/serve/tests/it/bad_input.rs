//! Clients and origins that break the protocol, or lie.

use std::io::Write as _;
use std::net::TcpStream;

use super::fixtures::Proxy;

const FRESH: &str = "cache-control: max-age=60\r\n";

/// The origin's answer is broken: the client must not take it for a whole one, and the next request
/// must not get any of it.
#[track_caller]
fn check(
    name: &str,
    script: impl FnOnce(&mut TcpStream) -> bool + Send + 'static,
    want: Option<u16>,
) {
    let proxy = Proxy::start("answer_timeout = \"500ms\"\nbody_timeout = \"500ms\"");
    proxy.origin.script(move |_, stream| script(stream));
    let mut client = proxy.client();
    client.write("GET / HTTP/1.1\r\nhost: cdn.example\r\n\r\n");
    let answer = client.try_answer("GET");
    match want {
        Some(status) => assert_eq!(answer.expect(name).status, status, "{name}"),
        None => assert!(answer.is_none_or(|answer| !answer.is_complete), "{name}"),
    }
    proxy.origin.answer(&format!("200 OK\r\n{FRESH}"), "sound");
    assert_eq!(proxy.get("/", &[]).text(), "sound", "{name}");
    assert_eq!(proxy.get("/", &[]).cache(), "hit", "{name}");
}

fn text(text: String) -> impl FnOnce(&mut TcpStream) -> bool + Send {
    move |stream| {
        let _ended = stream.write_all(text.as_bytes());
        false
    }
}

#[test]
fn origins_that_break_off_stall_or_lie() {
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}");
    check("no answer", |_| false, Some(502));
    check("not HTTP", text("hello\r\n\r\n".into()), Some(502));
    check("a longer length", text(format!("{head}content-length: 10\r\n\r\n01234")), None);
    check(
        "no last chunk",
        text(format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nab\r\n")),
        None,
    );
    check(
        "a bad chunk",
        text(format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\nab\r\n")),
        None,
    );
    check(
        "two lengths",
        text(format!("{head}content-length: 2\r\ncontent-length: 3\r\n\r\nabc")),
        Some(502),
    );
    let both = format!(
        "{head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    );
    check("two framings", text(both), Some(502));
    let both = format!(
        "{head}transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    );
    check("two framings, the other way", text(both), Some(502));
    check("a head without end", text(format!("{head}x: {}", "y".repeat(2 << 20))), Some(502));
    let unasked = "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned();
    check("304 without a condition", text(unasked), Some(502));
}

#[test]
fn origins_that_hang() {
    let hangs = |stream: &mut TcpStream, text: &str| {
        stream.write_all(text.as_bytes()).expect("an open connection");
        // Until the cache gives up.
        let mut rest = Vec::new();
        let _ended = std::io::Read::read_to_end(stream, &mut rest);
        false
    };
    check("no head", move |stream| hangs(stream, "HTTP/1.1 200"), Some(504));
    let head = format!("HTTP/1.1 200 OK\r\n{FRESH}content-length: 10\r\n\r\n01234");
    check("half a body", move |stream| hangs(stream, &head), None);
}

#[test]
fn malformed_requests_are_refused_and_reach_no_origin() {
    let proxy = Proxy::start("");
    let check = |request: &str, want: u16| {
        let mut client = proxy.client();
        client.write(request);
        let answer = client.head();
        assert_eq!(answer.status, want, "{request:.100}");
    };
    let host = "host: cdn.example\r\n";
    check("GET / HTTP/1.1\r\n\r\n", 400);
    check(&format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400);
    check(&format!("GET / HTTP/1.1\r\n{host}x : y\r\n\r\n"), 400);
    check(&format!("GET / HTTP/1.1\r\n{host}x: a\rb\r\n\r\n"), 400);
    check(&format!("GET / HTTP/1.1\r\n{host}x: y\r\n z\r\n\r\n"), 400);
    check(
        &format!("POST / HTTP/1.1\r\n{host}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        400,
    );
    check(&format!("POST / HTTP/1.1\r\n{host}content-length: +1\r\n\r\na"), 400);
    let both = "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    check(&format!("POST / HTTP/1.1\r\n{host}{both}"), 400);
    check(&format!("GET / HTTP/1.1\r\n{host}x: {}\r\n\r\n", "y".repeat(200_000)), 431);
    check(&format!("CONNECT cdn.example:443 HTTP/1.1\r\n{host}\r\n"), 405);
    check(&format!("GET / HTTP/1.1\r\n{host}cdn-loop: other, vickrey\r\n\r\n"), 508);
    assert_eq!(proxy.origin.received().len(), 0);
}

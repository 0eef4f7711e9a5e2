//! Callers' access and rates, and TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use http2::{Http2Client, Http2ClientOptions, RequestHead, StreamCall, StreamEnd};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::fixtures::{
    Dsp, Running, Script, Setup, banner, bid, bids, ok, posted, posted_with, until,
};

fn of(publisher: &str) -> String {
    banner(&format!(r#","site":{{"publisher":{{"id":"{publisher}"}}}}"#))
}

fn start(dsp: &Dsp, exchange: &str, publishers: &str) -> Running {
    let dsps = [(dsp.address, "")];
    Running::start(&Setup { exchange, dsps: &dsps, rest: publishers, ..Setup::default() })
}

#[track_caller]
fn check(exchange: &Running, publisher: &str, headers: &str, want: u16) {
    let mut caller = exchange.caller();
    caller.send(&posted_with(headers, of(publisher).as_bytes()));
    let reply = caller.reply();
    assert_eq!(reply.status, want, "{publisher} {headers} {reply:?}");
    if want > 400 {
        assert!(reply.json()["error"]["problem"].is_string(), "{reply:?}");
    }
}

#[test]
fn a_publisher_with_a_key_is_sold_for_by_those_who_have_it() {
    let dsp = Dsp::bidding("1.00");
    let rest = "[[publisher]]\nid = \"locked\"\nkey = \"s3cret\"\n[[publisher]]\nid = \"open\"\n";
    let exchange = start(&dsp, "", rest);
    check(&exchange, "locked", "", 401);
    check(&exchange, "locked", "authorization: Bearer wrong!\r\n", 403);
    check(&exchange, "locked", "x-api-key: s3cre\r\n", 403);
    check(&exchange, "locked", "authorization: Basic s3cret\r\n", 401);
    check(&exchange, "locked", "authorization: Bearer s3cret\r\n", 200);
    check(&exchange, "locked", "x-api-key: s3cret\r\n", 200);
    check(&exchange, "open", "", 200);
    check(&exchange, "unheard-of", "", 200);
    assert_eq!(exchange.count(|metrics| metrics.turned_away.value()), 4);
    assert_eq!(dsp.requests(), 4, "nobody is asked for the others");
}

#[test]
fn only_publishers_that_are_named_may_sell() {
    let dsp = Dsp::bidding("1.00");
    let rest = "[[publisher]]\nid = \"known\"\n";
    let exchange = start(&dsp, "publishers_only = true\n", rest);
    check(&exchange, "known", "", 200);
    check(&exchange, "unheard-of", "", 403);
    assert_eq!(exchange.auction(&banner("")).status, 403, "none at all is not one of ours");
}

#[test]
fn a_publisher_sells_as_often_as_it_may() {
    let dsp = Dsp::bidding("1.00");
    let rest = "[[publisher]]\nid = \"limited\"\nqps = 2\n";
    let exchange = start(&dsp, "", rest);
    let status = |publisher: &str| exchange.auction(&of(publisher)).status;
    until("the first rights have come", || status("limited") == 200);
    let statuses: Vec<_> = (0..50).map(|_| status("limited")).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)));
    assert_eq!(status("another"), 200);
    until("rights come again", || status("limited") == 200);
}

/// A self-signed certificate, and the table that configures it.
fn own_tls() -> (rcgen::CertifiedKey<rcgen::KeyPair>, String) {
    let names = vec!["localhost".to_owned()];
    let own = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let tls = format!(
        "[exchange.tls]\ncertificate = \"\"\"{certificate}\"\"\"\nkey = \"\"\"{key}\"\"\"\n"
    );
    (own, tls)
}

/// The timeout of a handshake starts with its first byte; until then the connection is idle.
#[test]
fn slow_handshakes_are_cut_off() {
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp, "head_timeout = \"100ms\"\n", &own_tls().1);
    let _silent = exchange.caller();
    let mut slow = exchange.caller();
    // The first bytes of a TLS handshake record.
    slow.send(&[0x16, 0x03]);
    assert!(slow.is_closed());
    until("it is counted", || exchange.count(|m| m.handshakes_failed.value()) == 1);
    until("it is closed", || exchange.scraped("connections_open") == "1");
}

#[test]
fn callers_come_over_tls() {
    let (own, tls) = own_tls();
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp, "", &tls);

    let mut plain = exchange.caller();
    plain.send(&posted(&banner("")));
    assert!(plain.is_closed(), "it speaks no TLS");
    until("it is counted", || exchange.count(|m| m.handshakes_failed.value()) == 1);

    let mut stream = connect_tls(&exchange, &own);
    for _ in 0..2 {
        post_tls(&mut stream);
    }
}

struct PostedRequest;

impl StreamCall for PostedRequest {
    fn on_field(&mut self, _: &[u8], _: &[u8]) {}
}

#[test]
fn callers_come_over_http2_under_tls() {
    let (own, tls) = own_tls();
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp, "", &tls);
    let mut stream = connect_tls_offering(&exchange, &own, &["h2", "http/1.1"]);
    stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    let head = RequestHead::new([
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "exchange"),
        (":path", "/openrtb2/auction"),
        ("content-type", "application/json"),
    ]);
    let options =
        Http2ClientOptions { body_bytes_max: 65_536, streams_max: 10, small_frames_max: 10 };
    let mut client = Http2Client::new(&head, options);
    let body = banner("");
    for _ in 0..3 {
        let parts = std::iter::once(body.as_bytes());
        assert!(client.request(PostedRequest, &[], body.len(), parts).is_ok());
    }
    let (mut answered, mut buffer) = (0, [0; 4096]);
    while answered < 3 {
        stream.write_all(client.output()).expect("it reads");
        client.mark_sent();
        let read = stream.read(&mut buffer).expect("it answers");
        let mut on_end = |_, end: StreamEnd<'_>| {
            assert!(matches!(end, StreamEnd::Response { status: 200, .. }), "{end:?}");
            answered += 1;
        };
        client.receive(&buffer[..read], &mut on_end).expect("the exchange is right");
    }
}

/// The arrival of a handshake or of an earlier request is not the request's: otherwise it would be
/// late, or refused for its wait.
#[test]
fn a_request_over_tls_arrives_when_it_is_sent() {
    const PAUSE: Duration = Duration::from_secs(1);
    let (own, tls) = own_tls();
    let dsp = Dsp::bidding("1.00");
    let exchange = start(&dsp, "", &tls);
    let mut stream = connect_tls(&exchange, &own);
    stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    for requests in 1..=2 {
        std::thread::sleep(PAUSE);
        post_tls(&mut stream);
        let receive = exchange.count(|metrics| metrics.receive.snapshot());
        let waited = Duration::from_micros(receive.sum_us());
        assert_eq!(receive.count(), requests);
        assert!(waited < PAUSE, "{waited:?} from arrival until it was there");
    }
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A connection before its handshake.
fn connect_tls(exchange: &Running, own: &rcgen::CertifiedKey<rcgen::KeyPair>) -> TlsStream {
    connect_tls_offering(exchange, own, &[])
}

fn connect_tls_offering(
    exchange: &Running,
    own: &rcgen::CertifiedKey<rcgen::KeyPair>,
    protocols: &[&str],
) -> TlsStream {
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(exchange.address).expect("it listens");
    StreamOwned::new(session, socket)
}

/// Runs an auction, which is answered with a bid.
fn post_tls(stream: &mut TlsStream) {
    stream.write_all(&posted(&banner(""))).expect("it reads");
    let mut answer = Vec::new();
    let mut byte = [0; 1024];
    while !answer.ends_with(b"]}]}") {
        let read = stream.read(&mut byte).expect("it answers");
        assert_ne!(read, 0, "closed too early");
        answer.extend_from_slice(&byte[..read]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

/// The same response, compressed for callers that prefer it, if it is long enough.
#[test]
fn answers_are_compressed_for_callers_that_prefer_it() {
    let adm = "<p>".repeat(500);
    let long = bids(&bid("1.00").replace("<p>", &adm));
    let (long, short) = (Dsp::start([Script::answering(ok(&long))]), Dsp::bidding("1.00"));
    for (dsp, accepted, is_gzip) in [
        (&long, "accept-encoding: br, gzip;q=0.5\r\n", true),
        (&long, "accept-encoding: gzip;q=0\r\n", false),
        (&long, "", false),
        (&short, "accept-encoding: gzip\r\n", false),
    ] {
        let exchange = Running::with(&[dsp]);
        let mut stream = TcpStream::connect(exchange.address).expect("the exchange listens");
        let headers = format!("connection: close\r\n{accepted}");
        stream.write_all(&posted_with(&headers, banner("").as_bytes())).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an orderly end");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).expect("a head in ASCII");
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("vary: accept-encoding\r\n"),
            "{head}"
        );
        assert_eq!(head.contains("content-encoding: gzip\r\n"), is_gzip, "{accepted} {head}");
        let mut body = answer.split_off(end);
        if is_gzip {
            let compressed = std::mem::take(&mut body);
            assert!(compressed.len() < 1000, "{} bytes", compressed.len());
            let read = flate2::read::GzDecoder::new(&compressed[..]).read_to_end(&mut body);
            read.expect("gzip");
        }
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let want = if std::ptr::eq(dsp, &long) { adm.as_str() } else { "<p>" };
        assert_eq!(json["seatbid"][0]["bid"][0]["adm"], want);
    }
}

//! Fixtures of the fleet's tests: one DSP, a raw client, and conditions to wait for.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testbed::dsp::{self, DspBehaviour, DspProfile, DspStats, Fleet};
use testbed::server::ServerOptions;

pub(crate) const BODY: &str =
    r#"{"id":"req-1","imp":[{"id":"imp-1","bidfloor":0.1,"banner":{"w":300,"h":250}}]}"#;

pub(crate) fn fleet_of(profile: DspProfile) -> Fleet {
    let options = ServerOptions { body_bytes_max: 4096, ..ServerOptions::default() };
    dsp::start(vec![profile], &options).expect("a fleet on free ports")
}

pub(crate) fn bidding() -> DspProfile {
    DspProfile { no_bid_ppm: 0, ..DspProfile::default() }
}

/// A DSP that always bids, with this behaviour.
pub(crate) fn sick(behaviour: impl Into<DspBehaviour>) -> Fleet {
    let fleet = fleet_of(bidding());
    fleet.set_behaviour(0, behaviour).expect("a behaviour that makes sense");
    fleet
}

pub(crate) fn connect(fleet: &Fleet) -> TcpStream {
    let stream = TcpStream::connect(fleet.addresses()[0]).expect("the fleet listens");
    stream.set_nodelay(true).expect("a socket option");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket option");
    stream
}

pub(crate) fn post(body: &str) -> String {
    format!("POST /bid HTTP/1.1\r\nHost: dsp\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends one bid request.
pub(crate) fn ask(stream: &mut impl Write, id: &str) {
    stream.write_all(post(&BODY.replace("req-1", id)).as_bytes()).expect("sent");
}

/// Everything up to the empty line.
pub(crate) fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("ASCII")
}

/// A header field; `name` is in lower case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.into_iter().find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
}

/// An answer's head and its body, by content length if there is one.
pub(crate) fn raw_answer(stream: &mut impl Read) -> (String, Vec<u8>) {
    let head = head(stream);
    let length = field(&head, "content-length").map_or(0, |text| text.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    (head, body)
}

pub(crate) fn status_of(head: &str) -> u16 {
    head[9..12].parse().expect("a status")
}

/// An answer's status and body.
pub(crate) fn answer(stream: &mut impl Read) -> (u16, String) {
    let (head, body) = raw_answer(stream);
    (status_of(&head), String::from_utf8(body).expect("UTF-8"))
}

pub(crate) fn assert_bid((status, body): (u16, String), id: &str) {
    let response: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &response["id"]), (200, &id.into()));
    assert_eq!(response["seatbid"][0]["bid"][0]["impid"], "imp-1");
}

pub(crate) fn assert_closed(stream: &mut impl Read) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    assert_eq!(rest, b"");
}

/// Asserts that no unread bytes have come.
pub(crate) fn assert_silent(stream: &mut TcpStream) {
    stream.set_nonblocking(true).expect("a socket option");
    let read = stream.read(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(read, Err(io::ErrorKind::WouldBlock));
    stream.set_nonblocking(false).expect("a socket option");
}

/// Waits for another thread to count something.
pub(crate) fn until(fleet: &Fleet, what: &str, holds: impl Fn(&DspStats) -> bool) {
    let started = Instant::now();
    while !holds(&fleet.stats().total()) {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}: {:?}", fleet.stats());
        std::thread::yield_now();
    }
}

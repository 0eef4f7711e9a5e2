//! Simulated DSPs, one thread per connection, each with one way of answering, over either wire.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::harness::{Message, read_message};
use crate::wire::{Stream, Wire};

/// The way in which a DSP answers every call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// 204.
    NoBid,
    /// 200 with this body.
    Bid(&'static str),
    /// 200 with a body of this length.
    BidOf(usize),
    /// 200 with this body in gzip, or 204 if the call does not accept gzip.
    Gzip(&'static str),
    /// 200, each byte in a segment of its own, under TLS in a record.
    Dribble(&'static str),
    /// 200, then a close; under TLS with close_notify.
    BidAndClose(&'static str),
    /// 200, then close_notify, but the socket stays open. Needs TLS.
    BidAndFarewell(&'static str),
    /// Half of an answer and close_notify, but the socket stays open. Needs TLS.
    HalfAndFarewell,
    /// 200 after a key update, which also requests the peer's. Needs TLS 1.3.
    BidUnderNewKeys(&'static str),
    /// 200 to the first call of a connection, followed in the same segment by half of another
    /// answer; the connection closes after the next call.
    BidAndHalf(&'static str),
    /// 200 to the first call of a connection, which closes after the next call.
    BidOnce(&'static str),
    /// 200 to the first call of a connection, and half of an answer to the next.
    BidOnceAndHalf(&'static str),
    /// Reads the call and closes the connection.
    HangUp,
    /// 200 without a length, which the floor does not support.
    Chunked,
}

/// A DSP that listens for the life of the test process.
pub(crate) struct Dsp {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
}

impl Dsp {
    pub(crate) fn start(manner: Manner, wire: &Wire) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let url = format!("{}://{address}/bid", wire.scheme());
        let wire = wire.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let wire = wire.clone();
                thread::spawn(move || serve(wire.accept(socket), manner));
            }
        });
        Self { address, url }
    }
}

/// The URL of an address that refuses connections: bound, so nobody else can take it, but not
/// listening.
pub(crate) fn refused() -> String {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("sockets are left");
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port");
    let address = getsockname(&socket).expect("it is bound");
    std::mem::forget(socket); // Held for the life of the test process.
    let address: SocketAddr = address.try_into().expect("of the family that it was bound in");
    format!("http://{address}/bid")
}

fn serve(stream: Stream, manner: Manner) {
    let mut reader = BufReader::new(stream);
    let mut calls = 0;
    while let Some(call) = read_message(&mut reader) {
        calls += 1;
        let stream = reader.get_mut();
        if calls == 1 {
            stream.log_handshake();
        }
        match answer(&call, (manner, calls), stream) {
            Some(Then::Stay) => (),
            Some(Then::Close) => return stream.say_farewell(),
            Some(Then::Linger) => {
                stream.say_farewell();
                stream.wait_for_the_end();
                return;
            }
            // The floor has gone.
            None => return,
        }
    }
}

/// What a DSP does after its answer.
enum Then {
    Stay,
    Close,
    /// Sends close_notify and keeps the socket open.
    Linger,
}

fn answer(call: &Message, (manner, calls): (Manner, u32), stream: &mut Stream) -> Option<Then> {
    use Manner::*;
    let is_gzip = call.has("accept-encoding: gzip");
    let (bytes, then) = match manner {
        NoBid => (no_bid(), Then::Stay),
        Gzip(_) if !is_gzip => (no_bid(), Then::Stay),
        Gzip(body) => (bid(&gzip(body)), Then::Stay),
        Bid(body) | Dribble(body) | BidUnderNewKeys(body) => (bid(body.as_bytes()), Then::Stay),
        BidOf(bytes) => (bid(&vec![b'y'; bytes]), Then::Stay),
        BidAndClose(body) => (bid(body.as_bytes()), Then::Close),
        BidAndFarewell(body) => (bid(body.as_bytes()), Then::Linger),
        HalfAndFarewell => {
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec(), Then::Linger)
        }
        BidOnce(_) | BidAndHalf(_) if calls > 1 => (Vec::new(), Then::Close),
        BidAndHalf(body) => {
            let answer = bid(body.as_bytes());
            stream.write_and_half(&answer, &answer).ok()?;
            (Vec::new(), Then::Stay)
        }
        BidOnceAndHalf(body) if calls > 1 => {
            stream.write_and_half(&[], &bid(body.as_bytes())).ok()?;
            return None;
        }
        BidOnce(body) | BidOnceAndHalf(body) => (bid(body.as_bytes()), Then::Stay),
        HangUp => return None,
        Chunked => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            (format!("{head}2\r\n{{}}\r\n0\r\n\r\n").into_bytes(), Then::Stay)
        }
    };
    if matches!(manner, BidUnderNewKeys(_)) {
        stream.change_keys();
    }
    let piece = if matches!(manner, Dribble(_)) { 1 } else { usize::MAX };
    bytes.chunks(piece).try_for_each(|bytes| stream.write_all(bytes)).ok()?;
    Some(then)
}

fn no_bid() -> Vec<u8> {
    b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
}

fn bid(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn gzip(body: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body.as_bytes()).expect("a Vec takes all");
    encoder.finish().expect("a Vec takes all")
}

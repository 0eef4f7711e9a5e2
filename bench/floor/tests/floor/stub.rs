//! Simulated DSPs, one thread for each connection, each with one manner of answering.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::harness::read_message;

/// How a DSP answers every call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// 204.
    NoBid,
    /// 200 with this body.
    Bid(&'static str),
    /// 200 with a body of so many bytes.
    BidOf(usize),
    /// 200, each byte in a segment of its own.
    Dribble(&'static str),
    /// 200, and the connection closed behind it.
    BidAndClose(&'static str),
    /// The call is read and the connection closed.
    HangUp,
    /// 200 without a length, which the floor does not speak.
    Chunked,
}

/// Starts a DSP; it lives as long as the test process.
pub(crate) fn dsp(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(&stream, manner));
        }
    });
    address
}

/// An address that refuses connections: bound, so that nobody else can take it, but not listening.
pub(crate) fn refused() -> SocketAddr {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("sockets are left");
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port");
    let address = getsockname(&socket).expect("it is bound");
    std::mem::forget(socket); // Held for the life of the test process.
    address.try_into().expect("an address of the family it was bound in")
}

fn serve(stream: &TcpStream, manner: Manner) {
    stream.set_nodelay(true).expect("a TCP socket");
    let mut reader = BufReader::new(stream);
    while read_message(&mut reader).is_some() {
        let (answer, keep) = match manner {
            Manner::NoBid => ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), true),
            Manner::Bid(body) | Manner::Dribble(body) => (bid(body), true),
            Manner::BidOf(bytes) => (bid(&"y".repeat(bytes)), true),
            Manner::BidAndClose(body) => (bid(body), false),
            Manner::HangUp => (String::new(), false),
            Manner::Chunked => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                (format!("{head}2\r\n{{}}\r\n0\r\n\r\n"), true)
            }
        };
        let piece = if matches!(manner, Manner::Dribble(_)) { 1 } else { usize::MAX };
        let mut writer = stream;
        for bytes in answer.as_bytes().chunks(piece) {
            if writer.write_all(bytes).is_err() {
                return;
            }
        }
        if !keep {
            return;
        }
    }
}

fn bid(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

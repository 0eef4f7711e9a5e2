//! A client connection, and its auction in flight, if any.
//!
//! Requests on a connection are answered in order, so the auction is part of its connection and
//! reuses its buffers. A connection with an auction is neither read nor closed.

use std::fmt::Write as _;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, write};

use crate::head::{self, Scan};

/// Longest body of a bid request.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Buffer for each read: most requests arrive whole in one.
const READ_BYTES: usize = 16 << 10;

pub(crate) struct Client {
    socket: OwnedFd,
    /// The request, and the bytes after it.
    inbox: Vec<u8>,
    /// The request's body in the inbox.
    body: Range<usize>,
    /// The digits of the body's length and the end of the head: the same for every DSP.
    length: String,
    outbox: Vec<u8>,
    sent: usize,
    /// The largest answer so far.
    pub(crate) winner: Vec<u8>,
    /// Number of DSPs without an answer yet; 0 without an auction.
    pub(crate) waiting: usize,
    /// Whether there may be bytes to read that no further event will report.
    pub(crate) stirred: bool,
    /// Whether the end of the stream was reported; it is read after the requests before it.
    pub(crate) hung_up: bool,
}

/// The state of a client after all work that needs no waiting.
pub(crate) enum Turn {
    /// A request is complete: run its auction.
    Request,
    /// The next event continues it.
    Blocked,
    /// It disconnected or sent a malformed request.
    Gone,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            inbox: Vec::new(),
            body: 0..0,
            length: String::new(),
            outbox: Vec::new(),
            sent: 0,
            winner: Vec::new(),
            waiting: 0,
            stirred: false,
            hung_up: false,
        }
    }

    /// The part of a call after the DSP's own head.
    pub(crate) fn call(&self) -> [&[u8]; 2] {
        [self.length.as_bytes(), &self.inbox[self.body.clone()]]
    }

    /// Sends the rest of the last answer, then reads until a request is complete.
    pub(crate) fn advance(&mut self) -> Turn {
        match self.flush() {
            Ok(true) => (),
            Ok(false) => return Turn::Blocked,
            Err(_) => return Turn::Gone,
        }
        self.stirred = false;
        loop {
            match head::request(&self.inbox, BODY_BYTES_MAX) {
                Scan::Whole(body) => {
                    self.begin(body);
                    return Turn::Request;
                }
                Scan::Partial => (),
                Scan::Malformed => return Turn::Gone,
            }
            self.inbox.reserve(READ_BYTES);
            match read(&self.socket, spare_capacity(&mut self.inbox)) {
                Ok(0) => return Turn::Gone,
                // Only a read that fills its buffer can leave bytes.
                Ok(_) => self.stirred = self.inbox.len() == self.inbox.capacity(),
                Err(Errno::AGAIN) => return Turn::Blocked,
                Err(_) => return Turn::Gone,
            }
        }
    }

    fn begin(&mut self, body: Range<usize>) {
        self.length.clear();
        write!(self.length, "{}\r\n\r\n", body.len()).expect("a string takes any text");
        self.body = body;
        self.winner.clear();
    }

    /// Answers with the winner, or 204. True if there may be more to do at once. The next turn
    /// notices a client that cannot be written to.
    pub(crate) fn finish(&mut self) -> bool {
        self.inbox.drain(..self.body.end);
        self.sent = 0;
        self.outbox.clear();
        if self.winner.is_empty() {
            self.outbox.extend_from_slice(b"HTTP/1.1 204 No Content\r\n\r\n");
        } else {
            const HEAD: &[u8] =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
            self.length.clear();
            write!(self.length, "{}\r\n\r\n", self.winner.len()).expect("a string takes any text");
            for part in [HEAD, self.length.as_bytes(), &self.winner] {
                self.outbox.extend_from_slice(part);
            }
        }
        self.flush().is_err() || self.stirred || self.hung_up || !self.inbox.is_empty()
    }

    /// True if the whole outbox is sent.
    fn flush(&mut self) -> Result<bool, Errno> {
        while self.sent < self.outbox.len() {
            match write(&self.socket, &self.outbox[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

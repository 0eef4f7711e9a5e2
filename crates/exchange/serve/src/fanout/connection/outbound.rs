//! One kept-alive connection, HTTP/1.1 or HTTP/2: sends calls, and passes on how each has ended. Knows
//! neither what a call is for, nor other connections.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};

use ::http2::{Http2ClientOptions, Http2Error, RequestHead, StreamRefusal};
use tokio::time::Instant;
use tracing::debug;

use super::call::{CallMessage, ConnectionCallEnd};
use super::http1::{Http1, Http1Progress};
use super::http2::Http2;
use crate::fanout::sockets::transport::Transport;

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboundOptions {
    /// Largest body of an answer.
    pub(crate) body_bytes_max: usize,
    /// Most calls at a time over HTTP/2, whatever the server allows.
    pub(crate) streams_max: usize,
    /// Most DATA frames of an answer with few bytes each.
    pub(crate) small_frames_max: u32,
}

/// Why a call is not sent on a connection.
pub(crate) enum SendError<C> {
    /// The connection failed; no part of the request was sent.
    Dead(C),
    /// It has no room for another call now.
    Full(C),
}

/// What a read has achieved.
pub(crate) enum ReadProgress {
    /// Nothing has arrived.
    WouldBlock,
    /// Something was read, and more may come.
    Partial { socket_empty: bool },
    /// The connection may take a call: an answer is complete.
    Answered { socket_empty: bool },
    /// The peer has closed, or the socket failed: [`OutboundConnection::end`] it.
    PeerEnded,
    /// The connection must be closed; by this error, all its calls have ended.
    Ended(Option<Http2Error>),
}

enum Protocol<C> {
    Http1(Http1<C>),
    Http2(Box<Http2<C>>),
}

pub(crate) struct OutboundConnection<C> {
    transport: RefCell<Transport>,
    protocol: RefCell<Protocol<C>>,
    /// Whether it takes no more calls, although the server would.
    is_draining: Cell<bool>,
    closed: Cell<bool>,
    idle_since: Cell<Instant>,
    /// Whether the reactor will finish its turn.
    is_unfinished: Cell<bool>,
}

impl<C> OutboundConnection<C> {
    /// Over HTTP/2 if that was agreed on; all its requests have `head`.
    pub(crate) fn new(
        transport: Transport,
        head: &RequestHead,
        options: OutboundOptions,
        now: Instant,
    ) -> Self {
        let OutboundOptions { body_bytes_max, streams_max, small_frames_max } = options;
        let protocol = if transport.is_http2() {
            let options = Http2ClientOptions { body_bytes_max, streams_max, small_frames_max };
            Protocol::Http2(Box::new(Http2::new(head, options, now)))
        } else {
            Protocol::Http1(Http1::new(body_bytes_max))
        };
        Self {
            transport: RefCell::new(transport),
            protocol: RefCell::new(protocol),
            is_draining: Cell::new(false),
            closed: Cell::new(false),
            idle_since: Cell::new(now),
            is_unfinished: Cell::new(false),
        }
    }

    /// Whether it carries several calls at a time.
    pub(crate) fn is_multiplexed(&self) -> bool {
        matches!(*self.protocol.borrow(), Protocol::Http2(_))
    }

    /// Whether a call with a body of `length` bytes can be sent now without waiting for anything.
    /// Only for one that is multiplexed.
    pub(crate) fn room(&self, length: usize) -> Result<(), StreamRefusal> {
        let Protocol::Http2(http2) = &*self.protocol.borrow() else { return Ok(()) };
        if self.is_draining.get() || self.closed.get() {
            return Err(StreamRefusal::GoingAway);
        }
        if self.transport.borrow().has_unsent() {
            return Err(StreamRefusal::Window); // The server reads too slowly.
        }
        http2.room(length)
    }

    /// The largest body that it can carry while it has no other calls.
    pub(crate) fn capacity(&self) -> usize {
        match &*self.protocol.borrow() {
            Protocol::Http1(_) => usize::MAX,
            Protocol::Http2(http2) => http2.capacity(),
        }
    }

    /// Calls in flight.
    pub(crate) fn calls_len(&self) -> usize {
        match &*self.protocol.borrow() {
            Protocol::Http1(http1) => usize::from(http1.call().is_some()),
            Protocol::Http2(http2) => http2.calls_len(),
        }
    }

    /// Sends a call; over HTTP/2, with the others of this turn.
    ///
    /// # Errors
    /// It was not sent.
    pub(crate) fn send(&self, call: C, message: &impl CallMessage) -> Result<(), SendError<C>> {
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                let send = |parts: &[IoSlice<'_>]| self.transport.borrow_mut().send(parts);
                if let Err(error) = message.http1(send) {
                    debug!(%error, "idle connection is dead");
                    return Err(SendError::Dead(call));
                }
                http1.begin(call);
                Ok(())
            }
            Protocol::Http2(http2) => message
                .http2(|fields, body| http2.begin(call, fields, body))
                .map_err(SendError::Full),
        }
    }

    /// Sends what this turn has added, and resets the oldest streams whose calls are given up;
    /// returns how many.
    ///
    /// # Errors
    /// The connection is dead.
    pub(crate) fn finish_turn(
        &self,
        now: Instant,
        is_given_up: impl Fn(&C) -> bool,
    ) -> io::Result<u64> {
        self.is_unfinished.set(false);
        let Protocol::Http2(http2) = &mut *self.protocol.borrow_mut() else { return Ok(0) };
        let reset = http2.reset_oldest(now, is_given_up);
        if !http2.output().is_empty() {
            self.transport.borrow_mut().send(&[IoSlice::new(http2.output())])?;
            http2.mark_sent();
        }
        Ok(reset)
    }

    /// Resets all streams whose calls are given up; returns how many.
    pub(crate) fn reset_given_up(&self, now: Instant, is_given_up: impl Fn(&C) -> bool) -> u64 {
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(_) => 0,
            Protocol::Http2(http2) => http2.reset_all(now, is_given_up),
        }
    }

    /// Whether the reactor must be asked to finish the turn: it has bytes to be sent.
    pub(crate) fn begins_turn(&self) -> bool {
        let has_output = || match &*self.protocol.borrow() {
            Protocol::Http1(_) => false,
            Protocol::Http2(http2) => !http2.output().is_empty(),
        };
        let begins = !self.is_unfinished.get() && has_output();
        self.is_unfinished.set(self.is_unfinished.get() || begins);
        begins
    }

    /// Sends kept bytes to a writable socket.
    pub(crate) fn flush(&self) {
        // A read will report the error.
        drop(self.transport.borrow_mut().flush());
    }

    /// Reads once, and passes calls that end to `on_end`. Over HTTP/1.1, an answer may take
    /// `small_reads_max` reads of few bytes each.
    pub(crate) fn read(
        &self,
        scratch: &mut [u8],
        now: Instant,
        small_reads_max: u32,
        on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>),
    ) -> ReadProgress {
        let (read, socket_empty) = {
            let mut transport = self.transport.borrow_mut();
            let read = loop {
                match transport.read(scratch) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    read => break read,
                }
            };
            // A short read emptied the socket; later bytes cause another event.
            let short = read.as_ref().is_ok_and(|read| *read < scratch.len());
            (read, short && transport.short_read_empties())
        };
        let bytes = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return ReadProgress::WouldBlock;
            }
            Ok(0) | Err(_) => return ReadProgress::PeerEnded,
            Ok(read) => &scratch[..read],
        };
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                let has_unsent = self.transport.borrow().has_unsent();
                match http1.on_bytes(bytes, small_reads_max, has_unsent, on_end) {
                    Http1Progress::Partial => ReadProgress::Partial { socket_empty },
                    Http1Progress::Answered => ReadProgress::Answered { socket_empty },
                    Http1Progress::Ended => ReadProgress::Ended(None),
                }
            }
            Protocol::Http2(http2) => {
                let before = http2.calls_len();
                if let Err(error) = http2.on_bytes(bytes, now, on_end) {
                    return ReadProgress::Ended(Some(error));
                }
                match http2.calls_len() {
                    0 if http2.is_going_away() || self.is_draining.get() => {
                        ReadProgress::Ended(None)
                    }
                    calls if calls < before => {
                        self.idle_since.set(now);
                        ReadProgress::Answered { socket_empty }
                    }
                    _ => ReadProgress::Partial { socket_empty },
                }
            }
        }
    }

    /// Ends all calls because the peer has closed or the socket failed. One that was `reused` may
    /// have been closed by the server without seeing the request.
    pub(crate) fn end(&self, reused: bool, on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>)) {
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => http1.on_end(reused, on_end),
            Protocol::Http2(http2) => http2.on_end(on_end),
        }
    }

    /// Whether it has no calls and should be closed: it is idle since before `idle_before`, takes no
    /// more calls, or has had no window for one since `blocked_before`.
    pub(crate) fn is_useless(&self, idle_before: Instant, blocked_before: Instant) -> bool {
        if self.calls_len() > 0 {
            return false;
        }
        let idle_since = self.idle_since.get();
        let is_blocked = match &*self.protocol.borrow() {
            Protocol::Http1(_) => false,
            Protocol::Http2(http2) => match http2.room(1) {
                Err(StreamRefusal::GoingAway) => return true,
                Err(StreamRefusal::Window) => true,
                Err(StreamRefusal::StreamLimit) | Ok(()) => false,
            },
        };
        let is_blocked = is_blocked && idle_since <= blocked_before;
        is_blocked || idle_since < idle_before || self.is_draining.get()
    }

    /// Passes every call in flight to `see`.
    pub(crate) fn each_call(&self, see: impl FnMut(&C)) {
        match &*self.protocol.borrow() {
            Protocol::Http1(http1) => http1.call().into_iter().for_each(see),
            Protocol::Http2(http2) => http2.calls().for_each(see),
        }
    }

    /// Passes the oldest call to `of`, and over HTTP/2 when the server last sent anything.
    pub(crate) fn oldest<T>(&self, of: impl FnOnce(&C, Option<Instant>) -> T) -> Option<T> {
        match &*self.protocol.borrow() {
            Protocol::Http1(http1) => http1.call().map(|call| of(call, None)),
            Protocol::Http2(http2) => {
                http2.calls().next().map(|call| of(call, Some(http2.read_at)))
            }
        }
    }

    /// Takes no more calls. Returns whether it can close now.
    pub(crate) fn drain(&self) -> bool {
        self.is_draining.set(true);
        self.calls_len() == 0
    }

    pub(crate) fn mark_idle(&self, now: Instant) {
        self.idle_since.set(now);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Closes both halves, and ends calls that still wait.
    pub(crate) fn close(&self, on_end: &mut impl FnMut(C, ConnectionCallEnd<'_>)) {
        self.closed.set(true);
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                if let Some(call) = http1.take_call() {
                    let error = "the connection was closed before the answer";
                    on_end(call, ConnectionCallEnd::Lost { error });
                }
            }
            Protocol::Http2(http2) => {
                http2.on_end(on_end);
                // GOAWAY, in case that the server still reads.
                drop(self.transport.borrow_mut().send(&[IoSlice::new(http2.output())]));
            }
        }
        // Others may own it for a while; the peer need not wait.
        self.transport.borrow_mut().shut_down();
    }
}

//! One kept-alive connection to a DSP: auctions write to it, the reactor reads from it.
//!
//! A protocol ends calls; this decides what that means for auction, DSP and metrics. Knows the inbox
//! of its calls, but no pool.

pub(super) mod call;
mod http1;
mod http2;

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;

use ::http2::{Http2ClientOptions, StreamCall, StreamRefusal};
use exchange_core::record::CallOutcome;
use mio::Token;
use tokio::time::Instant;
use tracing::debug;

use self::call::{CallMessage, ConnectionCallEnd};
use self::http1::{Http1, Http1Progress};
use self::http2::Http2;
use super::answer::Coding;
use super::health::ConnectAttempt;
use super::inbox::Inbox;
use super::inflate::{InflateError, Inflater};
use super::peer::DspPeer;
use super::sockets::reactor::ReadBuffers;
use super::sockets::transport::Transport;
use crate::guards::OwnedCallPermit;

#[derive(Debug)]
pub(super) struct ConnectionCall {
    pub(super) inbox: Rc<Inbox<DspConnection>>,
    pub(super) slot: usize,
    pub(super) sent_at: Instant,
    /// The connection closes if the answer is incomplete by then.
    pub(super) drain_until: Instant,
    /// Released with the call.
    pub(super) permit: Option<OwnedCallPermit>,
    /// How the answer is compressed, once its head has come over HTTP/2.
    pub(super) coding: Coding,
}

impl ConnectionCall {
    /// Whether its auction still waits.
    fn is_awaited(&self) -> bool {
        self.inbox.is_waiting(self.slot)
    }
}

impl StreamCall for ConnectionCall {
    fn on_field(&mut self, name: &[u8], value: &[u8]) {
        if name == b"content-encoding" {
            self.coding = Coding::of(value.trim_ascii());
        }
    }
}

/// Why a call is not sent on a connection.
pub(super) enum SendError {
    /// The connection failed; no part of the request was sent.
    Dead(ConnectionCall),
    /// It has no room for another call now.
    Full(ConnectionCall),
}

/// What a connection has been used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionUse {
    /// Nothing was sent.
    Unused,
    /// No complete answer yet.
    Asked,
    /// At least one complete answer.
    Answered,
}

/// What a read has achieved.
pub(super) enum ReadProgress {
    /// Nothing has arrived.
    WouldBlock,
    /// Something was read, and more may come.
    Partial { socket_empty: bool },
    /// The connection may take a call: an answer is complete.
    Answered { socket_empty: bool },
    /// The connection must be closed.
    Ended,
}

enum Protocol {
    Http1(Http1<ConnectionCall>),
    Http2(Box<Http2<ConnectionCall>>),
}

pub(super) struct DspConnection {
    peer: Rc<DspPeer>,
    transport: RefCell<Transport>,
    token: Token,
    pub(super) id: u64,
    pub(super) attempt: ConnectAttempt,
    protocol: RefCell<Protocol>,
    usage: Cell<ConnectionUse>,
    /// Whether it has been idle or carried an answer. Only then may a reset mean that the DSP
    /// closed it without reading the request.
    reused: Cell<bool>,
    /// Whether it takes no more calls, although the DSP would.
    is_draining: Cell<bool>,
    closed: Cell<bool>,
    idle_since: Cell<Instant>,
    /// Whether the reactor will finish its turn.
    is_unfinished: Cell<bool>,
}

impl fmt::Debug for DspConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DspConnection")
            .field("id", &self.id)
            .field("address", &self.attempt.address)
            .finish()
    }
}

impl DspConnection {
    pub(super) fn new(
        peer: Rc<DspPeer>,
        transport: Transport,
        token: Token,
        id: u64,
        attempt: ConnectAttempt,
    ) -> Self {
        let now = Instant::now();
        let body_bytes_max = peer.endpoint.response_bytes_max;
        let protocol = if transport.is_http2() {
            let limits = peer.limits.get();
            let options = Http2ClientOptions {
                body_bytes_max,
                streams_max: limits.streams_max,
                small_frames_max: limits.small_reads_max,
            };
            Protocol::Http2(Box::new(Http2::new(&peer.endpoint.http2_head, options, now)))
        } else {
            Protocol::Http1(Http1::new(body_bytes_max))
        };
        Self {
            peer,
            transport: RefCell::new(transport),
            token,
            id,
            attempt,
            protocol: RefCell::new(protocol),
            usage: Cell::new(ConnectionUse::Unused),
            reused: Cell::new(false),
            is_draining: Cell::new(false),
            closed: Cell::new(false),
            idle_since: Cell::new(now),
            is_unfinished: Cell::new(false),
        }
    }

    /// Whether it carries several calls at a time.
    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(*self.protocol.borrow(), Protocol::Http2(_))
    }

    /// Whether a call with a body of `length` bytes can be sent now without waiting for anything.
    /// Only for one that is multiplexed.
    pub(super) fn room(&self, length: usize) -> Result<(), StreamRefusal> {
        let Protocol::Http2(http2) = &*self.protocol.borrow() else { return Ok(()) };
        if self.is_draining.get() || self.closed.get() {
            return Err(StreamRefusal::GoingAway);
        }
        if self.transport.borrow().has_unsent() {
            return Err(StreamRefusal::Window); // The DSP reads too slowly.
        }
        http2.room(length)
    }

    /// Calls in flight.
    pub(super) fn calls_len(&self) -> usize {
        match &*self.protocol.borrow() {
            Protocol::Http1(http1) => usize::from(http1.call().is_some()),
            Protocol::Http2(http2) => http2.calls_len(),
        }
    }

    /// Sends a call; over HTTP/2, with the others of this turn.
    ///
    /// # Errors
    /// It was not sent.
    pub(super) fn send(
        &self,
        call: ConnectionCall,
        message: &impl CallMessage,
    ) -> Result<(), SendError> {
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                let send = |parts: &[IoSlice<'_>]| self.transport.borrow_mut().send(parts);
                if let Err(error) = message.http1(send) {
                    debug!(address = %self.attempt.address, %error, "idle connection is dead");
                    return Err(SendError::Dead(call));
                }
                http1.begin(call);
            }
            Protocol::Http2(http2) => {
                message.body(|body| http2.begin(call, body)).map_err(SendError::Full)?;
            }
        }
        if self.usage.get() == ConnectionUse::Unused {
            self.usage.set(ConnectionUse::Asked);
        }
        Ok(())
    }

    /// Sends what this turn has added, and resets the oldest streams whose auctions have given them
    /// up. False if the connection is dead.
    #[must_use]
    pub(super) fn finish_turn(&self, now: Instant) -> bool {
        self.is_unfinished.set(false);
        let Protocol::Http2(http2) = &mut *self.protocol.borrow_mut() else { return true };
        http2.reset_oldest(now, |call| !call.is_awaited());
        if http2.output().is_empty() {
            return true;
        }
        let sent = self.transport.borrow_mut().send(&[IoSlice::new(http2.output())]);
        if let Err(error) = sent {
            debug!(address = %self.attempt.address, %error, "connection is dead");
            return false;
        }
        http2.mark_sent();
        true
    }

    /// Resets all streams whose auctions have given them up.
    pub(super) fn reset_given_up(&self, now: Instant) {
        if let Protocol::Http2(http2) = &mut *self.protocol.borrow_mut() {
            http2.reset_all(now, |call| !call.is_awaited());
        }
    }

    /// Whether the reactor must be asked to finish the turn: it has bytes to be sent.
    pub(super) fn begins_turn(&self) -> bool {
        let has_output = || match &*self.protocol.borrow() {
            Protocol::Http1(_) => false,
            Protocol::Http2(http2) => !http2.output().is_empty(),
        };
        let begins = !self.is_unfinished.get() && has_output();
        self.is_unfinished.set(self.is_unfinished.get() || begins);
        begins
    }

    /// Sends kept bytes to a writable socket.
    pub(super) fn flush(&self) {
        // A read will report the error.
        drop(self.transport.borrow_mut().flush());
    }

    /// Reads once.
    pub(super) fn read(&self, buffers: &mut ReadBuffers, now: Instant) -> ReadProgress {
        let ReadBuffers { scratch, inflater } = buffers;
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
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadProgress::WouldBlock,
            Ok(0) | Err(_) => {
                self.on_connection_end(inflater, now);
                ReadProgress::Ended
            }
            Ok(read) => self.on_bytes(&scratch[..read], socket_empty, inflater, now),
        }
    }

    pub(super) fn token(&self) -> Token {
        self.token
    }

    pub(super) fn is_reused(&self) -> bool {
        self.reused.get()
    }

    pub(super) fn usage(&self) -> ConnectionUse {
        self.usage.get()
    }

    /// Whether it should close: its answers are overdue beyond draining, it has been idle since
    /// before `idle_before`, or its address is no longer the DSP's.
    pub(super) fn is_expired(
        &self,
        now: Instant,
        idle_before: Instant,
        known: &[SocketAddr],
    ) -> bool {
        match &*self.protocol.borrow() {
            Protocol::Http1(http1) => match http1.call() {
                Some(call) => call.drain_until <= now,
                None => {
                    self.idle_since.get() < idle_before || !known.contains(&self.attempt.address)
                }
            },
            Protocol::Http2(http2) => match http2.oldest() {
                // Nothing has come since: the DSP has stopped, not only this call.
                Some(call) => call.drain_until <= now && http2.read_at <= call.sent_at,
                None => {
                    let is_of_no_use = http2.room(1) == Err(StreamRefusal::Window);
                    let rested = now.saturating_duration_since(self.idle_since.get());
                    self.idle_since.get() < idle_before
                        || self.is_draining.get()
                        || http2.is_going_away()
                        || is_of_no_use && rested >= self.peer.limits.get().drain_timeout
                }
            },
        }
    }

    /// Takes no more calls. Returns whether it can close now.
    pub(super) fn drain(&self) -> bool {
        self.is_draining.set(true);
        self.calls_len() == 0
    }

    pub(super) fn mark_idle(&self, now: Instant) {
        self.idle_since.set(now);
        self.reused.set(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Closes both halves, and fails calls that still wait.
    pub(super) fn close(&self) {
        self.closed.set(true);
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                if let Some(call) = http1.take_call() {
                    call.inbox.deliver(call.slot, CallOutcome::Reset, &[]);
                }
            }
            Protocol::Http2(http2) => {
                http2.on_end(&mut |call, end| self.end_unanswered(call, &end));
                // GOAWAY, in case that the DSP still reads.
                drop(self.transport.borrow_mut().send(&[IoSlice::new(http2.output())]));
            }
        }
        // Others may own it for a while; the peer need not wait.
        self.transport.borrow_mut().shut_down();
    }

    fn on_bytes(
        &self,
        bytes: &[u8],
        socket_empty: bool,
        inflater: &mut Inflater,
        now: Instant,
    ) -> ReadProgress {
        let mut on_end = |call: ConnectionCall, end: ConnectionCallEnd<'_>| {
            self.end_call(call, &end, inflater, now);
        };
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => {
                let small_reads_max = self.peer.limits.get().small_reads_max;
                let has_unsent = self.transport.borrow().has_unsent();
                match http1.on_bytes(bytes, small_reads_max, has_unsent, on_end) {
                    Http1Progress::Partial => ReadProgress::Partial { socket_empty },
                    Http1Progress::Answered => ReadProgress::Answered { socket_empty },
                    Http1Progress::Ended => ReadProgress::Ended,
                }
            }
            Protocol::Http2(http2) => {
                let before = http2.calls_len();
                if let Err(error) = http2.on_bytes(bytes, now, &mut on_end, |call| call.coding) {
                    debug!(address = %self.attempt.address, %error, "connection refused");
                    self.peer.metrics.errors.note(|| error.to_string());
                    return ReadProgress::Ended;
                }
                match http2.calls_len() {
                    0 if http2.is_going_away() || self.is_draining.get() => ReadProgress::Ended,
                    calls if calls < before => {
                        self.mark_idle(now);
                        ReadProgress::Answered { socket_empty }
                    }
                    _ => ReadProgress::Partial { socket_empty },
                }
            }
        }
    }

    /// Handles the peer's close or a failure.
    fn on_connection_end(&self, inflater: &mut Inflater, now: Instant) {
        let mut on_end = |call: ConnectionCall, end: ConnectionCallEnd<'_>| {
            self.end_call(call, &end, inflater, now);
        };
        match &mut *self.protocol.borrow_mut() {
            Protocol::Http1(http1) => http1.on_end(self.reused.get(), on_end),
            Protocol::Http2(http2) => http2.on_end(&mut on_end),
        }
    }

    /// Handles the end of a call; a late answer is not decompressed.
    fn end_call(
        &self,
        call: ConnectionCall,
        end: &ConnectionCallEnd<'_>,
        inflater: &mut Inflater,
        now: Instant,
    ) {
        let ConnectionCallEnd::Answer { status, coding, body } = *end else {
            if let ConnectionCallEnd::Failed { outcome, error } = *end {
                return self.fail(call, now, outcome, error);
            }
            return self.end_unanswered(call, end);
        };
        self.usage.set(ConnectionUse::Answered);
        self.peer.health.borrow_mut().answered(self.attempt);
        let outcome = match status {
            204 => CallOutcome::NoBid,
            200 if body.is_empty() => CallOutcome::NoBid,
            200 => CallOutcome::Answered,
            _ => CallOutcome::Status,
        };
        let endpoint = &self.peer.endpoint;
        match (outcome, coding) {
            (CallOutcome::Answered, Coding::Identity) => self.deliver(call, now, outcome, body),
            (CallOutcome::Answered, Coding::Gzip) if endpoint.gzip && call.is_awaited() => {
                match inflater.gunzip(body, endpoint.response_bytes_max) {
                    Ok([]) => self.deliver(call, now, CallOutcome::NoBid, &[]),
                    Ok(body) => self.deliver(call, now, outcome, body),
                    Err(error @ InflateError::TooLarge) => {
                        self.fail(call, now, CallOutcome::TooLarge, &error);
                    }
                    Err(error @ InflateError::Malformed) => {
                        self.fail(call, now, CallOutcome::Encoded, &error);
                    }
                }
            }
            (CallOutcome::Answered, _) => self.deliver(call, now, CallOutcome::Encoded, &[]),
            // Error bodies are not read.
            (CallOutcome::Status, _) => {
                self.fail(call, now, outcome, &format_args!("the answer's status is {status}"));
            }
            _ => self.deliver(call, now, outcome, &[]),
        }
    }

    /// Ends the call with `outcome`, and keeps the error for operators.
    fn fail(&self, call: ConnectionCall, now: Instant, outcome: CallOutcome, error: &dyn Display) {
        debug!(address = %self.attempt.address, %error, "answer refused");
        self.peer.metrics.errors.note(|| error.to_string());
        self.deliver(call, now, outcome, &[]);
    }

    /// Ends the call with `outcome`.
    #[expect(clippy::needless_pass_by_value, reason = "the call ends: its permit is released")]
    fn deliver(&self, call: ConnectionCall, now: Instant, outcome: CallOutcome, body: &[u8]) {
        let metrics = &self.peer.metrics;
        let latency = now.saturating_duration_since(call.sent_at);
        metrics.latency.record(latency);
        call.inbox.set_latency(call.slot, latency);
        if !call.inbox.deliver(call.slot, outcome, body) {
            metrics.drained.increment();
        }
        self.reused.set(true);
    }

    /// Handles a call that ended without an answer: repeats it if that is safe.
    fn end_unanswered(&self, mut call: ConnectionCall, end: &ConnectionCallEnd<'_>) {
        let error = match end {
            ConnectionCallEnd::Unseen { error } => {
                if call.inbox.retry(call.slot, &mut call.permit) {
                    self.peer.metrics.retries.increment();
                    return;
                }
                (*error).to_owned()
            }
            ConnectionCallEnd::Lost { error } => (*error).to_owned(),
            ConnectionCallEnd::Failed { error, .. } => error.to_string(),
            ConnectionCallEnd::Answer { .. } => unreachable!("it is an answer"),
        };
        self.peer.metrics.errors.note(|| error);
        call.inbox.deliver(call.slot, CallOutcome::Reset, &[]);
    }
}

//! One kept-alive connection to a DSP: auctions write to it, the reactor reads from it.
//!
//! Knows the inbox of its call, but no pool.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;

use exchange_core::record::CallOutcome;
use mio::Token;
use tokio::time::Instant;
use tracing::debug;

use super::answer::{AnswerError, AnswerHead, AnswerProgress, AnswerReader, Coding};
use super::health::ConnectAttempt;
use super::inbox::Inbox;
use super::inflate::{InflateError, Inflater};
use super::peer::DspPeer;
use super::sockets::reactor::ReadBuffers;
use super::sockets::transport::Transport;
use crate::guards::OwnedCallPermit;

/// A read of fewer bytes that does not end the answer counts as small.
const SMALL_READ_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct ConnectionCall {
    pub(super) inbox: Rc<Inbox<DspConnection>>,
    pub(super) slot: usize,
    pub(super) sent_at: Instant,
    /// The connection closes if the answer is incomplete by then.
    pub(super) drain_until: Instant,
    /// Released with the call.
    pub(super) permit: Option<OwnedCallPermit>,
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
    /// More of an answer is needed.
    Partial { socket_empty: bool },
    /// The answer is complete, and the connection is idle.
    Answered { socket_empty: bool },
    /// The connection must be closed.
    Ended,
}

pub(super) struct DspConnection {
    peer: Rc<DspPeer>,
    transport: RefCell<Transport>,
    token: Token,
    pub(super) id: u64,
    pub(super) attempt: ConnectAttempt,
    usage: Cell<ConnectionUse>,
    /// Set from the first byte written until the answer is read or given up.
    call: RefCell<Option<ConnectionCall>>,
    answer: RefCell<AnswerReader>,
    /// Small reads of the current answer.
    small_reads: Cell<u32>,
    /// Whether it has been idle or carried an answer. Only then may a reset mean that the DSP
    /// closed it without reading the request.
    reused: Cell<bool>,
    closed: Cell<bool>,
    idle_since: Cell<Instant>,
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
        let answer = AnswerReader::new(peer.endpoint.response_bytes_max);
        Self {
            peer,
            transport: RefCell::new(transport),
            token,
            id,
            attempt,
            usage: Cell::new(ConnectionUse::Unused),
            call: RefCell::new(None),
            answer: RefCell::new(answer),
            small_reads: Cell::new(0),
            reused: Cell::new(false),
            closed: Cell::new(false),
            idle_since: Cell::new(Instant::now()),
        }
    }

    /// Sends a request in `parts`.
    ///
    /// # Errors
    /// The connection failed; no part of the request was answered.
    pub(super) fn send(
        &self,
        call: ConnectionCall,
        parts: &[IoSlice<'_>],
    ) -> Result<(), ConnectionCall> {
        debug_assert!(self.call.borrow().is_none(), "a connection carries one call at a time");
        let sent = self.transport.borrow_mut().send(parts);
        if let Err(error) = sent {
            debug!(address = %self.attempt.address, %error, "idle connection is dead");
            return Err(call);
        }
        *self.call.borrow_mut() = Some(call);
        if self.usage.get() == ConnectionUse::Unused {
            self.usage.set(ConnectionUse::Asked);
        }
        Ok(())
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
                self.on_end(inflater, now);
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

    pub(super) fn in_flight(&self) -> bool {
        self.call.borrow().is_some()
    }

    /// Whether it should close: its answer is overdue beyond draining, it has been idle since
    /// before `idle_before`, or its address is no longer the DSP's.
    pub(super) fn is_expired(
        &self,
        now: Instant,
        idle_before: Instant,
        known: &[SocketAddr],
    ) -> bool {
        match &*self.call.borrow() {
            Some(call) => call.drain_until <= now,
            None => self.idle_since.get() < idle_before || !known.contains(&self.attempt.address),
        }
    }

    pub(super) fn mark_idle(&self, now: Instant) {
        self.idle_since.set(now);
        self.reused.set(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Closes both halves, and fails a call that still waits.
    pub(super) fn close(&self) {
        self.closed.set(true);
        let call = self.call.borrow_mut().take();
        if let Some(call) = call {
            call.inbox.deliver(call.slot, CallOutcome::Reset, &[]);
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
        if !self.in_flight() {
            return ReadProgress::Ended; // Nothing was asked.
        }
        let mut answer = self.answer.borrow_mut();
        match answer.read(bytes) {
            Ok(AnswerProgress::Partial) if self.count_read(bytes.len()) => {
                return ReadProgress::Partial { socket_empty };
            }
            Ok(AnswerProgress::Partial) => {
                self.fail(now, CallOutcome::Trickle, &"the answer trickles in");
            }
            Ok(AnswerProgress::Done { head, body, surplus }) => {
                self.finish(head, body, inflater, now);
                // An answer before the whole request was sent leaves the connection out of step.
                let unsent = self.transport.borrow().has_unsent();
                if head.keep_alive && surplus == 0 && !unsent {
                    answer.reset();
                    self.small_reads.set(0);
                    return ReadProgress::Answered { socket_empty };
                }
            }
            Err(error @ (AnswerError::HeadTooLarge | AnswerError::BodyTooLarge)) => {
                self.fail(now, CallOutcome::TooLarge, &error);
            }
            Err(error @ (AnswerError::Malformed(_) | AnswerError::Truncated)) => {
                self.fail(now, CallOutcome::Malformed, &error);
            }
        }
        ReadProgress::Ended
    }

    /// Counts small reads, each of which costs the shard a turn. False if there are too many.
    fn count_read(&self, came: usize) -> bool {
        let small_reads = self.small_reads.get() + u32::from(came < SMALL_READ_BYTES);
        self.small_reads.set(small_reads);
        small_reads <= self.peer.limits.get().small_reads_max
    }

    /// Handles the peer's close or a failure.
    fn on_end(&self, inflater: &mut Inflater, now: Instant) {
        if !self.in_flight() {
            return;
        }
        let mut answer = self.answer.borrow_mut();
        if !answer.has_begun() {
            return self.retry_or_fail();
        }
        match answer.end() {
            Ok(AnswerProgress::Done { head, body, .. }) => self.finish(head, body, inflater, now),
            Ok(AnswerProgress::Partial) | Err(_) => {
                self.fail(now, CallOutcome::Malformed, &AnswerError::Truncated);
            }
        }
    }

    /// Handles a complete answer; a late one is not decompressed.
    fn finish(&self, head: AnswerHead, body: &[u8], inflater: &mut Inflater, now: Instant) {
        self.usage.set(ConnectionUse::Answered);
        self.peer.health.borrow_mut().answered(self.attempt);
        let outcome = match head.status {
            204 => CallOutcome::NoBid,
            200 if body.is_empty() => CallOutcome::NoBid,
            200 => CallOutcome::Answered,
            _ => CallOutcome::Status,
        };
        let endpoint = &self.peer.endpoint;
        match (outcome, head.coding) {
            (CallOutcome::Answered, Coding::Identity) => self.deliver(now, outcome, body),
            (CallOutcome::Answered, Coding::Gzip) if endpoint.gzip && self.is_awaited() => {
                match inflater.gunzip(body, endpoint.response_bytes_max) {
                    Ok([]) => self.deliver(now, CallOutcome::NoBid, &[]),
                    Ok(body) => self.deliver(now, outcome, body),
                    Err(error @ InflateError::TooLarge) => {
                        self.fail(now, CallOutcome::TooLarge, &error);
                    }
                    Err(error @ InflateError::Malformed) => {
                        self.fail(now, CallOutcome::Encoded, &error);
                    }
                }
            }
            (CallOutcome::Answered, _) => self.deliver(now, CallOutcome::Encoded, &[]),
            // Error bodies are not read.
            (CallOutcome::Status, _) => {
                self.fail(now, outcome, &format_args!("the answer's status is {}", head.status));
            }
            _ => self.deliver(now, outcome, &[]),
        }
    }

    /// Whether the call's auction still waits.
    fn is_awaited(&self) -> bool {
        self.call.borrow().as_ref().is_some_and(|call| call.inbox.is_waiting(call.slot))
    }

    /// Ends the call with `outcome`, and keeps the error for operators.
    fn fail(&self, now: Instant, outcome: CallOutcome, error: &dyn Display) {
        debug!(address = %self.attempt.address, %error, "answer refused");
        self.peer.metrics.errors.note(|| error.to_string());
        self.deliver(now, outcome, &[]);
    }

    /// Ends the call with `outcome`.
    fn deliver(&self, now: Instant, outcome: CallOutcome, body: &[u8]) {
        let call = self.call.borrow_mut().take().expect("an answer is to a call");
        let metrics = &self.peer.metrics;
        let latency = now.saturating_duration_since(call.sent_at);
        metrics.latency.record(latency);
        call.inbox.set_latency(call.slot, latency);
        if !call.inbox.deliver(call.slot, outcome, body) {
            metrics.drained.increment();
        }
        self.reused.set(true);
    }

    /// Handles a connection that ended before the answer began. If it was reused, the DSP may have
    /// closed it without seeing the request, so the call is repeated.
    fn retry_or_fail(&self) {
        let mut call = self.call.borrow_mut().take().expect("an answer is awaited");
        if self.reused.get() && call.inbox.retry(call.slot, &mut call.permit) {
            self.peer.metrics.retries.increment();
            return;
        }
        let error = || "the connection ended before the answer began".to_owned();
        self.peer.metrics.errors.note(error);
        call.inbox.deliver(call.slot, CallOutcome::Reset, &[]);
    }
}

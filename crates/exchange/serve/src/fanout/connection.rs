//! One kept-alive connection to a DSP: auctions write to it, the reactor reads from it.
//!
//! A protocol ends calls; this decides what that means for auction, DSP and metrics. Knows the inbox
//! of its calls, but no pool.

pub(crate) mod call;
mod http1;
mod http2;
pub(crate) mod outbound;

use std::cell::Cell;
use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::rc::Rc;

use exchange_core::record::CallOutcome;
use mio::Token;
use tokio::time::Instant;
use tracing::debug;

use self::call::{CallMessage, ConnectionCallEnd};
use self::outbound::{OutboundConnection, OutboundOptions, ReadProgress, SendError};
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
}

impl ConnectionCall {
    /// Whether its auction still waits.
    fn is_awaited(&self) -> bool {
        self.inbox.is_waiting(self.slot)
    }
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

pub(super) struct DspConnection {
    peer: Rc<DspPeer>,
    pub(super) http: OutboundConnection<ConnectionCall>,
    token: Token,
    pub(super) id: u64,
    pub(super) attempt: ConnectAttempt,
    usage: Cell<ConnectionUse>,
    /// Whether it has been idle or carried an answer. Only then may a reset mean that the DSP
    /// closed it without reading the request.
    reused: Cell<bool>,
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
        let limits = peer.limits.get();
        let options = OutboundOptions {
            body_bytes_max: peer.endpoint.response_bytes_max,
            streams_max: limits.streams_max,
            small_frames_max: limits.small_reads_max,
        };
        let http =
            OutboundConnection::new(transport, &peer.endpoint.http2_head, options, Instant::now());
        let (usage, reused) = (Cell::new(ConnectionUse::Unused), Cell::new(false));
        Self { peer, http, token, id, attempt, usage, reused }
    }

    /// Sends a call; over HTTP/2, with the others of this turn.
    ///
    /// # Errors
    /// It was not sent.
    pub(super) fn send(
        &self,
        call: ConnectionCall,
        message: &impl CallMessage,
    ) -> Result<(), SendError<ConnectionCall>> {
        let sent = self.http.send(call, message);
        if sent.is_ok() && self.usage.get() == ConnectionUse::Unused {
            self.usage.set(ConnectionUse::Asked);
        }
        sent
    }

    /// Sends what this turn has added, and resets the oldest streams whose auctions have given them
    /// up. False if the connection is dead.
    #[must_use]
    pub(super) fn finish_turn(&self, now: Instant) -> bool {
        let finished = self.http.finish_turn(now, |call| !call.is_awaited());
        match &finished {
            Ok(reset) => self.peer.metrics.streams_reset.add(*reset),
            Err(error) => debug!(address = %self.attempt.address, %error, "connection is dead"),
        }
        finished.is_ok()
    }

    /// Resets all streams whose auctions have given them up.
    pub(super) fn reset_given_up(&self, now: Instant) {
        let reset = self.http.reset_given_up(now, |call| !call.is_awaited());
        self.peer.metrics.streams_reset.add(reset);
    }

    /// Reads once.
    pub(super) fn read(&self, buffers: &mut ReadBuffers, now: Instant) -> ReadProgress {
        let ReadBuffers { scratch, inflater } = buffers;
        let mut on_end = |call: ConnectionCall, end: ConnectionCallEnd<'_>| {
            self.end_call(call, &end, inflater, now);
        };
        let small_reads_max = self.peer.limits.get().small_reads_max;
        let progress = self.http.read(scratch, now, small_reads_max, &mut on_end);
        match &progress {
            ReadProgress::PeerEnded => self.http.end(self.reused.get(), &mut on_end),
            ReadProgress::Ended(Some(error)) => {
                debug!(address = %self.attempt.address, %error, "connection refused");
                self.peer.metrics.errors.note(|| error.to_string());
            }
            _ => (),
        }
        progress
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
        let is_stalled = self.http.oldest(|call, read_at| {
            // Nothing has come since: the DSP has stopped, not only this call.
            call.drain_until <= now && read_at.is_none_or(|read_at| read_at <= call.sent_at)
        });
        let blocked_before = now.checked_sub(self.peer.limits.get().drain_timeout);
        is_stalled.unwrap_or_else(|| {
            self.http.is_useless(idle_before, blocked_before.unwrap_or(now))
                || !self.http.is_multiplexed() && !known.contains(&self.attempt.address)
        })
    }

    pub(super) fn mark_idle(&self, now: Instant) {
        self.http.mark_idle(now);
        self.reused.set(true);
    }

    /// Closes both halves, and fails calls that still wait.
    pub(super) fn close(&self) {
        self.http.close(&mut |call, end| self.end_unanswered(call, &end));
    }

    /// Handles the end of a call; a late answer is not decompressed.
    fn end_call(
        &self,
        call: ConnectionCall,
        end: &ConnectionCallEnd<'_>,
        inflater: &mut Inflater,
        now: Instant,
    ) {
        let ConnectionCallEnd::Answer { status, fields, body } = *end else {
            if let ConnectionCallEnd::Failed { outcome, error, .. } = *end {
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
        match (outcome, fields.coding) {
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

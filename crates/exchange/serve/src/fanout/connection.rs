//! One kept-alive connection to a DSP: auctions write to it, the reactor reads from it.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;

use mio::Token;
use mio::net::TcpStream;
use tokio::time::Instant;
use tracing::debug;

use super::answer::{AnswerError, AnswerReader, Head, Progress};
use super::inbox::{Inbox, Outcome};
use super::pool::Pool;

/// A call on the wire.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) inbox: Rc<Inbox>,
    pub(super) slot: usize,
    pub(super) sent_at: Instant,
    /// When the connection is given up if the answer is not all there.
    pub(super) drain_until: Instant,
}

/// An open socket and what is under way on it.
pub(super) struct Connection {
    socket: TcpStream,
    token: Token,
    pool: Rc<Pool>,
    pub(super) id: u64,
    pub(super) address: SocketAddr,
    /// In flight from the first byte written until the answer has been read or given up.
    call: RefCell<Option<Call>>,
    answer: RefCell<AnswerReader>,
    /// What the socket would not take at once.
    unsent: RefCell<Vec<u8>>,
    /// Whether it has been idle or carried an answer: only then may a reset mean that the DSP
    /// closed it without having seen the request.
    reused: Cell<bool>,
    /// Closed for good: nothing sent on it would ever be answered.
    closed: Cell<bool>,
    idle_since: Cell<Instant>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("address", &self.address).finish()
    }
}

impl Connection {
    /// Takes an open socket, and reads from it until either side closes.
    ///
    /// # Errors
    ///
    /// When the kernel will not watch the socket.
    pub(super) fn start(
        socket: TcpStream,
        address: SocketAddr,
        pool: &Rc<Pool>,
        id: u64,
    ) -> io::Result<Rc<Self>> {
        let answer = AnswerReader::new(pool.endpoint.response_bytes_max);
        pool.reactor.add(socket, |socket, token| {
            Rc::new(Self {
                socket,
                token,
                pool: Rc::clone(pool),
                id,
                address,
                call: RefCell::new(None),
                answer: RefCell::new(answer),
                unsent: RefCell::new(Vec::new()),
                reused: Cell::new(false),
                closed: Cell::new(false),
                idle_since: Cell::new(Instant::now()),
            })
        })
    }

    /// Sends a request, `length` bytes in `parts`.
    ///
    /// # Errors
    ///
    /// The connection is dead and has been closed; nothing of the request has been answered.
    pub(super) fn send(
        self: &Rc<Self>,
        call: Call,
        parts: &[IoSlice<'_>],
        length: usize,
    ) -> Result<(), Call> {
        debug_assert!(self.call.borrow().is_none(), "a connection carries one call at a time");
        if self.closed.get() {
            return Err(call);
        }
        let written = match (&self.socket).write_vectored(parts) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                debug!(address = %self.address, %error, "idle connection is dead");
                self.close();
                return Err(call);
            }
        };
        *self.call.borrow_mut() = Some(call);
        if written < length {
            self.keep_rest(parts, written);
        }
        Ok(())
    }

    /// Keeps what was not written until the socket takes more.
    fn keep_rest(&self, parts: &[IoSlice<'_>], written: usize) {
        let mut skip = written;
        let mut unsent = self.unsent.borrow_mut();
        for part in parts {
            let skipped = skip.min(part.len());
            unsent.extend_from_slice(&part[skipped..]);
            skip -= skipped;
        }
    }

    /// The socket takes more.
    pub(super) fn on_writable(&self) {
        let mut unsent = self.unsent.borrow_mut();
        if unsent.is_empty() {
            return;
        }
        while !unsent.is_empty() {
            match (&self.socket).write(&unsent) {
                Ok(written) => drop(unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                // Full again, or broken: then reading tells.
                Err(_) => return,
            }
        }
        // The next request will most likely fit the socket.
        *unsent = Vec::new();
    }

    /// There is something to read; `ends` when the peer has closed its side, or worse.
    pub(super) fn on_readable(self: &Rc<Self>, scratch: &mut [u8], now: Instant, ends: bool) {
        while !self.closed.get() {
            let goes_on = match (&self.socket).read(scratch) {
                Ok(0) => self.on_end(now),
                Ok(read) => {
                    let goes_on = self.on_bytes(&scratch[..read], now);
                    // A short read has emptied the socket; what comes later is another event.
                    if goes_on && read < scratch.len() && !ends {
                        return;
                    }
                    goes_on
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.on_end(now),
            };
            if !goes_on {
                self.close();
            }
        }
    }

    /// Whether it has been idle or carried an answer.
    pub(super) fn is_reused(&self) -> bool {
        self.reused.get()
    }

    /// Whether a call is on the wire.
    pub(super) fn in_flight(&self) -> bool {
        self.call.borrow().is_some()
    }

    /// Whether it should go: its answer is overdue beyond draining, it has been idle since before
    /// `idle_before`, or its address is no longer the DSP's.
    pub(super) fn is_spent(
        &self,
        now: Instant,
        idle_before: Instant,
        known: &[SocketAddr],
    ) -> bool {
        match &*self.call.borrow() {
            Some(call) => call.drain_until <= now,
            None => self.idle_since.get() < idle_before || !known.contains(&self.address),
        }
    }

    /// Back to the pool, for the next call.
    pub(super) fn release(self: Rc<Self>, now: Instant) {
        let pool = Rc::clone(&self.pool);
        pool.release(self, now);
    }

    /// Nobody waits for it: its pool keeps it.
    pub(super) fn rest(&self, now: Instant) {
        self.idle_since.set(now);
        self.reused.set(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Closes both halves. A call on it that is still waited for has failed.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.pool.forget(self);
        let call = self.call.borrow_mut().take();
        if let Some(call) = call {
            call.inbox.deliver(call.slot, Outcome::Reset, &[]);
        }
        self.pool.reactor.remove(self.token);
        // Others may still hold it for a while; the peer need not wait for them.
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

impl Connection {
    /// Whether the connection may be read from any further.
    fn on_bytes(self: &Rc<Self>, bytes: &[u8], now: Instant) -> bool {
        if !self.in_flight() {
            return false; // Nobody asked.
        }
        let mut answer = self.answer.borrow_mut();
        match answer.read(bytes) {
            Ok(Progress::Partial) => true,
            Ok(Progress::Done { head, body, surplus }) => {
                self.finish(now, outcome_of(head, body), body);
                // An answer to a request that is not all sent leaves the connection out of step.
                let reusable = head.keep_alive && !surplus && self.unsent.borrow().is_empty();
                if reusable {
                    answer.reset();
                    Rc::clone(self).release(now);
                }
                reusable
            }
            Err(error) => {
                let outcome = match error {
                    AnswerError::HeadTooLarge | AnswerError::BodyTooLarge => Outcome::TooLarge,
                    AnswerError::Malformed(_) | AnswerError::Truncated => Outcome::Malformed,
                };
                debug!(address = %self.address, %error, "answer refused");
                self.finish(now, outcome, &[]);
                false
            }
        }
    }

    /// The peer has closed, or the connection is broken: it may not be read from any further.
    fn on_end(&self, now: Instant) -> bool {
        if !self.in_flight() {
            return false;
        }
        let mut answer = self.answer.borrow_mut();
        if !answer.has_begun() {
            self.retry_or_fail();
            return false;
        }
        match answer.end() {
            Ok(Progress::Done { head, body, .. }) => self.finish(now, outcome_of(head, body), body),
            Ok(Progress::Partial) | Err(_) => self.finish(now, Outcome::Malformed, &[]),
        }
        false
    }

    /// Delivers the answer.
    fn finish(&self, now: Instant, outcome: Outcome, body: &[u8]) {
        let call = self.call.borrow_mut().take().expect("an answer is to a call");
        let metrics = self.pool.metrics();
        metrics.latency.record(now.saturating_duration_since(call.sent_at));
        // Nobody reads the body of an error.
        let body = if outcome == Outcome::Answered { body } else { &[] };
        if !call.inbox.deliver(call.slot, outcome, body) {
            metrics.drained.increment();
        }
        self.reused.set(true);
    }

    /// The connection ended before the answer began: on one that had gone idle, the DSP may have
    /// closed it just as the request left, and has not seen it.
    fn retry_or_fail(&self) {
        let call = self.call.borrow_mut().take().expect("an answer is awaited");
        if self.reused.get() && call.inbox.retry(call.slot) {
            self.pool.metrics().retries.increment();
            return;
        }
        call.inbox.deliver(call.slot, Outcome::Reset, &[]);
    }
}

fn outcome_of(head: Head, body: &[u8]) -> Outcome {
    match head.status {
        204 => Outcome::NoBid,
        200 if body.is_empty() => Outcome::NoBid,
        200 if head.encoded => Outcome::Encoded,
        200 => Outcome::Answered,
        _ => Outcome::Status,
    }
}

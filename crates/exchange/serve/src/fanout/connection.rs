//! One kept-alive connection to a DSP: a half that auctions write to, and a task that reads.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{AbortHandle, spawn_local};
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

/// The write half, and what both halves need to know.
pub(super) struct Connection {
    write: OwnedWriteHalf,
    pool: Rc<Pool>,
    pub(super) id: u64,
    pub(super) address: SocketAddr,
    /// In flight from the first byte written until the answer has been read or given up.
    call: RefCell<Option<Call>>,
    /// What the socket would not take at once.
    unsent: RefCell<Vec<u8>>,
    /// Whether it has been idle or carried an answer: only then may a reset mean that the DSP
    /// closed it without having seen the request.
    reused: Cell<bool>,
    /// Closed for good: its reader is gone, so nothing sent on it would ever be answered.
    closed: Cell<bool>,
    idle_since: Cell<Instant>,
    /// The reader, and a task that sends what the socket would not take at once.
    tasks: RefCell<Vec<AbortHandle>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("address", &self.address).finish()
    }
}

impl Connection {
    /// Takes an open socket, and reads from it until either side closes.
    pub(super) fn start(
        stream: TcpStream,
        address: SocketAddr,
        pool: Rc<Pool>,
        id: u64,
    ) -> Rc<Self> {
        let (read, write) = stream.into_split();
        let answer = AnswerReader::new(pool.endpoint.response_bytes_max);
        let connection = Rc::new(Self {
            write,
            pool,
            id,
            address,
            call: RefCell::new(None),
            unsent: RefCell::new(Vec::new()),
            reused: Cell::new(false),
            closed: Cell::new(false),
            idle_since: Cell::new(Instant::now()),
            tasks: RefCell::default(),
        });
        let reader = Reader { read, answer, connection: Rc::clone(&connection) };
        connection.tasks.borrow_mut().push(spawn_local(reader).abort_handle());
        connection
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
        let written = match self.write.try_write_vectored(parts) {
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
            self.send_rest(parts, written);
        }
        Ok(())
    }

    /// Keeps what was not written and sends it when the socket takes more.
    fn send_rest(self: &Rc<Self>, parts: &[IoSlice<'_>], written: usize) {
        let mut skip = written;
        let mut unsent = self.unsent.borrow_mut();
        for part in parts {
            let skipped = skip.min(part.len());
            unsent.extend_from_slice(&part[skipped..]);
            skip -= skipped;
        }
        drop(unsent);
        let connection = Rc::clone(self);
        let sender = spawn_local(async move {
            while !connection.unsent.borrow().is_empty() {
                if connection.write.writable().await.is_err() {
                    return; // The reader sees the same and reports it.
                }
                let mut unsent = connection.unsent.borrow_mut();
                match connection.write.try_write(&unsent) {
                    Ok(written) => drop(unsent.drain(..written)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                    Err(_) => return,
                }
            }
            // The next request will most likely fit the socket.
            connection.unsent.take();
        });
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|task| !task.is_finished());
        tasks.push(sender.abort_handle());
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
    pub(super) fn release(self: Rc<Self>) {
        let pool = Rc::clone(&self.pool);
        pool.release(self);
    }

    /// Nobody waits for it: its pool keeps it.
    pub(super) fn rest(&self) {
        self.idle_since.set(Instant::now());
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
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}

/// The read half's task.
struct Reader {
    read: OwnedReadHalf,
    answer: AnswerReader,
    connection: Rc<Connection>,
}

impl Future for Reader {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let scratch = Rc::clone(&this.connection.pool.scratch);
        let mut scratch = scratch.borrow_mut();
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut this.read).poll_read(cx, &mut buffer));
            let goes_on = match read {
                Ok(()) if buffer.filled().is_empty() => this.on_end(),
                Ok(()) => this.on_bytes(buffer.filled()),
                Err(_) => this.on_end(),
            };
            if !goes_on {
                this.connection.close();
                return Poll::Ready(());
            }
        }
    }
}

impl Reader {
    /// Whether the connection may be read from any further.
    fn on_bytes(&mut self, bytes: &[u8]) -> bool {
        if !self.connection.in_flight() {
            return false; // Nobody asked.
        }
        match self.answer.read(bytes) {
            Ok(Progress::Partial) => true,
            Ok(Progress::Done { head, body, surplus }) => {
                let reusable = head.keep_alive && !surplus;
                self.connection
                    .finish(outcome_of(head, body), body, reusable)
                    .inspect(|connection| {
                        self.answer.reset();
                        Rc::clone(connection).release();
                    })
                    .is_some()
            }
            Err(error) => {
                let outcome = match error {
                    AnswerError::HeadTooLarge | AnswerError::BodyTooLarge => Outcome::TooLarge,
                    AnswerError::Malformed(_) | AnswerError::Truncated => Outcome::Malformed,
                };
                debug!(address = %self.connection.address, %error, "answer refused");
                self.connection.finish(outcome, &[], false);
                false
            }
        }
    }

    /// The peer has closed, or the connection is broken.
    fn on_end(&mut self) -> bool {
        if !self.connection.in_flight() {
            return false;
        }
        if !self.answer.has_begun() {
            self.connection.retry_or_fail();
            return false;
        }
        match self.answer.end() {
            Ok(Progress::Done { head, body, .. }) => {
                self.connection.finish(outcome_of(head, body), body, false);
            }
            Ok(Progress::Partial) | Err(_) => {
                self.connection.finish(Outcome::Malformed, &[], false);
            }
        }
        false
    }
}

impl Connection {
    /// Delivers the answer; returns itself when it may carry another request.
    fn finish<'c>(
        self: &'c Rc<Self>,
        outcome: Outcome,
        body: &[u8],
        reusable: bool,
    ) -> Option<&'c Rc<Self>> {
        let call = self.call.borrow_mut().take().expect("an answer is to a call");
        let metrics = self.pool.metrics();
        metrics.latency.record(call.sent_at.elapsed());
        if !call.inbox.deliver(call.slot, outcome, body) {
            metrics.drained.increment();
        }
        self.reused.set(true);
        // An answer to a request that is not all sent leaves the connection out of step.
        (reusable && self.unsent.borrow().is_empty()).then_some(self)
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

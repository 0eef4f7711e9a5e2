//! Waits for all DSP connections of one shard at once, and reads from those that are ready.
//!
//! One task with its own epoll instance, nested in Tokio's, in place of a task and registration per
//! connection: an answer costs one read and no scheduling.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Interest, Poll, Registry, Token};
use runtime::metrics::Padded;
use runtime::shutdown::Shutdown;
use tokio::io::Interest as Readiness;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;
use tracing::error;

use super::handshakes::Handshakes;
use super::permit::{SocketAllowance, SocketPermit};
use super::transport::Transport;
use crate::fanout::inflate::Inflater;
use crate::metrics::ExchangeMetrics;

/// Largest read; an answer that fits is not copied.
const SCRATCH_BYTES: usize = 64 * 1024;
/// Most events per poll: more would delay timers.
const EVENTS_MAX: usize = 256;

/// What the reactor watches. A clone handles the same connection.
pub trait ReadinessHandler: Clone + Debug {
    /// The socket takes bytes again.
    fn on_writable(&self);
    /// Bytes have arrived; `ends` if the peer has closed or the socket failed.
    fn on_readable(&self, buffers: &mut ReadBuffers, now: Instant, ends: bool);
    /// The turn ends in which [`Reactor::finish_turn`] was called for it.
    fn on_turn_end(&self, now: Instant);
    /// The handler panicked.
    fn close(&self);
}

/// Buffers that all connections of a shard share, because each read is handled at once.
#[derive(Debug)]
pub struct ReadBuffers {
    pub(crate) scratch: Box<[u8]>,
    pub(crate) inflater: Inflater,
}

impl Default for ReadBuffers {
    fn default() -> Self {
        Self { scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(), inflater: Inflater::default() }
    }
}

#[derive(Debug)]
pub struct Reactor<H> {
    registry: Registry,
    handlers: RefCell<Handlers<H>>,
    /// Handlers with work for the end of this turn.
    unfinished: RefCell<Vec<Token>>,
    /// Wakes the reactor's task for them.
    waker: RefCell<Option<Waker>>,
    metrics: Arc<Padded<ExchangeMetrics>>,
    /// Shared by all pools, in turn.
    pub(in crate::fanout) handshakes: Handshakes,
    allowance: SocketAllowance,
}

/// By token. Tokens are reused: a stale event costs the new connection an empty read.
#[derive(Debug)]
struct Handlers<H> {
    by_token: Vec<Option<H>>,
    free: Vec<usize>,
}

impl<H: ReadinessHandler + 'static> Reactor<H> {
    /// Starts the task on the shard's thread, with at most `sockets_max` open sockets.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn start(
        metrics: Arc<Padded<ExchangeMetrics>>,
        sockets_max: usize,
        shutdown: &Shutdown,
    ) -> io::Result<Rc<Self>> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        #[expect(deprecated, reason = "its successor is unsafe; a Poll keeps its descriptor open")]
        let poll = AsyncFd::with_interest(poll, Readiness::READABLE)?;
        let reactor = Rc::new(Self {
            registry,
            handlers: RefCell::new(Handlers { by_token: Vec::new(), free: Vec::new() }),
            unfinished: RefCell::default(),
            waker: RefCell::default(),
            metrics,
            handshakes: Handshakes::new(Instant::now()),
            allowance: SocketAllowance::new(sockets_max),
        });
        let running = Rc::clone(&reactor);
        let shutdown = shutdown.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = running.run(poll).await {
                error!(%error, "DSP connections can no longer be waited for; shutting down");
                // Otherwise a shard without DSPs would go on taking requests.
                shutdown.begin();
            }
        });
        Ok(reactor)
    }

    /// Sockets that may still be opened.
    pub(crate) fn sockets_left(&self) -> usize {
        self.allowance.left()
    }

    /// Permits one more socket.
    ///
    /// # Errors
    /// `EMFILE` if the shard's share of descriptors is used up.
    pub(crate) fn socket(&self) -> io::Result<SocketPermit> {
        self.allowance.permit()
    }

    /// Registers `transport` for the handler that `make` returns.
    pub(crate) fn add(
        &self,
        mut transport: Transport,
        make: impl FnOnce(Transport, Token) -> H,
    ) -> io::Result<H> {
        let handlers = &mut *self.handlers.borrow_mut();
        let token = handlers.free.last().copied().unwrap_or(handlers.by_token.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(transport.socket(), Token(token), interest)?;
        let handler = make(transport, Token(token));
        match handlers.free.pop() {
            Some(token) => handlers.by_token[token] = Some(handler.clone()),
            None => handlers.by_token.push(Some(handler.clone())),
        }
        Ok(handler)
    }

    /// Frees the token; dropping the socket removes it from epoll.
    pub(crate) fn remove(&self, token: Token) {
        let handlers = &mut *self.handlers.borrow_mut();
        if handlers.by_token[token.0].take().is_some() {
            handlers.free.push(token.0);
        }
    }

    /// Calls [`ReadinessHandler::on_turn_end`] once the tasks that are ready now have run: several of
    /// them may add to the same connection. To be called once per handler and turn.
    pub(crate) fn finish_turn(&self, token: Token) {
        self.unfinished.borrow_mut().push(token);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn get(&self, token: Token) -> Option<H> {
        self.handlers.borrow().by_token.get(token.0)?.clone()
    }

    fn finish_turns(&self) {
        if self.unfinished.borrow().is_empty() {
            return;
        }
        let now = Instant::now();
        let mut unfinished = std::mem::take(&mut *self.unfinished.borrow_mut());
        for token in unfinished.drain(..) {
            if let Some(handler) = self.get(token) {
                self.guarded(&handler, || handler.on_turn_end(now));
            }
        }
        // Keeps the buffer, unless a turn has begun meanwhile.
        let mut next = self.unfinished.borrow_mut();
        if next.is_empty() {
            *next = unfinished;
        }
    }

    async fn run(&self, mut poll: AsyncFd<Poll>) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut buffers = ReadBuffers::default();
        loop {
            // A turn ends before the next is waited for.
            let mut readable = pin!(poll.readable_mut());
            let ready = poll_fn(|cx| {
                self.finish_turns();
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                readable.as_mut().poll(cx)
            });
            let mut ready = ready.await?;
            match ready.get_inner_mut().poll(&mut events, Some(Duration::ZERO)) {
                Ok(()) => (),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let now = Instant::now();
            let drained = events.iter().count() < EVENTS_MAX;
            for event in &events {
                // It closed within this batch.
                let Some(handler) = self.get(event.token()) else { continue };
                self.guarded(&handler, || handle(&handler, event, &mut buffers, now));
            }
            if drained {
                ready.clear_ready();
            }
        }
    }
}

impl<H: ReadinessHandler> Reactor<H> {
    /// A bug that one answer triggers must not end all connections.
    fn guarded(&self, handler: &H, handle: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(handle)).is_err() {
            error!(connection = ?handler, "a connection's code panicked; it is closed");
            self.metrics.reactor_panics.increment();
            handler.close();
        }
    }
}

fn handle<H: ReadinessHandler>(
    handler: &H,
    event: &Event,
    buffers: &mut ReadBuffers,
    now: Instant,
) {
    if event.is_writable() {
        handler.on_writable();
    }
    let ends = event.is_read_closed() || event.is_error();
    if ends || event.is_readable() {
        handler.on_readable(buffers, now, ends);
    }
}

//! One host: its connections, and the calls that wait for one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use http_kit::client::{Connector, RequestError, TransportStream};
use http2::RequestHead;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::call::{CallError, NoticeCall, NoticeHost};
use super::connection::{NoticeConnection, SMALL_READS_MAX, WaitingCall};
use crate::fanout::connection::outbound::{
    OutboundConnection, OutboundOptions, ReadProgress, SendError,
};
use crate::fanout::sockets::connect::mio_socket;
use crate::fanout::sockets::permit::SocketPermit;
use crate::fanout::sockets::reactor::{Reactor, ReadBuffers, ReadinessHandler};
use crate::fanout::sockets::transport::Transport;

/// Most calls that wait for one host, besides those that connections are being opened for: every
/// auction may fetch ads from a slow host.
pub(super) const CALLS_MAX: usize = 1024;
/// Concurrent calls on one HTTP/2 connection.
const STREAMS_MAX: usize = 100;
/// An answer's unwanted body up to this size does not cost its connection.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;

/// Waits for the connections to all hosts.
pub type NoticeReactor = Reactor<HostConnection>;

/// Whether a host speaks HTTP/2 without TLS (RFC 9113, section 3.3).
pub type PriorKnowledge = dyn Fn(&NoticeHost) -> bool;

/// What the hosts of a client share.
pub(super) struct HostParts {
    pub(super) connector: Connector,
    pub(super) prior_knowledge: Box<PriorKnowledge>,
    pub(super) reactor: Rc<NoticeReactor>,
    pub(super) connections_max: usize,
    /// Longest wait for a connection, and then for the answer.
    pub(super) timeout: Duration,
    pub(super) idle_timeout: Duration,
}

pub(super) struct HostCalls {
    host: NoticeHost,
    authority: String,
    /// What all requests have over HTTP/2.
    head: RequestHead,
    parts: Rc<HostParts>,
    open: RefCell<Vec<Rc<NoticeConnection>>>,
    opening: Cell<usize>,
    /// Whether its connections carry several calls at a time, as far as is known.
    is_multiplexed: Cell<bool>,
    waiting: RefCell<VecDeque<WaitingCall>>,
}

/// A connection, and its host.
#[derive(Clone)]
pub struct HostConnection {
    connection: Rc<NoticeConnection>,
    host: Rc<HostCalls>,
}

impl fmt::Debug for HostConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConnection").field("host", &self.host.host).finish_non_exhaustive()
    }
}

impl ReadinessHandler for HostConnection {
    fn on_writable(&self) {
        self.connection.http.flush();
    }

    fn on_readable(&self, buffers: &mut ReadBuffers, now: Instant, ends: bool) {
        self.host.read(&self.connection, buffers, now, ends);
    }

    fn on_turn_end(&self, now: Instant) {
        if !self.connection.http.is_closed() && !self.connection.finish_turn(now) {
            self.host.close(&self.connection);
            self.host.serve(now);
        }
    }

    fn close(&self) {
        self.host.close(&self.connection);
    }
}

impl HostCalls {
    pub(super) fn new(host: NoticeHost, parts: Rc<HostParts>) -> Self {
        let authority = host.authority();
        let pseudo =
            [(":method", "GET"), (":scheme", host.scheme()), (":authority", authority.as_str())];
        Self {
            head: RequestHead::new(pseudo),
            is_multiplexed: Cell::new(host.is_tls || (parts.prior_knowledge)(&host)),
            authority,
            host,
            parts,
            open: RefCell::default(),
            opening: Cell::new(0),
            waiting: RefCell::default(),
        }
    }

    /// Makes a call, or has it wait for a connection.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) fn call(self: &Rc<Self>, call: NoticeCall) -> Result<(), NoticeCall> {
        let now = Instant::now();
        let is_full = || self.waiting.borrow().len() >= CALLS_MAX + self.opening.get();
        if is_full() {
            self.waiting.borrow_mut().retain(|waiting| !waiting.call.waiter.is_gone());
        }
        if is_full() {
            return Err(call);
        }
        self.waiting.borrow_mut().push_back(WaitingCall { call, is_repeated: false });
        self.serve(now);
        Ok(())
    }

    /// Whether it has neither calls nor connections.
    pub(super) fn is_empty(&self) -> bool {
        self.opening.get() == 0 && self.open.borrow().is_empty() && self.waiting.borrow().is_empty()
    }

    /// Whether it has calls in flight or waiting.
    pub(super) fn is_called(&self) -> bool {
        let has_calls = |connection: &Rc<NoticeConnection>| connection.http.calls_len() > 0;
        self.opening.get() > 0
            || !self.waiting.borrow().is_empty()
            || self.open.borrow().iter().any(has_calls)
    }

    /// Sends waiting calls, the oldest first, and opens connections for those that find none.
    fn serve(self: &Rc<Self>, now: Instant) {
        while let Some(waiting) = self.next_waiting() {
            let connection =
                self.open.borrow().iter().find(|open| open.has_room(&waiting.call)).cloned();
            let Some(connection) = connection else {
                self.waiting.borrow_mut().push_front(waiting);
                break;
            };
            match connection.send(waiting, &self.authority, now) {
                Ok(()) => self.begin_turn(&connection),
                Err(SendError::Dead(waiting)) => {
                    self.waiting.borrow_mut().push_front(waiting);
                    self.close(&connection);
                }
                Err(SendError::Full(waiting)) => {
                    self.waiting.borrow_mut().push_front(waiting);
                    break;
                }
            }
        }
        self.open_for_waiting();
    }

    /// The oldest waiting call that somebody waits for.
    fn next_waiting(&self) -> Option<WaitingCall> {
        let waiting = &mut *self.waiting.borrow_mut();
        std::iter::from_fn(|| waiting.pop_front()).find(|waiting| !waiting.call.waiter.is_gone())
    }

    fn open_for_waiting(self: &Rc<Self>) {
        // A multiplexed connection carries all calls that wait.
        let most = if self.is_multiplexed.get() { 1 } else { usize::MAX };
        while self.opening.get() < self.waiting.borrow().len().min(most)
            && self.open.borrow().len() + self.opening.get() < self.parts.connections_max
        {
            let Some(body_max) = self.waiting.borrow().iter().map(|it| it.call.body_max).max()
            else {
                return;
            };
            self.opening.set(self.opening.get() + 1);
            let host = Rc::clone(self);
            spawn_local(async move {
                let opened = host.connect(body_max.max(UNWANTED_BYTES_MAX)).await;
                host.opening.set(host.opening.get() - 1);
                match opened {
                    Ok(connection) => {
                        host.is_multiplexed.set(connection.http.is_multiplexed());
                        host.open.borrow_mut().push(connection);
                    }
                    Err(error) => host.fail(&error),
                }
                host.serve(Instant::now());
            });
        }
    }

    async fn connect(
        self: &Rc<Self>,
        body_max: usize,
    ) -> Result<Rc<NoticeConnection>, RequestError> {
        let permit = self.parts.reactor.socket().map_err(|_| RequestError::TooManyConnections)?;
        let stream = self.parts.connector.connect(&self.host.server()).await?;
        let unreachable = |error: io::Error| RequestError::Unreachable(error.to_string());
        let transport = self.transport(stream, permit).map_err(unreachable)?;
        let options = OutboundOptions {
            body_bytes_max: body_max,
            streams_max: STREAMS_MAX,
            small_frames_max: SMALL_READS_MAX,
        };
        let added = self.parts.reactor.add(transport, |transport, token| {
            let http = OutboundConnection::new(transport, &self.head, options, Instant::now());
            let timeout = self.parts.timeout;
            let connection = Rc::new(NoticeConnection { http, token, body_max, timeout });
            HostConnection { connection, host: Rc::clone(self) }
        });
        added.map(|added| added.connection).map_err(unreachable)
    }

    fn transport(&self, stream: TransportStream, permit: SocketPermit) -> io::Result<Transport> {
        match stream {
            TransportStream::Plain(socket) => {
                let is_http2 = (self.parts.prior_knowledge)(&self.host);
                Ok(Transport::plain(mio_socket(socket)?, is_http2, permit))
            }
            TransportStream::Tls(stream) => {
                let (socket, mut session) = stream.into_inner();
                // Requests are bounded by the length of a URL, so none is cut here.
                session.set_buffer_limit(None);
                Ok(Transport::tls(mio_socket(socket)?, session, permit))
            }
        }
    }

    /// Fails the call that a connection was opened for, or all of them.
    fn fail(&self, error: &RequestError) {
        let most = if self.is_multiplexed.get() { usize::MAX } else { 1 };
        let failed: Vec<_> = std::iter::from_fn(|| self.next_waiting()).take(most).collect();
        for waiting in failed {
            waiting.call.waiter.tell(Err(CallError::Request(error.clone())));
        }
    }

    /// Reads what has arrived on a connection. `ends` if the peer has closed or the socket failed.
    fn read(
        self: &Rc<Self>,
        connection: &Rc<NoticeConnection>,
        buffers: &mut ReadBuffers,
        now: Instant,
        ends: bool,
    ) {
        let mut unseen = Vec::new();
        while !connection.http.is_closed() {
            let socket_empty = match connection.read(buffers, now, &mut unseen) {
                ReadProgress::WouldBlock => break,
                ReadProgress::Partial { socket_empty }
                | ReadProgress::Answered { socket_empty } => socket_empty,
                ReadProgress::PeerEnded | ReadProgress::Ended(_) => {
                    self.close(connection);
                    break;
                }
            };
            if socket_empty && !ends {
                break;
            }
        }
        if connection.http.calls_len() == 0 {
            connection.http.mark_idle(now);
        }
        self.repeat(unseen);
        self.begin_turn(connection);
        self.serve(now);
    }

    fn repeat(&self, unseen: Vec<WaitingCall>) {
        for waiting in unseen.into_iter().rev() {
            self.waiting.borrow_mut().push_front(waiting);
        }
    }

    /// Has what was added to a connection sent at the end of the turn.
    fn begin_turn(&self, connection: &NoticeConnection) {
        if !connection.http.is_closed() && connection.http.begins_turn() {
            self.parts.reactor.finish_turn(connection.token);
        }
    }

    fn close(&self, connection: &Rc<NoticeConnection>) {
        let before = self.open.borrow().len();
        self.open.borrow_mut().retain(|open| !Rc::ptr_eq(open, connection));
        if self.open.borrow().len() == before {
            return; // It is closed.
        }
        let mut unseen = Vec::new();
        connection.close(&mut unseen);
        self.repeat(unseen);
        self.parts.reactor.remove(connection.token);
    }

    /// Fails overdue calls, and closes useless connections.
    pub(super) fn sweep(self: &Rc<Self>, now: Instant) {
        let waiting = self.waiting.take();
        let (overdue, left): (VecDeque<_>, _) =
            waiting.into_iter().partition(|waiting| waiting.call.until <= now);
        self.waiting.replace(left);
        for WaitingCall { call, .. } in overdue {
            call.waiter.tell(Err(RequestError::TimedOut.into()));
        }
        let idle_before = now.checked_sub(self.parts.idle_timeout).unwrap_or(now);
        let open = self.open.borrow().clone();
        for connection in &open {
            if connection.sweep(now, idle_before) {
                self.close(connection);
            }
            self.begin_turn(connection);
        }
        self.serve(now);
    }

    /// Closes connections without calls.
    pub(super) fn close_idle(&self) {
        let open = self.open.borrow().clone();
        for connection in open.iter().filter(|connection| connection.http.calls_len() == 0) {
            self.close(connection);
        }
    }

    /// Closes all connections: the reactor, and with it the host, would keep them.
    pub(super) fn close_all(&self) {
        let open = self.open.borrow().clone();
        for connection in &open {
            self.close(connection);
        }
    }
}

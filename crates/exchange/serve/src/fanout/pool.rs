//! One shard's connections to one DSP.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use runtime::metrics::Padded;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tracing::warn;

use super::connection::{ConnectionCall, ConnectionUse, DspConnection, ReadProgress};
use super::endpoint::Endpoint;
use super::health::ConnectAttempt;
use super::inbox::Inbox;
use super::peer::{DspPeer, PoolLimits};
use super::sockets::connect::{connect, is_local, mio_socket, within};
use super::sockets::reactor::{Reactor, ReadBuffers, ReadinessHandler};
use super::sockets::transport::Transport;
use crate::metrics::DspMetrics;

/// Interval between log lines about this machine's limits, per pool.
const EXHAUSTION_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for the DSP connections of a shard.
pub type DspReactor = Reactor<PooledConnection>;

#[derive(Debug)]
pub struct DspPool {
    peer: Rc<DspPeer>,
    pub(super) reactor: Rc<DspReactor>,
    /// The DSP moved: running calls finish, and no connection is kept.
    retired: Cell<bool>,
    idle: RefCell<Vec<Rc<DspConnection>>>,
    all: RefCell<HashMap<u64, Rc<DspConnection>>>,
    /// Calls that wait for a new or released connection.
    waiting: RefCell<VecDeque<(Rc<Inbox<DspConnection>>, usize)>>,
    pub(super) opening: Cell<usize>,
    ids: Cell<u64>,
    /// Last log line about this machine's limits.
    exhaustion_logged: Cell<Option<Instant>>,
}

/// A connection, and the pool to which it returns.
#[derive(Clone)]
pub struct PooledConnection {
    connection: Rc<DspConnection>,
    pool: Rc<DspPool>,
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}

impl ReadinessHandler for PooledConnection {
    fn on_writable(&self) {
        self.connection.flush();
    }

    fn on_readable(&self, buffers: &mut ReadBuffers, now: Instant, ends: bool) {
        self.pool.read(&self.connection, buffers, now, ends);
    }

    fn close(&self) {
        self.pool.close_connection(&self.connection);
    }
}

impl DspPool {
    pub fn new(
        endpoint: Arc<Endpoint>,
        limits: PoolLimits,
        reactor: Rc<DspReactor>,
        metrics: Arc<Padded<DspMetrics>>,
    ) -> Self {
        let (limits, health) = (Cell::new(limits), RefCell::default());
        Self {
            peer: Rc::new(DspPeer { endpoint, limits, metrics, health }),
            reactor,
            retired: Cell::new(false),
            idle: RefCell::default(),
            all: RefCell::default(),
            waiting: RefCell::default(),
            opening: Cell::new(0),
            ids: Cell::new(0),
            exhaustion_logged: Cell::new(None),
        }
    }

    pub(super) fn metrics(&self) -> &DspMetrics {
        &self.peer.metrics
    }

    pub(super) fn limits(&self) -> PoolLimits {
        self.peer.limits.get()
    }

    pub fn limit(&self, limits: PoolLimits) {
        self.peer.limits.set(limits);
    }

    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.peer.endpoint
    }

    /// Closes idle connections now, and others after their call.
    pub fn retire(&self) {
        self.retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        for connection in idle {
            self.close_connection(&connection);
        }
    }

    /// The idle connection used last, which is the likeliest to be alive.
    pub(super) fn idle(&self) -> Option<Rc<DspConnection>> {
        self.idle.borrow_mut().pop()
    }

    /// Finds a connection for a call: the first one opened or released. Opens one for each waiting
    /// call, within limits: in a burst, waiting for an answer is cheaper than one more connection.
    ///
    /// # Errors
    /// Why there will be none.
    pub(super) fn seek(
        self: &Rc<Self>,
        now: Instant,
        inbox: &Rc<Inbox<DspConnection>>,
        slot: usize,
    ) -> Result<(), CallOutcome> {
        if self.waiting.borrow().len() >= self.limits().connections_max {
            self.drop_past_calls();
        }
        if self.waiting.borrow().len() >= self.limits().connections_max {
            return Err(CallOutcome::Saturated);
        }
        let opening = if self.opening.get() < self.opening_max() {
            self.open(now)
        } else {
            self.peer.next_address(self.ids.get(), now).map(drop)
        };
        match opening {
            // A busy connection will be released.
            Ok(()) | Err(CallOutcome::Saturated) => (),
            Err(_) if self.has_answered() => (),
            Err(outcome) => return Err(outcome),
        }
        self.waiting.borrow_mut().push_back((Rc::clone(inbox), slot));
        Ok(())
    }

    fn opening_max(&self) -> usize {
        self.limits().opening_max + self.all.borrow().len() / 4
    }

    /// Starts to open a connection.
    ///
    /// # Errors
    /// Why none can be opened.
    fn open(self: &Rc<Self>, now: Instant) -> Result<(), CallOutcome> {
        if self.all.borrow().len() + self.opening.get() >= self.limits().connections_max {
            return Err(CallOutcome::Saturated);
        }
        let address = self.peer.next_address(self.ids.get(), now)?;
        self.peer.health.borrow_mut().tried(address);
        let attempt = ConnectAttempt { address, began: now };
        let id = self.ids.replace(self.ids.get() + 1);
        self.opening.set(self.opening.get() + 1);
        let pool = Rc::clone(self);
        spawn_local(async move {
            let transport = pool.connect(address).await;
            pool.opening.set(pool.opening.get() - 1);
            let start = |transport| pool.start(transport, id, attempt);
            match transport.and_then(|transport| transport.map(start).transpose()) {
                Ok(Some(connection)) => pool.opened(connection),
                Ok(None) => pool.peer.health.borrow_mut().unused(attempt),
                Err(error) => pool.failed(attempt, &error),
            }
            pool.open_for_waiting();
        });
        Ok(())
    }

    /// Registers an open socket, and reads from it until either side closes.
    ///
    /// # Errors
    /// The kernel refuses to watch the socket.
    pub(super) fn start(
        self: &Rc<Self>,
        transport: Transport,
        id: u64,
        attempt: ConnectAttempt,
    ) -> io::Result<Rc<DspConnection>> {
        let pooled = self.reactor.add(transport, |transport, token| {
            let peer = Rc::clone(&self.peer);
            let connection = Rc::new(DspConnection::new(peer, transport, token, id, attempt));
            PooledConnection { connection, pool: Rc::clone(self) }
        })?;
        Ok(pooled.connection)
    }

    /// Connects, then takes its turn to shake hands. None if no call waits for it by then.
    async fn connect(&self, address: SocketAddr) -> io::Result<Option<Transport>> {
        let limits = self.limits();
        let Some(tls) = &self.peer.endpoint.tls else {
            let permit = self.reactor.socket()?;
            let socket = within(limits.connect_timeout, connect(address)).await?;
            return Ok(Some(Transport::plain(mio_socket(socket)?, permit)));
        };
        let handshakes = &self.reactor.handshakes;
        let turn = handshakes.turn(limits.handshake_share).await;
        self.drop_past_calls();
        if self.waiting.borrow().is_empty() {
            handshakes.cancel(turn, Duration::ZERO);
            return Ok(None);
        }
        let took = Cell::new(Duration::ZERO);
        let opening = async {
            let permit = self.reactor.socket()?;
            let socket = connect(address).await?;
            let session = tls.shake_hands(&socket, &took).await?;
            Ok(Transport::tls(mio_socket(socket)?, session, permit))
        };
        let opened = within(limits.connect_timeout, opening).await;
        match opened {
            Ok(_) => handshakes.end(turn, took.get()),
            Err(_) => handshakes.cancel(turn, took.get()),
        }
        opened.map(Some)
    }

    /// Opens connections for waiting calls that no attempt covers.
    fn open_for_waiting(self: &Rc<Self>) {
        self.drop_past_calls();
        let now = Instant::now();
        while self.opening.get() < self.opening_max().min(self.waiting.borrow().len()) {
            match self.open(now) {
                Ok(()) => (),
                Err(CallOutcome::Saturated) => return,
                Err(_) if self.opening.get() > 0 || self.has_answered() => return,
                Err(outcome) => return self.fail_waiting(outcome),
            }
        }
    }

    /// Whether an open connection has carried an answer, so that waiting calls will get it.
    fn has_answered(&self) -> bool {
        self.all.borrow().values().any(|open| open.usage() == ConnectionUse::Answered)
    }

    fn drop_past_calls(&self) {
        self.waiting.borrow_mut().retain(|(inbox, slot)| inbox.is_waiting(*slot));
    }

    fn fail_waiting(&self, outcome: CallOutcome) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for (inbox, slot) in waiting {
            inbox.deliver(slot, outcome, &[]);
        }
    }

    fn opened(&self, connection: Rc<DspConnection>) {
        self.metrics().opened.increment();
        self.all.borrow_mut().insert(connection.id, Rc::clone(&connection));
        self.metrics().open.change(1);
        self.release(connection, Instant::now());
    }

    fn failed(&self, attempt: ConnectAttempt, error: &io::Error) {
        let address = attempt.address;
        self.metrics().errors.note(|| format!("cannot connect to {address}: {error}"));
        if is_local(error) {
            self.peer.health.borrow_mut().unused(attempt);
            self.log_exhaustion(address, error);
            let waiting = self.waiting.borrow_mut().pop_front();
            if let Some((inbox, slot)) = waiting {
                inbox.deliver(slot, CallOutcome::Saturated, &[]);
            }
            return;
        }
        // Another address or a released connection may serve waiting calls.
        self.peer.refused(attempt, error);
    }

    /// Every call may meet this error, so it is logged only at intervals.
    fn log_exhaustion(&self, address: SocketAddr, error: &io::Error) {
        let now = Instant::now();
        if self.exhaustion_logged.get().is_none_or(|at| EXHAUSTION_LOG_INTERVAL <= now - at) {
            self.exhaustion_logged.set(Some(now));
            warn!(%address, %error, "this machine has no room for a connection to a DSP");
        }
    }

    /// Gives the connection to the newest waiting call, which has the most time left, or keeps it.
    pub(super) fn release(&self, mut connection: Rc<DspConnection>, now: Instant) {
        if connection.is_closed() {
            return;
        }
        loop {
            let waiting = self.waiting.borrow_mut().pop_back();
            let Some((inbox, slot)) = waiting else { break };
            match inbox.offer(slot, connection) {
                Ok(()) => return,
                Err(back) => connection = back,
            }
        }
        if self.retired.get() {
            return self.close_connection(&connection);
        }
        connection.mark_idle(now);
        self.idle.borrow_mut().push(connection);
    }

    /// Sends a request in `parts` on an idle connection.
    ///
    /// # Errors
    /// The connection is closed; no part of the request was answered.
    pub(super) fn send(
        &self,
        connection: &DspConnection,
        call: ConnectionCall,
        parts: &[IoSlice<'_>],
    ) -> Result<(), ConnectionCall> {
        if connection.is_closed() {
            return Err(call);
        }
        connection.send(call, parts).inspect_err(|_| self.close_connection(connection))
    }

    /// Reads what has arrived on a connection, and releases it after its answer. `ends` if the peer
    /// has closed or the socket failed.
    pub(super) fn read(
        &self,
        connection: &Rc<DspConnection>,
        buffers: &mut ReadBuffers,
        now: Instant,
        ends: bool,
    ) {
        while !connection.is_closed() {
            let socket_empty = match connection.read(buffers, now) {
                ReadProgress::WouldBlock => return,
                ReadProgress::Partial { socket_empty } => socket_empty,
                ReadProgress::Answered { socket_empty } => {
                    self.release(Rc::clone(connection), now);
                    socket_empty
                }
                ReadProgress::Ended => return self.close_connection(connection),
            };
            if socket_empty && !ends {
                return;
            }
        }
    }

    /// Closes both halves, and fails a call that still waits.
    pub(super) fn close_connection(&self, connection: &DspConnection) {
        self.forget(connection);
        connection.close();
        self.reactor.remove(connection.token());
    }

    fn forget(&self, connection: &DspConnection) {
        if self.all.borrow_mut().remove(&connection.id).is_none() {
            return;
        }
        self.idle.borrow_mut().retain(|idle| idle.id != connection.id);
        self.metrics().open.change(-1);
        let attempt = connection.attempt;
        match connection.usage() {
            ConnectionUse::Answered => (),
            ConnectionUse::Unused if connection.is_reused() => {
                self.peer.health.borrow_mut().unused(attempt);
            }
            // Used, or closed before use.
            ConnectionUse::Unused | ConnectionUse::Asked => self.peer.ended_unanswered(attempt),
        }
    }

    /// Closes overdue, long idle and outdated connections, then opens some for waiting calls.
    pub fn sweep(self: &Rc<Self>, now: Instant) {
        let known = self.peer.endpoint.addresses.current();
        let idle_before = now.checked_sub(self.limits().idle_timeout).unwrap_or(now);
        let is_expired =
            |connection: &&Rc<DspConnection>| connection.is_expired(now, idle_before, &known);
        self.peer.health.borrow_mut().keep(&known);
        let expired: Vec<_> = self.all.borrow().values().filter(is_expired).cloned().collect();
        for connection in expired {
            self.close_connection(&connection);
        }
        self.open_for_waiting();
    }

    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty() && self.opening.get() == 0
    }

    /// Closes all connections: the reactor, and with it the pool, would keep them.
    pub fn close(&self) {
        let all: Vec<_> = self.all.borrow().values().cloned().collect();
        for connection in all {
            self.close_connection(&connection);
        }
    }
}

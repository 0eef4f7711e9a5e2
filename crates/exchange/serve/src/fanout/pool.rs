//! One shard's connections to one DSP.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use http2::StreamRefusal;
use runtime::metrics::Padded;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tracing::warn;

use super::connection::call::CallMessage;
use super::connection::outbound::{ReadProgress, SendError};
use super::connection::{ConnectionCall, ConnectionUse, DspConnection};
use super::endpoint::Endpoint;
use super::health::ConnectAttempt;
use super::inbox::Inbox;
use super::peer::{DspPeer, PoolLimits};
use super::sockets::connect::{connect, is_local, mio_socket, within};
use super::sockets::reactor::{Reactor, ReadBuffers, ReadinessHandler};
use super::sockets::transport::Transport;
use crate::metrics::DspMetrics;

/// Streams that servers usually allow; the next connection is opened when half of them are used.
const STREAMS_USUAL: usize = 100;
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
    /// Connections that carry several calls at a time, the first one filled first.
    multiplexed: RefCell<Vec<Rc<DspConnection>>>,
    /// Whether the DSP's connections are of that kind, as far as is known.
    is_multiplexed: Cell<bool>,
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
        self.connection.http.flush();
    }

    fn on_readable(&self, buffers: &mut ReadBuffers, now: Instant, ends: bool) {
        self.pool.read(&self.connection, buffers, now, ends);
    }

    fn on_turn_end(&self, now: Instant) {
        self.pool.finish_turn(&self.connection, now);
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
        let is_multiplexed = Cell::new(endpoint.may_multiplex());
        Self {
            peer: Rc::new(DspPeer { endpoint, limits, metrics, health }),
            reactor,
            retired: Cell::new(false),
            idle: RefCell::default(),
            multiplexed: RefCell::default(),
            is_multiplexed,
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

    /// Whether its connections carry several calls at a time.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.is_multiplexed.get()
    }

    /// Closes idle connections now, and others after their call.
    pub fn retire(&self) {
        self.retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        for connection in idle {
            self.close_connection(&connection);
        }
        let multiplexed = self.multiplexed.borrow().clone();
        for connection in multiplexed.iter().filter(|connection| connection.http.drain()) {
            self.close_connection(connection);
        }
    }

    /// A connection that can carry `message` now: the idle one used last, which is the likeliest to
    /// be alive, or the first that is multiplexed and has room.
    pub(super) fn available(&self, message: &impl CallMessage) -> Option<Rc<DspConnection>> {
        if let Some(idle) = self.idle.borrow_mut().pop() {
            return Some(idle);
        }
        let multiplexed = self.multiplexed.borrow();
        if multiplexed.is_empty() {
            return None;
        }
        let length = message.body_len();
        multiplexed.iter().find(|open| open.http.room(length).is_ok()).cloned()
    }

    /// Finds a connection for a call: the first one opened or released. Opens one for each waiting
    /// call, within limits: in a burst, waiting for an answer is cheaper than one more connection.
    /// If connections are multiplexed, a call waits for one that is being opened, never for another
    /// call.
    ///
    /// # Errors
    /// Why there will be none.
    pub(super) fn seek(
        self: &Rc<Self>,
        now: Instant,
        inbox: &Rc<Inbox<DspConnection>>,
        slot: usize,
        message: &impl CallMessage,
    ) -> Result<(), CallOutcome> {
        if self.exceeds_windows(message) {
            self.metrics().errors.note(|| self.no_room());
            return Err(CallOutcome::Saturated);
        }
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
            Ok(()) => (),
            Err(_) if self.is_multiplexed.get() && self.has_answered() => {
                self.metrics().errors.note(|| self.no_room());
                return Err(CallOutcome::Saturated);
            }
            // A busy connection will be released.
            Err(CallOutcome::Saturated) => (),
            Err(_) if self.has_answered() => (),
            Err(outcome) => return Err(outcome),
        }
        self.waiting.borrow_mut().push_back((Rc::clone(inbox), slot));
        Ok(())
    }

    /// Whether no connection to this DSP could carry `message`. Closes multiplexed connections whose
    /// windows could, but are used up although they have no calls: servers give back windows by
    /// halves, and another connection begins with all of its own.
    fn exceeds_windows(&self, message: &impl CallMessage) -> bool {
        let length = message.body_len();
        let is_blocked = |open: &&Rc<DspConnection>| {
            let blocked = open.http.room(length) == Err(StreamRefusal::Window);
            blocked && open.http.calls_len() == 0 && open.http.room(0).is_ok()
        };
        let blocked: Vec<_> =
            self.multiplexed.borrow().iter().filter(is_blocked).cloned().collect();
        if blocked.iter().any(|open| open.http.capacity() < length) {
            return true;
        }
        blocked.iter().for_each(|open| self.close_connection(open));
        false
    }

    /// Why no connection can carry a call.
    fn no_room(&self) -> String {
        let multiplexed = self.multiplexed.borrow();
        let why = multiplexed.first().and_then(|open| open.http.room(1).err());
        let why = match why {
            Some(StreamRefusal::GoingAway) => "the DSP closes it",
            Some(StreamRefusal::StreamLimit) => "as many calls as may be are in flight",
            Some(StreamRefusal::Window) | None => "the DSP's window is too small for the request",
        };
        format!("no connection of {} has room for a call: {why}", multiplexed.len())
    }

    fn opening_max(&self) -> usize {
        if self.is_multiplexed.get() {
            return 1; // It carries all calls that wait.
        }
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

    /// Connects, then takes its turn to shake hands. None if no call needs it by then.
    async fn connect(&self, address: SocketAddr) -> io::Result<Option<Transport>> {
        let limits = self.limits();
        let Some(tls) = &self.peer.endpoint.tls else {
            let permit = self.reactor.socket()?;
            let socket = within(limits.connect_timeout, connect(address)).await?;
            let is_http2 = self.peer.endpoint.may_multiplex();
            return Ok(Some(Transport::plain(mio_socket(socket)?, is_http2, permit)));
        };
        let handshakes = &self.reactor.handshakes;
        let turn = handshakes.turn(limits.handshake_share).await;
        self.drop_past_calls();
        // A further multiplexed connection is opened before calls need it.
        if self.waiting.borrow().is_empty() && self.multiplexed.borrow().is_empty() {
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
                Err(_) if self.opening.get() > 0 => return,
                Err(outcome) if self.is_multiplexed.get() => return self.fail_waiting(outcome),
                Err(CallOutcome::Saturated) => return,
                Err(_) if self.has_answered() => return,
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
        self.is_multiplexed.set(connection.http.is_multiplexed());
        if connection.http.is_multiplexed() {
            self.multiplexed.borrow_mut().push(Rc::clone(&connection));
        }
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
        if connection.http.is_closed() {
            return;
        }
        if connection.http.is_multiplexed() {
            return self.share(&connection);
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

    /// Offers a multiplexed connection to waiting calls, the newest first, as far as it has room.
    fn share(&self, connection: &Rc<DspConnection>) {
        if self.retired.get() && self.waiting.borrow().is_empty() && connection.http.drain() {
            return self.close_connection(connection);
        }
        let mut left = self.limits().streams_max.saturating_sub(connection.http.calls_len());
        while left > 0 && connection.http.room(0).is_ok() {
            let Some((inbox, slot)) = self.waiting.borrow_mut().pop_back() else { return };
            left -= usize::from(inbox.offer(slot, Rc::clone(connection)).is_ok());
        }
    }

    /// Sends a call.
    ///
    /// # Errors
    /// It was not sent: the connection is closed now, or has no room.
    pub(super) fn send(
        self: &Rc<Self>,
        connection: &DspConnection,
        call: ConnectionCall,
        message: &impl CallMessage,
    ) -> Result<(), SendError<ConnectionCall>> {
        if connection.http.is_closed() {
            return Err(SendError::Dead(call));
        }
        let sent = connection.send(call, message);
        match &sent {
            Ok(()) => self.begin_turn(connection),
            Err(SendError::Dead(_)) => self.close_connection(connection),
            Err(SendError::Full(_)) => (),
        }
        if self.is_multiplexed.get() && self.opening.get() == 0 && self.is_filling(connection) {
            // Before a call finds no room. If it cannot be opened, calls say so then.
            let _ = self.open(Instant::now());
        }
        sent
    }

    /// Whether half of the last connection's room is used.
    fn is_filling(&self, connection: &DspConnection) -> bool {
        let calls = connection.http.calls_len();
        let is_last = || self.multiplexed.borrow().last().is_some_and(|it| it.id == connection.id);
        2 * calls >= self.limits().streams_max.min(STREAMS_USUAL) && is_last()
    }

    /// Sends what a turn has added to a connection.
    fn finish_turn(&self, connection: &Rc<DspConnection>, now: Instant) {
        if !connection.http.is_closed() && !connection.finish_turn(now) {
            self.close_connection(connection);
        }
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
        while !connection.http.is_closed() {
            let socket_empty = match connection.read(buffers, now) {
                ReadProgress::WouldBlock => return,
                ReadProgress::Partial { socket_empty } => {
                    self.begin_turn(connection);
                    socket_empty
                }
                ReadProgress::Answered { socket_empty } => {
                    self.release(Rc::clone(connection), now);
                    self.begin_turn(connection);
                    socket_empty
                }
                ReadProgress::PeerEnded | ReadProgress::Ended(_) => {
                    return self.close_connection(connection);
                }
            };
            if socket_empty && !ends {
                return;
            }
        }
    }

    /// Has what was added to a connection sent at the end of the turn.
    fn begin_turn(&self, connection: &DspConnection) {
        if !connection.http.is_closed() && connection.http.begins_turn() {
            self.reactor.finish_turn(connection.token());
        }
    }

    /// Closes both halves, and fails calls that still wait.
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
        self.multiplexed.borrow_mut().retain(|open| open.id != connection.id);
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
        for connection in &*self.multiplexed.borrow() {
            if !known.contains(&connection.attempt.address) {
                connection.http.drain();
            }
        }
        let expired: Vec<_> = self.all.borrow().values().filter(is_expired).cloned().collect();
        for connection in expired {
            self.close_connection(&connection);
        }
        for connection in &*self.multiplexed.borrow() {
            connection.reset_given_up(now);
            self.begin_turn(connection);
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

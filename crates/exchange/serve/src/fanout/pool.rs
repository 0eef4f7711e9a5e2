//! One shard's connections to one DSP.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use runtime::metrics::Padded;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::inbox::{Inbox, Outcome};
use super::reactor::Reactor;
use super::transport::Transport;
use crate::metrics::DspMetrics;

/// What bounds a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most connections to one DSP from one shard, in use or idle.
    pub connections_max: usize,
    /// Longest attempt to connect.
    pub connect_timeout: Duration,
    /// Idle connections are closed after this long.
    pub idle_timeout: Duration,
    /// How long after its auction a late answer may take to arrive, before its connection goes.
    pub drain_timeout: Duration,
    /// Pause after a first failed attempt to connect; it doubles with each further one.
    pub backoff_min: Duration,
    /// Longest such pause.
    pub backoff_max: Duration,
    /// How often a few bytes of an answer may come before its connection is closed.
    pub crumbs_max: u32,
}

/// One shard's connections to one DSP.
#[derive(Debug)]
pub struct Pool {
    pub(super) endpoint: Arc<Endpoint>,
    limits: Cell<PoolLimits>,
    pub(super) reactor: Rc<Reactor>,
    metrics: Arc<Padded<DspMetrics>>,
    /// Its DSP is no longer reached in this way: what is under way ends, nothing is kept.
    retired: Cell<bool>,
    idle: RefCell<Vec<Rc<Connection>>>,
    all: RefCell<HashMap<u64, Rc<Connection>>>,
    /// Calls for which a connection is being opened.
    waiting: RefCell<VecDeque<(Rc<Inbox>, usize)>>,
    opening: Cell<usize>,
    ids: Cell<u64>,
    /// Addresses to which no connection could be opened.
    failing: RefCell<HashMap<SocketAddr, Failure>>,
}

/// Attempts in a row that came to nothing, and when the next one may be made.
#[derive(Clone, Copy, Debug)]
struct Failure {
    count: u32,
    retry_at: Instant,
}

impl Pool {
    /// Empty.
    pub fn new(
        endpoint: Arc<Endpoint>,
        limits: PoolLimits,
        reactor: Rc<Reactor>,
        metrics: Arc<Padded<DspMetrics>>,
    ) -> Self {
        Self {
            endpoint,
            limits: Cell::new(limits),
            reactor,
            metrics,
            retired: Cell::new(false),
            idle: RefCell::default(),
            all: RefCell::default(),
            waiting: RefCell::default(),
            opening: Cell::new(0),
            ids: Cell::new(0),
            failing: RefCell::default(),
        }
    }

    pub(super) fn metrics(&self) -> &DspMetrics {
        &self.metrics
    }

    pub(super) fn limits(&self) -> PoolLimits {
        self.limits.get()
    }

    /// Other limits from now on.
    pub fn limit(&self, limits: PoolLimits) {
        self.limits.set(limits);
    }

    /// Where its connections lead.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Closes what is idle, and every other connection once its call is over.
    pub fn retire(&self) {
        self.retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        for connection in idle {
            connection.close();
        }
    }

    /// The idle connection used last, which is the likeliest to be alive.
    pub(super) fn idle(&self) -> Option<Rc<Connection>> {
        self.idle.borrow_mut().pop()
    }

    /// Opens a connection for a call, which hears of it through its inbox.
    ///
    /// # Errors
    ///
    /// Why none can be opened.
    pub(super) fn open(
        self: &Rc<Self>,
        now: Instant,
        inbox: &Rc<Inbox>,
        slot: usize,
    ) -> Result<(), Outcome> {
        if self.all.borrow().len() + self.opening.get() >= self.limits().connections_max {
            return Err(Outcome::Saturated);
        }
        let address = self.next_address(now)?;
        let id = self.ids.replace(self.ids.get() + 1);
        self.waiting.borrow_mut().push_back((Rc::clone(inbox), slot));
        self.opening.set(self.opening.get() + 1);
        let pool = Rc::clone(self);
        spawn_local(async move {
            let opened =
                timeout(pool.limits().connect_timeout, connect(address, &pool.endpoint)).await;
            pool.opening.set(pool.opening.get() - 1);
            match opened {
                Ok(Ok(transport)) => match Connection::start(transport, address, &pool, id) {
                    Ok(connection) => pool.opened(connection),
                    Err(error) => pool.failed(address, now, &error.to_string()),
                },
                Ok(Err(error)) => pool.failed(address, now, &error.to_string()),
                Err(_) => pool.failed(address, now, "timed out"),
            }
        });
        Ok(())
    }

    /// The next in turn of the addresses that may be tried now.
    fn next_address(&self, now: Instant) -> Result<SocketAddr, Outcome> {
        let addresses = self.endpoint.addresses.current();
        if addresses.is_empty() {
            return Err(Outcome::Unresolved);
        }
        let failing = self.failing.borrow();
        let may_be_tried = |address: &&SocketAddr| {
            failing.get(address).is_none_or(|failure| failure.retry_at <= now)
        };
        let turn = usize::try_from(self.ids.get()).unwrap_or(0) % addresses.len();
        let (after, before) = addresses.split_at(turn);
        let mut in_turn = before.iter().chain(after);
        in_turn.find(may_be_tried).copied().ok_or(Outcome::Unreachable)
    }

    fn opened(&self, connection: Rc<Connection>) {
        self.failing.borrow_mut().remove(&connection.address);
        self.metrics().opened.increment();
        self.all.borrow_mut().insert(connection.id, Rc::clone(&connection));
        self.metrics().open.change(1);
        self.release(connection, Instant::now());
    }

    /// An attempt that began at `started` has come to nothing.
    fn failed(&self, address: SocketAddr, started: Instant, error: &str) {
        // Attempts that were under way together fail together: that is one failure, not many.
        let known = self.failing.borrow().get(&address).copied();
        if known.is_none_or(|failure| failure.retry_at <= started) {
            self.back_off(address, known, error);
        }
        let waiting = self.waiting.borrow_mut().pop_front();
        if let Some((inbox, slot)) = waiting {
            inbox.deliver(slot, Outcome::Unreachable, &[]);
        }
    }

    fn back_off(&self, address: SocketAddr, known: Option<Failure>, error: &str) {
        let count = known.map_or(0, |failure| failure.count).saturating_add(1);
        let limits = self.limits();
        let doubled = limits.backoff_min.saturating_mul(1 << (count - 1).min(16));
        let retry_at = Instant::now() + doubled.min(limits.backoff_max);
        let mut failing = self.failing.borrow_mut();
        // Names move: addresses that have gone are not remembered.
        let addresses = self.endpoint.addresses.current();
        failing.retain(|address, _| addresses.contains(address));
        failing.insert(address, Failure { count, retry_at });
        self.metrics().errors.note(|| format!("cannot connect to {address}: {error}"));
        if count == 1 {
            warn!(%address, error, "DSP cannot be reached; retrying with backoff");
        } else {
            debug!(%address, error, failures = count, "DSP still cannot be reached");
        }
    }

    /// Gives a connection to a call that waits for one, or keeps it.
    pub(super) fn release(&self, mut connection: Rc<Connection>, now: Instant) {
        if connection.is_closed() {
            return;
        }
        loop {
            let waiting = self.waiting.borrow_mut().pop_front();
            let Some((inbox, slot)) = waiting else { break };
            match inbox.offer(slot, connection) {
                Ok(()) => return,
                Err(back) => connection = back,
            }
        }
        if self.retired.get() {
            return connection.close();
        }
        connection.rest(now);
        self.idle.borrow_mut().push(connection);
    }

    /// A connection has closed.
    pub(super) fn forget(&self, connection: &Connection) {
        if self.all.borrow_mut().remove(&connection.id).is_some() {
            self.idle.borrow_mut().retain(|idle| idle.id != connection.id);
            self.metrics().open.change(-1);
        }
    }

    /// Closes what is overdue, idle for too long, or at an address that is no longer the DSP's.
    pub fn sweep(&self, now: Instant) {
        let known = self.endpoint.addresses.current();
        let idle_before = now.checked_sub(self.limits().idle_timeout).unwrap_or(now);
        let is_spent = |connection: &&Rc<Connection>| connection.is_spent(now, idle_before, &known);
        let spent: Vec<_> = self.all.borrow().values().filter(is_spent).cloned().collect();
        for connection in spent {
            connection.close();
        }
    }

    /// Whether nothing is open or being opened.
    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty() && self.opening.get() == 0
    }

    /// Closes every connection: pool and connections hold each other, and would live on.
    pub fn close(&self) {
        let all: Vec<_> = self.all.borrow().values().cloned().collect();
        for connection in all {
            connection.close();
        }
    }
}

/// Tokio waits for the connection to open; from then on the reactor waits for its answers.
async fn connect(address: SocketAddr, endpoint: &Endpoint) -> io::Result<Transport> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let session = match &endpoint.tls {
        Some(tls) => Some(tls.shake_hands(&stream).await?),
        None => None,
    };
    let socket = mio::net::TcpStream::from_std(stream.into_std()?);
    Ok(match session {
        Some(session) => Transport::tls(socket, session),
        None => Transport::plain(socket),
    })
}

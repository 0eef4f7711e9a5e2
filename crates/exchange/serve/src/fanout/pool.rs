//! One shard's connections to one DSP.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use runtime::metrics::Padded;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use units::Ppm;

use super::connection::{DspConnection, FinishedCall};
use super::endpoint::Endpoint;
use super::health::{AddressHealths, Backoff};
use super::inbox::Inbox;
use super::sockets::reactor::Reactor;
use super::sockets::transport::Transport;
use crate::metrics::DspMetrics;

/// Interval between log lines about this machine's limits, per pool.
const LACK_TOLD_EVERY: Duration = Duration::from_secs(10);

/// Limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most connections from one shard to one DSP, and most calls that wait for one.
    pub connections_max: usize,
    /// Most connections opening at once, plus one for every four open.
    pub opening_max: usize,
    /// Share of a shard's time for handshakes with all DSPs.
    pub handshake_share: Ppm,
    /// Longest attempt to connect.
    pub connect_timeout: Duration,
    /// Idle connections close after this long.
    pub idle_timeout: Duration,
    /// How long after its auction a late answer may arrive before its connection closes.
    pub drain_timeout: Duration,
    /// Pauses of failing addresses.
    pub backoff: Backoff,
    /// Most tiny reads of one answer before its connection closes.
    pub crumbs_max: u32,
}

#[derive(Debug)]
pub struct DspPool {
    pub(super) endpoint: Arc<Endpoint>,
    limits: Cell<PoolLimits>,
    pub(super) reactor: Rc<Reactor>,
    metrics: Arc<Padded<DspMetrics>>,
    /// The DSP moved: running calls finish, and no connection is kept.
    retired: Cell<bool>,
    idle: RefCell<Vec<Rc<DspConnection>>>,
    all: RefCell<HashMap<u64, Rc<DspConnection>>>,
    /// Calls that wait for a new or released connection.
    waiting: RefCell<VecDeque<(Rc<Inbox>, usize)>>,
    pub(super) opening: Cell<usize>,
    ids: Cell<u64>,
    standings: RefCell<AddressHealths>,
    /// Last log line about this machine's limits.
    lack_told: Cell<Option<Instant>>,
}

impl DspPool {
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
            standings: RefCell::default(),
            lack_told: Cell::new(None),
        }
    }

    pub(super) fn metrics(&self) -> &DspMetrics {
        &self.metrics
    }

    pub(super) fn limits(&self) -> PoolLimits {
        self.limits.get()
    }

    pub fn limit(&self, limits: PoolLimits) {
        self.limits.set(limits);
    }

    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Closes idle connections now, and others after their call.
    pub fn retire(&self) {
        self.retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        for connection in idle {
            connection.close();
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
        inbox: &Rc<Inbox>,
        slot: usize,
    ) -> Result<(), CallOutcome> {
        if self.waiting.borrow().len() >= self.limits().connections_max {
            self.forget_past();
        }
        if self.waiting.borrow().len() >= self.limits().connections_max {
            return Err(CallOutcome::Saturated);
        }
        let opening = if self.opening.get() < self.opening_max() {
            self.open(now)
        } else {
            self.next_address(now).map(drop)
        };
        match opening {
            // A busy connection will be released.
            Ok(()) | Err(CallOutcome::Saturated) => (),
            Err(_) if self.has_proven() => (),
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
        let address = self.next_address(now)?;
        self.standings.borrow_mut().tried(address);
        let id = self.ids.replace(self.ids.get() + 1);
        self.opening.set(self.opening.get() + 1);
        let pool = Rc::clone(self);
        spawn_local(async move {
            let transport = pool.connect(address).await;
            pool.opening.set(pool.opening.get() - 1);
            let start = |transport| DspConnection::start(transport, (address, now), &pool, id);
            match transport.and_then(|transport| transport.map(start).transpose()) {
                Ok(Some(connection)) => pool.opened(connection),
                Ok(None) => pool.standings.borrow_mut().unused(address, now),
                Err(error) => pool.failed(address, now, &error),
            }
            pool.open_for_waiting();
        });
        Ok(())
    }

    /// Connects, then takes its turn to shake hands. None if no call waits for it by then.
    async fn connect(&self, address: SocketAddr) -> io::Result<Option<Transport>> {
        let limits = self.limits();
        let Some(tls) = &self.endpoint.tls else {
            let permit = self.reactor.socket()?;
            let socket = within(limits.connect_timeout, connect(address)).await?;
            return Ok(Some(Transport::plain(mio_socket(socket)?, permit)));
        };
        let handshakes = &self.reactor.handshakes;
        let turn = handshakes.turn(limits.handshake_share).await;
        self.forget_past();
        if self.waiting.borrow().is_empty() {
            handshakes.forgo(turn, Duration::ZERO);
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
            Err(_) => handshakes.forgo(turn, took.get()),
        }
        opened.map(Some)
    }

    /// Opens connections for waiting calls that no attempt covers.
    fn open_for_waiting(self: &Rc<Self>) {
        self.forget_past();
        let now = Instant::now();
        while self.opening.get() < self.opening_max().min(self.waiting.borrow().len()) {
            match self.open(now) {
                Ok(()) => (),
                Err(CallOutcome::Saturated) => return,
                Err(_) if self.opening.get() > 0 || self.has_proven() => return,
                Err(outcome) => return self.disappoint(outcome),
            }
        }
    }

    /// Whether an open connection has carried an answer, so that waiting calls will get it.
    fn has_proven(&self) -> bool {
        self.all.borrow().values().any(|open| open.past() == FinishedCall::Answered)
    }

    fn forget_past(&self) {
        self.waiting.borrow_mut().retain(|(inbox, slot)| inbox.is_waiting(*slot));
    }

    fn disappoint(&self, outcome: CallOutcome) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for (inbox, slot) in waiting {
            inbox.deliver(slot, outcome, &[]);
        }
    }

    /// The next address, round robin, that is not paused.
    fn next_address(&self, now: Instant) -> Result<SocketAddr, CallOutcome> {
        let addresses = self.endpoint.addresses.current();
        if addresses.is_empty() {
            return Err(CallOutcome::Unresolved);
        }
        let standings = self.standings.borrow();
        let turn = usize::try_from(self.ids.get()).unwrap_or(0) % addresses.len();
        let (after, before) = addresses.split_at(turn);
        let mut in_turn = before.iter().chain(after);
        let may_be_tried = |address: &&SocketAddr| standings.allows(**address, now);
        in_turn.find(may_be_tried).copied().ok_or(CallOutcome::Unreachable)
    }

    fn opened(&self, connection: Rc<DspConnection>) {
        self.metrics().opened.increment();
        self.all.borrow_mut().insert(connection.id, Rc::clone(&connection));
        self.metrics().open.change(1);
        self.release(connection, Instant::now());
    }

    fn failed(&self, address: SocketAddr, began: Instant, error: &io::Error) {
        self.metrics().errors.note(|| format!("cannot connect to {address}: {error}"));
        if is_ours(error) {
            self.standings.borrow_mut().unused(address, began);
            self.tell_of_lack(address, error);
            let waiting = self.waiting.borrow_mut().pop_front();
            if let Some((inbox, slot)) = waiting {
                inbox.deliver(slot, CallOutcome::Saturated, &[]);
            }
            return;
        }
        // Another address or a released connection may serve waiting calls.
        let (times, backoff) = ((began, Instant::now()), self.limits().backoff);
        let pause = self.standings.borrow_mut().refused(address, times, backoff);
        self.paused(address, pause, &error.to_string());
    }

    /// Every call may meet this error, so it is logged only at intervals.
    fn tell_of_lack(&self, address: SocketAddr, error: &io::Error) {
        let now = Instant::now();
        if self.lack_told.get().is_none_or(|told| LACK_TOLD_EVERY <= now - told) {
            self.lack_told.set(Some(now));
            warn!(%address, %error, "this machine has no room for a connection to a DSP");
        }
    }

    fn paused(&self, address: SocketAddr, pause: Option<u32>, error: &str) {
        let Some(count) = pause else { return };
        if count == 1 {
            warn!(%address, error, "DSP cannot be reached; retrying with backoff");
        } else {
            debug!(%address, error, failures = count, "DSP still cannot be reached");
        }
    }

    pub(super) fn answered(&self, address: SocketAddr, began: Instant) {
        self.standings.borrow_mut().answered(address, began);
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
            return connection.close();
        }
        connection.rest(now);
        self.idle.borrow_mut().push(connection);
    }

    pub(super) fn forget(&self, connection: &DspConnection) {
        if self.all.borrow_mut().remove(&connection.id).is_none() {
            return;
        }
        self.idle.borrow_mut().retain(|idle| idle.id != connection.id);
        self.metrics().open.change(-1);
        let (address, began) = (connection.address, connection.began);
        match connection.past() {
            FinishedCall::Answered => (),
            FinishedCall::Unused if connection.is_reused() => {
                self.standings.borrow_mut().unused(address, began);
            }
            // Used, or closed before use.
            FinishedCall::Unused | FinishedCall::Asked => {
                let (times, backoff) = ((began, Instant::now()), self.limits().backoff);
                let pause = self.standings.borrow_mut().barren(address, times, backoff);
                self.paused(address, pause, "connections end without an answer");
            }
        }
    }

    /// Closes overdue, long idle and outdated connections, then opens some for waiting calls.
    pub fn sweep(self: &Rc<Self>, now: Instant) {
        let known = self.endpoint.addresses.current();
        let idle_before = now.checked_sub(self.limits().idle_timeout).unwrap_or(now);
        let is_spent =
            |connection: &&Rc<DspConnection>| connection.is_spent(now, idle_before, &known);
        self.standings.borrow_mut().keep(&known);
        let spent: Vec<_> = self.all.borrow().values().filter(is_spent).cloned().collect();
        for connection in spent {
            connection.close();
        }
        self.open_for_waiting();
    }

    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty() && self.opening.get() == 0
    }

    /// Closes all connections: they and the pool own each other in a cycle.
    pub fn close(&self) {
        let all: Vec<_> = self.all.borrow().values().cloned().collect();
        for connection in all {
            connection.close();
        }
    }
}

/// Whether this machine, not the DSP, lacks room for a connection.
fn is_ours(error: &io::Error) -> bool {
    use Errno as E;
    let ours = [E::MFILE, E::NFILE, E::NOBUFS, E::NOMEM, E::NOSPC, E::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}

/// Tokio waits for the connect; from then on the reactor waits for answers.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn mio_socket(socket: TcpStream) -> io::Result<mio::net::TcpStream> {
    socket.into_std().map(mio::net::TcpStream::from_std)
}

async fn within<T>(limit: Duration, opening: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "timed out");
    timeout(limit, opening).await.unwrap_or_else(|_| Err(timed_out()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_machine_lacks_is_no_fault_of_a_dsp() {
        let of = |errno: Errno| is_ours(&io::Error::from(errno));
        assert!(of(Errno::MFILE) && of(Errno::NFILE) && of(Errno::ADDRNOTAVAIL));
        assert!(!of(Errno::CONNREFUSED) && !of(Errno::TIMEDOUT) && !of(Errno::HOSTUNREACH));
        assert!(!is_ours(&io::Error::new(io::ErrorKind::TimedOut, "timed out")));
    }
}

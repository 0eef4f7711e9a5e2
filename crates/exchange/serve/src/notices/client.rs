//! Calls the URLs of notices: a connection serves call after call, and win and loss notices that
//! wait for the same host leave together.
//!
//! It must not know what a notice is worth, nor when to try again.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::network::{Network, is_public};
use super::wire::{ReceiveError, Socket};
use crate::fanout::Tls;

/// Hosts with connections; a DSP that names a host for each notice must not fill the memory.
const LANES_MAX: usize = 4096;
/// Calls that may wait for one host: ads are asked for by each auction, however slowly they come.
const CALLS_MAX: usize = 1024;

/// Who is called, over what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether over TLS.
    pub is_tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// Whom.
    pub origin: Origin,
    /// The request's head, blank line included.
    pub head: String,
    /// Whether others may follow on the connection before it is answered: not where a call that
    /// is made twice costs money.
    pub pipelined: bool,
    /// Most bytes of the answer's body that are wanted; it is dropped where none are.
    pub body_max: usize,
    /// Hears what came of it.
    pub done: oneshot::Sender<Result<Answered, CallError>>,
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Status code.
    pub status: u16,
    /// The node of the exchange that answered, if one did.
    pub node: Option<u32>,
    /// Empty unless it was wanted.
    pub body: Vec<u8>,
}

/// Why a call was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No address, and so nobody to call.
    #[error("the host cannot be resolved: {0}")]
    Unresolved(String),
    /// Its addresses are not of the public internet, nor otherwise allowed.
    #[error("{0} is not a public address; allow it in exchange.notices.networks_allowed")]
    Forbidden(IpAddr),
    /// No connection.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The time was up.
    #[error("no answer in time")]
    TimedOut,
    /// It broke off, or is no HTTP.
    #[error("no usable answer: {0}")]
    Broken(String),
    /// More hosts are being called than may be, or too many calls wait for this one.
    #[error("too many calls are under way")]
    Saturated,
}

/// What bounds the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Longest wait for a connection, and for each answer.
    pub timeout: Duration,
    /// Most connections to one host.
    pub connections_max: usize,
    /// An idle connection is closed after this long.
    pub idle_timeout: Duration,
    /// Most calls on a connection that wait for their answers.
    pub pipeline_max: usize,
    /// Ranges that may be called although they are not public.
    pub networks_allowed: Vec<Network>,
}

/// Looks names up.
pub trait Resolve {
    /// The addresses of `host`, which is no address itself.
    ///
    /// # Errors
    ///
    /// What the resolver said.
    fn resolve<'r>(
        &'r self,
        host: &'r str,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + 'r>>;
}

/// Calls many hosts from one thread.
pub struct Client {
    limits: CallLimits,
    resolver: Box<dyn Resolve>,
    tls: Tls,
    lanes: RefCell<HashMap<Origin, Rc<Lane>>>,
    lanes_max: usize,
}

/// The calls to one host.
#[derive(Default)]
struct Lane {
    queue: RefCell<VecDeque<Call>>,
    connections: Cell<usize>,
    /// Connections that wait for a call and that none has woken.
    idle: Cell<usize>,
    called: Notify,
    /// It had to make way for another host.
    is_over: Cell<bool>,
}

/// Why calls of a batch have no answer.
enum Break {
    /// There is no connection, or no answer in time: none of them has a better chance.
    All(CallError),
    /// The answer to the first of them cannot be used, nor the connection any further.
    First(CallError),
    /// The connection ended before the first of them was answered.
    Unanswered,
}

impl Client {
    /// `tls` says whom to trust.
    pub fn new(limits: CallLimits, resolver: Box<dyn Resolve>, tls: Tls) -> Rc<Self> {
        Rc::new(Self { limits, resolver, tls, lanes: RefCell::default(), lanes_max: LANES_MAX })
    }

    /// Makes a call, on the thread's `LocalSet` or local runtime.
    pub fn call(self: &Rc<Self>, call: Call) {
        let mut lanes = self.lanes.borrow_mut();
        let is_full = lanes.len() >= self.lanes_max && !lanes.contains_key(&call.origin);
        if is_full && !end_an_idle_one(&mut lanes) {
            let _ = call.done.send(Err(CallError::Saturated));
            return;
        }
        let lane = Rc::clone(lanes.entry(call.origin.clone()).or_default());
        drop(lanes);
        let origin = call.origin.clone();
        if !lane.take_in(call) {
            return;
        }
        if lane.idle.get() > 0 {
            lane.idle.set(lane.idle.get() - 1);
            lane.called.notify_one();
        } else if lane.connections.get() < self.limits.connections_max.max(1) {
            lane.connections.set(lane.connections.get() + 1);
            tokio::task::spawn_local(Connection { client: Rc::clone(self), lane, origin }.run());
        }
    }
}

/// Makes room for a host: one that nobody calls at the moment loses its connections, and no more.
/// Whether there was any.
fn end_an_idle_one(lanes: &mut HashMap<Origin, Rc<Lane>>) -> bool {
    let idle = lanes.iter().find(|(_, lane)| lane.is_idle()).map(|(origin, _)| origin.clone());
    let Some(lane) = idle.and_then(|origin| lanes.remove(&origin)) else { return false };
    lane.is_over.set(true);
    lane.idle.set(0);
    lane.called.notify_waiters();
    true
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.idle.get() == self.connections.get() && self.queue.borrow().is_empty()
    }

    /// Whether the call waits its turn; else it has heard that it will have none.
    fn take_in(&self, call: Call) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= CALLS_MAX {
            queue.retain(|call| !call.done.is_closed());
        }
        if queue.len() >= CALLS_MAX {
            let _ = call.done.send(Err(CallError::Saturated));
            return false;
        }
        queue.push_back(call);
        true
    }
}

/// One connection's life; several calls, one after the other or together.
struct Connection {
    client: Rc<Client>,
    lane: Rc<Lane>,
    origin: Origin,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.lane.connections.set(self.lane.connections.get() - 1);
        if self.lane.connections.get() > 0 || !self.lane.queue.borrow().is_empty() {
            return;
        }
        let mut lanes = self.client.lanes.borrow_mut();
        // One that made way for another may have been called anew, over other connections.
        if lanes.get(&self.origin).is_some_and(|lane| Rc::ptr_eq(lane, &self.lane)) {
            lanes.remove(&self.origin);
        }
    }
}

impl Connection {
    async fn run(self) {
        let mut socket = None;
        while let Some(batch) = self.next_batch().await {
            self.make(&mut socket, batch).await;
        }
    }

    /// Makes the calls of a batch, over as many connections as that takes.
    async fn make(&self, socket: &mut Option<Socket>, mut batch: VecDeque<Call>) {
        if let Some(open) = socket
            && !open.is_quiet().await
        {
            *socket = None;
        }
        loop {
            let (was_open, unanswered) = (socket.is_some(), batch.len());
            let Err(broken) = self.exchange(socket, &mut batch).await else { return };
            *socket = None;
            let had_served = was_open || batch.len() < unanswered;
            match broken {
                // The peer may have closed it just then, and not read what came: once more.
                Break::Unanswered if had_served => (),
                Break::Unanswered => {
                    let error = CallError::Broken(ReceiveError::Unanswered.to_string());
                    fail(batch.pop_front(), &error);
                }
                Break::First(error) => fail(batch.pop_front(), &error),
                Break::All(error) => return fail(batch, &error),
            }
            // Those behind it had no chance yet; some may wait no more.
            batch.retain(|call| !call.done.is_closed());
        }
    }

    /// The calls that leave together; `None` when none come for long.
    async fn next_batch(&self) -> Option<VecDeque<Call>> {
        loop {
            let batch = self.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
            self.lane.idle.set(self.lane.idle.get() + 1);
            let called =
                timeout(self.client.limits.idle_timeout, self.lane.called.notified()).await;
            if self.lane.is_over.get() {
                return None;
            }
            if called.is_ok() {
                continue; // By a call that has counted it as no longer idle.
            }
            self.lane.idle.set(self.lane.idle.get() - 1);
            if self.lane.queue.borrow().is_empty() {
                return None;
            }
        }
    }

    fn take_batch(&self) -> VecDeque<Call> {
        let mut queue = self.lane.queue.borrow_mut();
        // Nobody waits any more: an auction has gone on without the ad.
        queue.retain(|call| !call.done.is_closed());
        let alone = queue.front().is_some_and(|call| !call.pipelined);
        let most = if alone { 1 } else { self.client.limits.pipeline_max.max(1) };
        let together = queue.iter().take(most).take_while(|call| alone || call.pipelined).count();
        queue.drain(..together).collect()
    }

    /// Makes the calls of a batch, which those that are answered leave.
    async fn exchange(
        &self,
        socket: &mut Option<Socket>,
        batch: &mut VecDeque<Call>,
    ) -> Result<(), Break> {
        let patience = self.client.limits.timeout;
        while !batch.is_empty() {
            let open = match socket {
                Some(open) => open,
                None => socket.insert(self.connect().await.map_err(Break::All)?),
            };
            let heads: String = batch.iter().map(|call| call.head.as_str()).collect();
            match timeout(patience, open.send(heads.as_bytes())).await {
                Ok(Ok(())) => (),
                Ok(Err(_)) => return Err(Break::Unanswered),
                Err(_) => return Err(Break::All(CallError::TimedOut)),
            }
            while let Some(call) = batch.front() {
                let answered = open.receive(call.body_max, patience).await;
                let (answered, goes_on) = answered.map_err(|error| Break::of(&error))?;
                let call = batch.pop_front().expect("it is at the front");
                // Whoever asked may have gone.
                let _ = call.done.send(Ok(answered));
                if !goes_on {
                    *socket = None; // What follows in the batch is sent again.
                    break;
                }
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Socket, CallError> {
        let until = Instant::now() + self.client.limits.timeout;
        let connected = timeout_at(until, self.connect_to_any(until)).await;
        connected.unwrap_or(Err(CallError::TimedOut))
    }

    async fn connect_to_any(&self, until: Instant) -> Result<Socket, CallError> {
        let addresses = match self.origin.host.parse() {
            Ok(address) => vec![address],
            Err(_) => self
                .client
                .resolver
                .resolve(&self.origin.host)
                .await
                .map_err(CallError::Unresolved)?,
        };
        let mut last = CallError::Unresolved("it has no address".to_owned());
        // Judged where it is used: a name may mean another address from one moment to the next.
        let networks = &self.client.limits.networks_allowed;
        let is_allowed = |address: &IpAddr| {
            is_public(*address) || networks.iter().any(|network| network.contains(*address))
        };
        let (allowed, forbidden): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_allowed);
        if let Some(address) = forbidden.last() {
            last = CallError::Forbidden(*address);
        }
        for (at, address) in allowed.iter().enumerate() {
            // One that says nothing must leave time for those behind it.
            let left = until.saturating_duration_since(Instant::now());
            let share = if at + 1 < allowed.len() { left / 2 } else { left };
            let connecting = self.connect_to(SocketAddr::new(*address, self.origin.port));
            last = match timeout(share, connecting).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => CallError::Unreachable(error.to_string()),
                Err(_) => CallError::TimedOut,
            };
        }
        Err(last)
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if self.origin.is_tls {
            let stream = self.client.tls.connect(stream, &self.origin.host).await?;
            Ok(Socket::new(Box::new(stream)))
        } else {
            Ok(Socket::new(Box::new(stream)))
        }
    }
}

impl Break {
    fn of(error: &ReceiveError) -> Self {
        match error {
            ReceiveError::Unanswered => Self::Unanswered,
            ReceiveError::TimedOut => Self::All(CallError::TimedOut),
            ReceiveError::Io(_) | ReceiveError::Answer(_) => {
                Self::First(CallError::Broken(error.to_string()))
            }
        }
    }
}

fn fail(calls: impl IntoIterator<Item = Call>, error: &CallError) {
    for call in calls {
        let _ = call.done.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests;

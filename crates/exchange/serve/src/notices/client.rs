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
use tokio::time::timeout;

use super::network::{Network, is_public};
use super::wire::{self, Socket};
use crate::fanout::Tls;

/// Hosts with calls under way; a DSP that names a host for each notice must not fill the memory.
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
}

/// The calls to one host.
#[derive(Default)]
struct Lane {
    queue: RefCell<VecDeque<Call>>,
    connections: Cell<usize>,
    /// Connections that wait for a call and that none has woken.
    idle: Cell<usize>,
    called: Notify,
}

impl Client {
    /// `tls` says whom to trust.
    pub fn new(limits: CallLimits, resolver: Box<dyn Resolve>, tls: Tls) -> Rc<Self> {
        Rc::new(Self { limits, resolver, tls, lanes: RefCell::default() })
    }

    /// Makes a call, on the thread's `LocalSet` or local runtime.
    pub fn call(self: &Rc<Self>, call: Call) {
        let mut lanes = self.lanes.borrow_mut();
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&call.origin) {
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

impl Lane {
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
        if self.lane.connections.get() == 0 && self.lane.queue.borrow().is_empty() {
            self.client.lanes.borrow_mut().remove(&self.origin);
        }
    }
}

impl Connection {
    async fn run(self) {
        let mut socket = None;
        while let Some(batch) = self.next_batch().await {
            let reused = socket.is_some();
            let left = self.exchange(&mut socket, batch).await;
            let Err((left, error)) = left else { continue };
            socket = None;
            // One that had been idle may have been closed by the peer just then: once more. Who has
            // not answered in time may have been told all the same.
            let left = if reused && !left.is_empty() && error != CallError::TimedOut {
                match self.exchange(&mut socket, left).await {
                    Ok(()) => continue,
                    Err((left, error)) => {
                        socket = None;
                        fail(left, &error);
                        continue;
                    }
                }
            } else {
                left
            };
            fail(left, &error);
        }
    }

    /// The calls that leave together; `None` when none come for long.
    async fn next_batch(&self) -> Option<Vec<Call>> {
        loop {
            let batch = self.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
            self.lane.idle.set(self.lane.idle.get() + 1);
            let called =
                timeout(self.client.limits.idle_timeout, self.lane.called.notified()).await;
            if called.is_ok() {
                continue; // By a call that has counted it as no longer idle.
            }
            self.lane.idle.set(self.lane.idle.get() - 1);
            if self.lane.queue.borrow().is_empty() {
                return None;
            }
        }
    }

    fn take_batch(&self) -> Vec<Call> {
        let mut queue = self.lane.queue.borrow_mut();
        // Nobody waits any more: an auction has gone on without the ad.
        queue.retain(|call| !call.done.is_closed());
        let alone = queue.front().is_some_and(|call| !call.pipelined);
        let most = if alone { 1 } else { self.client.limits.pipeline_max.max(1) };
        let together = queue.iter().take(most).take_while(|call| alone || call.pipelined).count();
        queue.drain(..together).collect()
    }

    /// Makes the calls of a batch. On an error, those without an answer come back.
    async fn exchange(
        &self,
        socket: &mut Option<Socket>,
        batch: Vec<Call>,
    ) -> Result<(), (Vec<Call>, CallError)> {
        let mut batch = VecDeque::from(batch);
        let done = self.exchange_all(socket, &mut batch).await;
        done.map_err(|error| (batch.into(), error))
    }

    async fn exchange_all(
        &self,
        socket: &mut Option<Socket>,
        batch: &mut VecDeque<Call>,
    ) -> Result<(), CallError> {
        let patience = self.client.limits.timeout;
        let in_time = |done: Result<io::Result<()>, _>| match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(CallError::Broken(error.to_string())),
            Err(tokio::time::error::Elapsed { .. }) => Err(CallError::TimedOut),
        };
        while !batch.is_empty() {
            let open = match socket {
                Some(open) => open,
                None => socket.insert(self.connect().await?),
            };
            let heads: String = batch.iter().map(|call| call.head.as_str()).collect();
            in_time(timeout(patience, open.send(heads.as_bytes())).await)?;
            loop {
                let Some(call) = batch.front() else { return Ok(()) };
                let answered = timeout(patience, open.receive(call.body_max)).await;
                let answered = answered.map_err(|_| CallError::TimedOut)?;
                let (answered, goes_on) = answered.map_err(|error| broken(&error))?;
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
        let connected = timeout(self.client.limits.timeout, self.connect_to_any()).await;
        connected.unwrap_or(Err(CallError::TimedOut))
    }

    async fn connect_to_any(&self) -> Result<Socket, CallError> {
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
        for address in addresses {
            // Judged where it is used: a name may mean another address from one moment to the next.
            let allowed = &self.client.limits.networks_allowed;
            if !is_public(address) && !allowed.iter().any(|network| network.contains(address)) {
                last = CallError::Forbidden(address);
                continue;
            }
            match self.connect_to(SocketAddr::new(address, self.origin.port)).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last = CallError::Unreachable(error.to_string()),
            }
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

fn broken(error: &wire::ReceiveError) -> CallError {
    CallError::Broken(error.to_string())
}

fn fail(calls: Vec<Call>, error: &CallError) {
    for call in calls {
        let _ = call.done.send(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests;

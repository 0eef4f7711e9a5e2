//! Simulated servers: any number of them in one process, on as few threads as requested, cheap
//! enough that the system under test is the bottleneck. Owns their sockets, HTTP/1.1 and HTTP/2, and
//! the faults of any HTTP server; a [`SimulatedService`] provides the answers.

mod behaviour;
pub(crate) mod counter;
pub(crate) mod faults;
pub(crate) mod http;
mod options;
mod reactor;
mod responder;
mod schedule;
pub(crate) mod script;
mod tls;
mod version;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Poll, Waker};
use runtime::listen::ListenError;
use runtime::process;

pub use behaviour::{BOMB_BYTES_MAX, FLOOD_MAX, INTERIM_MAX, LATENCY_MAX, STATUS_BODY_MAX};
pub use behaviour::{
    ContentFault, Cut, DripFrom, FloodFrame, Http2Fault, ServerAct, ServerBehaviour,
};
pub use counter::{ConnectionCounters, SingleWriterCounter};
pub use faults::{AnswerRemains, Misbehaviour, Performed, Spoilable, spoilt};
pub use http::{HttpMethod, ServerRequest, whole_answer};
pub use options::{ServedVersions, ServerError, ServerOptions};
pub use responder::{ServiceReply, SimulatedService};
pub use schedule::{PHASES_MAX, ServerPhase, ServerSchedule};
pub use script::Script;
pub use tls::{ServerTls, TlsError};

use reactor::port::ServerPort;
use reactor::{ReactorOptions, ServerChange, ServerCommand, ServerReactor, SimulatedServer, WAKER};

/// Running servers. Dropping them stops them.
#[derive(Debug)]
pub struct Servers<R: SimulatedService> {
    addresses: Vec<SocketAddr>,
    origins: Vec<String>,
    stop: Arc<AtomicBool>,
    threads: Vec<ServerThread<R>>,
}

struct ServerThread<R: SimulatedService> {
    waker: Waker,
    commands: mpsc::Sender<ServerCommand<R>>,
    tid: i32,
    join: Option<JoinHandle<io::Result<()>>>,
}

impl<R: SimulatedService> std::fmt::Debug for ServerThread<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerThread").field("tid", &self.tid).finish_non_exhaustive()
    }
}

/// Starts a server for each of `schedules`; all listen on return. `respond` makes a server's
/// responder from its index and its origin, `http://<address>` or `https://<address>`.
///
/// # Errors
///
/// If the options or a schedule make no sense, or the system refuses a port, a thread or a core.
pub fn start<R: SimulatedService>(
    options: &ServerOptions,
    schedules: Vec<ServerSchedule<R::Fault>>,
    mut respond: impl FnMut(usize, &str) -> R,
) -> Result<Servers<R>, ServerError> {
    options.check(schedules.len())?;
    for (index, schedule) in schedules.iter().enumerate() {
        if let Some(problem) = schedule.problem() {
            return Err(ServerError::Change { index, problem });
        }
    }
    let mut servers = Servers {
        addresses: Vec::with_capacity(schedules.len()),
        origins: Vec::with_capacity(schedules.len()),
        stop: Arc::new(AtomicBool::new(false)),
        threads: Vec::with_capacity(options.threads),
    };
    let mut shares: Vec<Vec<SimulatedServer<R>>> =
        (0..options.threads).map(|_| Vec::new()).collect();
    for (index, schedule) in schedules.into_iter().enumerate() {
        let address = options.address(index);
        let port = ServerPort::open(address).map_err(|cause| ListenError { address, cause })?;
        let origin = options.origin(port.address());
        servers.addresses.push(port.address());
        let responder = respond(index, &origin);
        servers.origins.push(origin);
        let server = SimulatedServer { port, responder, schedule, is_refusing: false };
        shares[index % options.threads].push(server);
    }
    let shared = ReactorOptions {
        body_bytes_max: options.body_bytes_max,
        connections_max: options.connections_max,
        tls: options.tls.as_ref().map(|tls| tls.config(version::protocols(options.http))),
        versions: options.http,
        started: Instant::now(),
    };
    for (number, share) in shares.into_iter().enumerate() {
        let core = options.core.map(|core| core + number);
        let thread = ServerThread::spawn(share, shared.clone(), core, &servers.stop)?;
        servers.threads.push(thread);
    }
    Ok(servers)
}

impl<R: SimulatedService> ServerThread<R> {
    fn spawn(
        servers: Vec<SimulatedServer<R>>,
        options: ReactorOptions,
        core: Option<usize>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ServerError> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (commands, received) = mpsc::channel();
        let mut reactor = ServerReactor::new(poll, servers, received, options)?;
        let (placed, is_placed) = mpsc::sync_channel(1);
        let stop = Arc::clone(stop);
        let run = move || {
            let pinned = core.map_or(Ok(()), process::pin_to_core);
            let failed = pinned.is_err();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            if placed.send(pinned.map(|()| tid)).is_err() || failed {
                return Ok(());
            }
            reactor.run(&stop)
        };
        let join = std::thread::Builder::new().name("servers".to_owned()).spawn(run)?;
        let tid = is_placed.recv().map_err(io::Error::other)?;
        let tid =
            tid.map_err(|source| ServerError::Core { core: core.unwrap_or_default(), source })?;
        Ok(Self { waker, commands, tid, join: Some(join) })
    }
}

impl<R: SimulatedService> Servers<R> {
    /// The servers' addresses.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// `http://<address>` of each server, or `https://<address>` under TLS.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Sets a server's behaviour and ends its schedule. In effect on return; answers that have
    /// begun are completed first.
    ///
    /// # Errors
    ///
    /// If there is no such server, the behaviour makes no sense, or the server's thread has failed.
    pub fn behave(
        &self,
        index: usize,
        behaviour: ServerBehaviour<R::Fault>,
    ) -> Result<(), ServerError> {
        match behaviour.problem() {
            Some(problem) => Err(ServerError::Change { index, problem }),
            None => self.command(index, ServerChange::Behaviour(behaviour)),
        }
    }

    /// Changes the responder of a server. In effect on return.
    ///
    /// # Errors
    ///
    /// If there is no such server, or its thread has failed.
    pub fn change(&self, index: usize, change: R::Change) -> Result<(), ServerError> {
        self.command(index, ServerChange::Responder(change))
    }

    fn command(&self, index: usize, change: ServerChange<R>) -> Result<(), ServerError> {
        let count = self.addresses.len();
        if index >= count {
            return Err(ServerError::Unknown { index, count });
        }
        let (thread, server) =
            (&self.threads[index % self.threads.len()], index / self.threads.len());
        let (done, is_done) = mpsc::sync_channel(1);
        let gone = || ServerError::Gone { index };
        thread.commands.send(ServerCommand { server, change, done }).map_err(|_| gone())?;
        thread.waker.wake()?;
        is_done.recv().map_err(|_| gone())
    }

    /// CPU time of each thread. If it approaches wall time, the servers are the bottleneck. Zero if
    /// the kernel does not report it (`/proc/self/task/*/schedstat`).
    pub fn cpu_times(&self) -> Vec<Duration> {
        self.threads.iter().map(|thread| reactor::cpu_time(thread.tid)).collect()
    }

    /// Closes every socket and joins the threads. An error means that a thread failed earlier; its
    /// servers have been silent since.
    pub fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        let mut result = Ok(());
        for thread in &mut self.threads {
            let Some(join) = thread.join.take() else { continue };
            let ended = thread.waker.wake().and_then(|()| {
                join.join().unwrap_or_else(|_| Err(io::Error::other("a server thread panicked")))
            });
            result = result.and(ended);
        }
        result
    }
}

impl<R: SimulatedService> Drop for Servers<R> {
    fn drop(&mut self) {
        // `stop` reports a failure; a drop cannot.
        drop(self.join());
    }
}

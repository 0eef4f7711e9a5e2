//! One shard: its thread, its runtime, and the context of its body. It must not know how sockets
//! are assigned to shards.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tracing::error;

use super::activity::Activity;
use super::admission::{Admission, AdmissionLimits, BusyClock, with_hooks};
use super::metrics::ShardCounters;
use super::start::{Ready, ShardsStartError};
use super::table::TableEntry;
use super::tasks::{Tasks, Unfinished};
use crate::metrics::Padded;
use crate::process::pin_to_core;
use crate::shutdown::Shutdown;

/// Tasks that run between two polls of sockets and timers. Tokio's default of 61 would delay a
/// timer by milliseconds when each task starts an auction.
const EVENT_INTERVAL: u32 = 16;

pub(super) struct Handover {
    pub(super) stream: TcpStream,
    pub(super) listener: usize,
    pub(super) peer: SocketAddr,
    pub(super) entry: TableEntry,
}

/// A connection given to this shard.
#[derive(Debug)]
pub struct Accepted {
    /// The socket: non-blocking, without Nagle's delay, not yet registered with a runtime.
    pub stream: TcpStream,
    /// Index of the listener that accepted it.
    pub listener: usize,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Counts the connection as open until dropped: keep it as long as the socket.
    pub open: OpenClient,
}

/// Counts a connection as open until dropped.
#[derive(Debug)]
pub struct OpenClient {
    unfinished: Unfinished,
    activity: Activity,
}

impl OpenClient {
    /// Records what the connection is doing and applies its limits.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for OpenClient {
    fn drop(&mut self) {
        // The table entry must be gone before the connection counts as closed.
        self.activity.leave();
        self.unfinished.0.counters().closed.increment();
    }
}

/// The context of a shard's body.
#[derive(Debug)]
pub struct ShardContext {
    index: usize,
    handovers: mpsc::Receiver<Handover>,
    tasks: Tasks,
    admission: Admission,
    shutdown: Shutdown,
}

impl ShardContext {
    /// The shard's number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The next connection. None once the shutdown has begun and none is left. Cancel-safe.
    pub async fn accept(&mut self) -> Option<Accepted> {
        let Handover { stream, listener, peer, entry } = self.handovers.recv().await?;
        let open =
            OpenClient { unfinished: self.tasks.unfinished(), activity: Activity::new(entry) };
        Some(Accepted { stream, listener, peer, open })
    }

    /// Waits for the drain: until all connections and isolated tasks have ended, or time is up.
    pub async fn drained(&self) {
        tokio::select! {
            () = self.tasks.finished() => (),
            () = self.shutdown.ended() => (),
        }
    }

    /// Starts tasks on this shard.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Decides which requests this shard accepts.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Shutdown of the process.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}

pub(super) struct ShardStart {
    pub(super) index: usize,
    pub(super) core: Option<usize>,
    pub(super) handovers: mpsc::Receiver<Handover>,
    pub(super) counters: Arc<Padded<ShardCounters>>,
    pub(super) overload: AdmissionLimits,
    pub(super) shutdown: Shutdown,
}

impl ShardStart {
    pub(super) fn name(&self) -> String {
        format!("shard-{}", self.index)
    }

    pub(super) fn run<Fut: Future<Output = ()> + 'static>(
        self,
        body: &impl Fn(ShardContext) -> Fut,
        ready: &Ready,
    ) {
        // The starter waits for exactly one message.
        let busy = Arc::new(BusyClock::default());
        let runtime = match self.set_up(&busy) {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        drop(ready.send(Ok(())));
        let _watch = BodyWatch { shard: self.index, shutdown: self.shutdown.clone() };
        let tasks = Tasks::new(Arc::clone(&self.counters));
        let admission = Admission::new(self.overload, busy, self.counters);
        let context = ShardContext {
            index: self.index,
            handovers: self.handovers,
            tasks: tasks.clone(),
            admission: admission.clone(),
            shutdown: self.shutdown.clone(),
        };
        runtime.block_on(async {
            tokio::task::spawn_local(admission.run());
            body(context).await;
            tokio::select! {
                () = tasks.finished() => (),
                () = self.shutdown.ended() => (),
            }
        });
    }

    fn set_up(&self, busy: &Arc<BusyClock>) -> Result<LocalRuntime, ShardsStartError> {
        if let Some(core) = self.core {
            pin_to_core(core).map_err(|cause| ShardsStartError::Pin { core, cause })?;
        }
        with_hooks(&mut Builder::new_current_thread(), busy)
            .enable_all()
            .event_interval(EVENT_INTERVAL)
            .build_local(LocalOptions::default())
            .map_err(|cause| ShardsStartError::Runtime { name: self.name(), cause })
    }
}

/// Begins the shutdown if the shard's own code panics: the process would accept ever less.
struct BodyWatch {
    shard: usize,
    shutdown: Shutdown,
}

impl Drop for BodyWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(shard = self.shard, "the shard panicked; shutting down");
            if !self.shutdown.is_started() {
                self.shutdown.begin();
            }
        }
    }
}

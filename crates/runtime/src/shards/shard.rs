//! One shard: its thread, its runtime, and what its body is given.
//!
//! It must not know how sockets are shared out among shards.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tracing::error;

use super::activity::Activity;
use super::admission::{Admission, AdmissionLimits, BusyClock, with_hooks};
use super::table::TableEntry;
use super::tasks::{Tasks, Unfinished};
use super::{Ready, ShardCounters, ShardsStartError};
use crate::metrics::Padded;
use crate::process::pin_to_core;
use crate::shutdown::Shutdown;

/// Tasks that run between two looks at sockets and timers. Tokio's 61 would keep a timer waiting for
/// milliseconds where each task begins an auction.
const EVENT_INTERVAL: u32 = 16;

/// A socket on its way from the acceptor to a shard.
pub(super) struct Handover {
    pub(super) stream: TcpStream,
    pub(super) listener: usize,
    pub(super) peer: SocketAddr,
    pub(super) entry: TableEntry,
}

/// A connection that this shard has been given.
#[derive(Debug)]
pub struct Accepted {
    /// The socket: non-blocking, without Nagle's delay, not yet registered with any runtime.
    pub stream: TcpStream,
    /// Which of the listeners it came in by.
    pub listener: usize,
    /// Who is at the other end.
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
    /// By which the connection tells what it is doing, and is held to its limits.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }
}

impl Drop for OpenClient {
    fn drop(&mut self) {
        // Its entry is gone before it counts as closed.
        self.activity.leave();
        self.unfinished.0.counters().closed.increment();
    }
}

/// What a shard's body is given.
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

    /// The next connection for this shard; `None` once the shutdown has begun and those that were
    /// accepted before are taken. Dropping the future loses no connection.
    pub async fn accept(&mut self) -> Option<Accepted> {
        let Handover { stream, listener, peer, entry } = self.handovers.recv().await?;
        let open =
            OpenClient { unfinished: self.tasks.unfinished(), activity: Activity::new(entry) };
        Some(Accepted { stream, listener, peer, open })
    }

    /// Waits until every connection and isolated task has ended, or the drain is over. To be awaited once
    /// [`Self::accept`] has told that the shutdown has begun.
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

    /// Decides which requests this shard takes on.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The end of the process, for tasks that must hurry towards it.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}

/// What a shard's thread starts from.
pub(super) struct ShardStart {
    pub(super) index: usize,
    pub(super) core: Option<usize>,
    pub(super) handovers: mpsc::Receiver<Handover>,
    pub(super) counters: Arc<Padded<ShardCounters>>,
    pub(super) overload: AdmissionLimits,
    pub(super) shutdown: Shutdown,
}

impl ShardStart {
    /// The name of the shard's thread.
    pub(super) fn name(&self) -> String {
        format!("shard-{}", self.index)
    }

    /// Runs the shard to its end.
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

/// Begins the shutdown if the shard's own code panics: a process with a dead shard would go on
/// accepting less and less.
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

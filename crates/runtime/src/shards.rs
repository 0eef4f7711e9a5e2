//! One thread per core, each with its own Tokio runtime, and the acceptor that feeds them.
//!
//! A connection stays on its shard, so its tasks need no locks and may own values that are not
//! `Send`. The shards must not know what is served.
//!
//! ```no_run
//! use std::time::Duration;
//! use runtime::control::Control;
//! use runtime::{listen::listen, shards::{Shards, ShardsOptions}, shutdown::Shutdown};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shutdown = Shutdown::new(Duration::from_secs(10));
//! let control = Control::start()?;
//! shutdown.on_signals(&control)?;
//! let listeners = vec![listen("127.0.0.1:8080".parse()?)?];
//! let options = ShardsOptions { shards: 2, ..ShardsOptions::default() };
//! let shards = Shards::start(&options, listeners, &shutdown, |mut shard| async move {
//!     // Create here, on the shard's thread, what its connections share.
//!     while let Some(accepted) = shard.accept().await {
//!         shard.tasks().spawn_isolated(async move {
//!             let _open = accepted.open;
//!             let _stream = tokio::net::TcpStream::from_std(accepted.stream);
//!             // Serve it: an `ActiveStream` within `accepted.open.activity().limited(…)`.
//!         });
//!     }
//! })?;
//! shards.join()?;
//! # Ok(())
//! # }
//! ```

mod acceptor;
mod activity;
mod admission;
mod metrics;
mod options;
mod shard;
mod start;
mod table;
mod tasks;

#[cfg(test)]
mod tests;

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::shutdown::Shutdown;
use acceptor::Acceptor;
use shard::ShardStart;
use start::spawn_ready;

pub(crate) use activity::delegate_writes;
pub use activity::{ActiveStream, Activity, ConnectionEnd, ConnectionTimeouts, RequestActivity};
pub use admission::{Admission, AdmissionLimits, InFlightRequest};
pub use metrics::{Overload, ShardsMetrics};
pub use options::ShardsOptions;
pub use shard::{Accepted, OpenClient, ShardContext};
pub use start::ShardsStartError;
pub use table::{ConnectionLimits, ConnectionTable, EVICTING_MAX};
pub use tasks::Tasks;

/// Most accepted sockets that wait for one shard: only a stuck shard reaches this.
const HANDOVERS_MAX: usize = 1024;

/// Shards whose own code panicked, outside of connections.
#[derive(Debug, thiserror::Error)]
#[error("shards {0:?} panicked; see the log")]
pub struct ShardsPanicked(pub Vec<usize>);

/// Running shards and their acceptor.
#[derive(Debug)]
pub struct Shards {
    acceptor: JoinHandle<()>,
    shards: Vec<JoinHandle<()>>,
    metrics: ShardsMetrics,
}

impl Shards {
    /// Starts the shards and the acceptor; returns once all of them run.
    ///
    /// `body` runs once on each shard's thread. When the shutdown begins, the acceptor closes the
    /// listeners and [`ShardContext::accept`] ends. After `body` returns, the shard waits for its
    /// connections and isolated tasks until the drain is over, drops the rest, and ends. A panic of
    /// `body` begins the shutdown of the process.
    ///
    /// # Errors
    /// If a thread cannot be started, bound to its core, or given a runtime.
    pub fn start<F, Fut>(
        options: &ShardsOptions,
        listeners: Vec<TcpListener>,
        shutdown: &Shutdown,
        body: F,
    ) -> Result<Self, ShardsStartError>
    where
        F: Fn(ShardContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let count = options.shards.max(1);
        let metrics = ShardsMetrics::new(count);
        let body = Arc::new(body);
        let mut lanes = Vec::with_capacity(count);
        let mut shards = Vec::with_capacity(count);
        for index in 0..count {
            let (lane, handovers) = tokio::sync::mpsc::channel(HANDOVERS_MAX);
            lanes.push(lane);
            let start = ShardStart {
                index,
                core: options.core_of(index),
                handovers,
                counters: metrics.shards.shard(index),
                overload: options.overload,
                shutdown: shutdown.clone(),
            };
            let body = Arc::clone(&body);
            shards.push(spawn_ready(start.name(), move |ready| start.run(&*body, ready))?);
        }
        let acceptor = Acceptor::new(lanes, metrics.clone(), options);
        let shutdown = shutdown.clone();
        let acceptor = spawn_ready("acceptor".to_owned(), move |ready| {
            acceptor.run(listeners, &shutdown, ready);
        })?;
        Ok(Self { acceptor, shards, metrics })
    }

    /// Counts of connections and panics.
    pub fn metrics(&self) -> ShardsMetrics {
        self.metrics.clone()
    }

    /// Waits until the shutdown has begun and every shard has ended.
    ///
    /// # Errors
    /// If a shard's own code panicked.
    pub fn join(self) -> Result<(), ShardsPanicked> {
        let outcomes = self.shards.into_iter().map(JoinHandle::join).enumerate();
        let panicked: Vec<_> = outcomes.filter(|(_, end)| end.is_err()).map(|(i, _)| i).collect();
        self.acceptor.join().expect("the acceptor has no code that panics");
        if panicked.is_empty() { Ok(()) } else { Err(ShardsPanicked(panicked)) }
    }
}

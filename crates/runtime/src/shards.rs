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
mod options;
mod shard;
mod table;
mod tasks;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::metrics::{Counter, Gauge, Histogram, MetricsPage, Padded, PerShard};
use crate::shutdown::Shutdown;
use acceptor::Acceptor;
use shard::ShardStart;

pub use activity::{ActiveStream, Activity, ConnectionEnd, ConnectionTimeouts, RequestActivity};
pub use admission::{Admission, AdmissionLimits, InFlightRequest, Overload};
pub use options::ShardsOptions;
pub use shard::{Accepted, OpenClient, ShardContext};
pub use table::{ConnectionLimits, ConnectionTable, EVICTING_MAX};
pub use tasks::Tasks;

/// Most accepted sockets that wait for one shard: only a stuck shard reaches this.
const HANDOVERS_MAX: usize = 1024;

/// Why the shards do not start. `accept` ends on those that had started.
#[derive(Debug, thiserror::Error)]
pub enum ShardsStartError {
    /// A thread does not start.
    #[error("cannot start thread {name}: {cause}")]
    Thread {
        /// The thread's name.
        name: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A shard cannot be bound to its core.
    #[error("cannot run on core {core}: {cause}; choose one that this process may use")]
    Pin {
        /// The core's number.
        core: usize,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A runtime, or its registration of a listener, fails.
    #[error("cannot set up the runtime of thread {name}: {cause}")]
    Runtime {
        /// The thread's name.
        name: String,
        /// The kernel's error.
        cause: io::Error,
    },
}

/// Shards whose own code panicked, outside of connections.
#[derive(Debug, thiserror::Error)]
#[error("shards {0:?} panicked; see the log")]
pub struct ShardsPanicked(pub Vec<usize>);

#[derive(Debug)]
struct AcceptorCounters {
    handed: Vec<Counter>,
    /// Connections closed at once because of a limit or because no shard took them.
    refused: Counter,
    evicted: Counter,
    failed: Counter,
}

#[derive(Debug, Default)]
struct ShardCounters {
    /// The acceptor subtracts these from its own count, so the difference is exact.
    closed: Counter,
    panicked: Counter,
    /// Time from a request's receipt to its start.
    waits: Histogram,
    in_flight: Gauge,
    refused: [Counter; Overload::ALL.len()],
    /// Unix time in seconds of the last refusal; 0 if there was none.
    refused_at_s: Gauge,
}

/// Connections and panics of all shards.
#[derive(Clone, Debug)]
pub struct ShardsMetrics {
    acceptor: Arc<Padded<AcceptorCounters>>,
    shards: PerShard<ShardCounters>,
}

impl ShardsMetrics {
    fn new(shards: usize) -> Self {
        let handed = (0..shards).map(|_| Counter::default()).collect();
        let counters = AcceptorCounters {
            handed,
            refused: Counter::default(),
            evicted: Counter::default(),
            failed: Counter::default(),
        };
        Self { acceptor: Arc::new(Padded::new(counters)), shards: PerShard::new(shards) }
    }

    /// Connections handed to shards.
    pub fn accepted(&self) -> u64 {
        self.acceptor.handed.iter().map(Counter::value).sum()
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        // `closed` is read first: a connection that closes in between counts as open.
        let closed: u64 = self.shards.iter().map(|shard| shard.closed.value()).sum();
        self.accepted().saturating_sub(closed)
    }

    /// Connections closed at once because a limit was reached, in total or for one caller.
    pub fn refused(&self) -> u64 {
        self.acceptor.refused.value()
    }

    /// Idle connections closed to make room for new ones.
    pub fn evicted(&self) -> u64 {
        self.acceptor.evicted.value()
    }

    /// Failed accepts, for example without free descriptors.
    pub fn accept_failures(&self) -> u64 {
        self.acceptor.failed.value()
    }

    /// Tasks that panicked.
    pub fn panics(&self) -> u64 {
        self.shards.iter().map(|shard| shard.panicked.value()).sum()
    }

    /// Shards that refused requests because of overload within the last `period`, in whole seconds.
    pub fn overloaded(&self, period: Duration) -> usize {
        let since = unix_seconds().saturating_sub(i64::try_from(period.as_secs()).unwrap_or(0));
        self.shards.iter().filter(|shard| since <= shard.refused_at_s.value()).count()
    }

    /// Writes all of them to the metrics page.
    ///
    /// # Errors
    /// If the page accepts no more text.
    pub fn expose(&self, page: &mut MetricsPage<'_>) -> fmt::Result {
        let open = i64::try_from(self.open()).unwrap_or(i64::MAX);
        page.counters("connections_accepted", "Connections given to a shard.")?
            .value(&[], self.accepted())?;
        page.gauges("connections_open", "Connections open now.")?.value(&[], open)?;
        page.counters("connections_refused", "Connections closed at once: too many were open.")?
            .value(&[], self.refused())?;
        page.counters(
            "connections_evicted",
            "Idle connections closed to make place for new ones.",
        )?
        .value(&[], self.evicted())?;
        page.counters("accept_failures", "Failed accepts, for example when descriptors run out.")?
            .value(&[], self.accept_failures())?;
        let mut refused =
            page.counters("requests_refused", "Requests refused for overload, by reason.")?;
        for reason in Overload::ALL {
            let of_shards = self.shards.iter().map(|shard| &shard.refused[reason as usize]);
            refused.sum(&[("reason", reason.label())], of_shards)?;
        }
        let help = "Requests taken on and not yet answered.";
        page.gauges("requests_in_flight", help)?
            .sum(&[], self.shards.iter().map(|shard| &shard.in_flight))?;
        let help = "From a request's bytes reaching the kernel until its shard begins it.";
        page.histograms("request_wait_seconds", help)?
            .sum(&[], self.shards.iter().map(|shard| &shard.waits))?;
        page.counters("task_panics", "Tasks that panicked and died alone.")?
            .value(&[], self.panics())
    }
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

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
            let seat = ShardStart {
                index,
                core: options.core_of(index),
                handovers,
                counters: metrics.shards.shard(index),
                overload: options.overload,
                shutdown: shutdown.clone(),
            };
            let body = Arc::clone(&body);
            shards.push(spawn_ready(seat.name(), move |ready| seat.run(&*body, ready))?);
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

/// Reports to the starter that a thread runs, or why it does not.
type Ready = mpsc::Sender<Result<(), ShardsStartError>>;

fn spawn_ready(
    name: String,
    run: impl FnOnce(&Ready) + Send + 'static,
) -> Result<JoinHandle<()>, ShardsStartError> {
    let (ready, outcome) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(name.clone())
        .spawn(move || run(&ready))
        .map_err(|cause| ShardsStartError::Thread { name: name.clone(), cause })?;
    let died = |_| {
        let cause = io::Error::other("it panicked while starting");
        Err(ShardsStartError::Thread { name, cause })
    };
    outcome.recv().unwrap_or_else(died).map(|()| thread)
}

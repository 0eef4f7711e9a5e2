//! What the acceptor and the shards count, and how the metrics page shows it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::metrics::{Counter, Gauge, Histogram, MetricsPage, Padded, PerShard};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Overload {
    /// It would wait too long.
    Wait,
    /// Too many requests are under way.
    InFlight,
}

units::labelled!(Overload);

#[derive(Debug, Default)]
pub(super) struct AcceptorCounters {
    pub(super) handed: Vec<Counter>,
    /// Connections closed at once because of a limit or because no shard took them.
    pub(super) refused: Counter,
    pub(super) evicted: Counter,
    pub(super) failed: Counter,
}

#[derive(Debug, Default)]
pub(super) struct ShardCounters {
    /// The acceptor subtracts these from its own count, so the difference is exact.
    pub(super) closed: Counter,
    pub(super) panicked: Counter,
    /// Time from a request's receipt to its start.
    pub(super) waits: Histogram,
    pub(super) in_flight: Gauge,
    pub(super) refused: [Counter; Overload::ALL.len()],
    /// Unix time in seconds of the last refusal; 0 if there was none.
    pub(super) refused_at_s: Gauge,
}

impl ShardCounters {
    /// Counts a refusal, and returns its reason.
    pub(super) fn refuse(&self, overload: Overload) -> Overload {
        self.refused[overload as usize].increment();
        self.refused_at_s.set(unix_seconds());
        overload
    }
}

/// Connections and panics of all shards.
#[derive(Clone, Debug)]
pub struct ShardsMetrics {
    pub(super) acceptor: Arc<Padded<AcceptorCounters>>,
    pub(super) shards: PerShard<ShardCounters>,
}

impl ShardsMetrics {
    pub(super) fn new(shards: usize) -> Self {
        let handed = (0..shards).map(|_| Counter::default()).collect();
        let counters = AcceptorCounters { handed, ..AcceptorCounters::default() };
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
        page.counters(
            "connections_refused",
            "Connections closed at once because too many were open.",
        )?
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
        let help = "Requests admitted and not yet answered.";
        page.gauges("requests_in_flight", help)?
            .sum(&[], self.shards.iter().map(|shard| &shard.in_flight))?;
        let help = "Time from a request's arrival in the kernel until its shard begins it.";
        page.histograms("request_wait_seconds", help)?
            .sum(&[], self.shards.iter().map(|shard| &shard.waits))?;
        page.counters("task_panics", "Tasks that panicked; no other task ended with them.")?
            .value(&[], self.panics())
    }
}

pub(super) fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

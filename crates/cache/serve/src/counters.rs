//! What each shard counts for each route.

use std::time::Duration;

use cache_core::rules::reuse::ServedFreshness;
use runtime::metrics::{Counter, Histogram, PerShard};

/// The counts of one route on one shard.
#[derive(Debug, Default)]
pub(crate) struct RouteCounts {
    /// Answered from the store, fresh.
    pub hits: Counter,
    /// Answered from the store, stale.
    pub stale: Counter,
    /// Answered by a fetch of its own.
    pub misses: Counter,
    /// Answered by the fetch of another request.
    pub collapsed: Counter,
    /// Answered from the store, after a fetch of its own found that valid.
    pub revalidated: Counter,
    /// Passed to the origin and back: what the store does not answer.
    pub passed: Counter,
    /// Answered with an error of the cache: 502, 503 or 504.
    pub failed: Counter,
    /// Responses that were stored.
    pub stored: Counter,
    /// Resources that were read from the disk.
    pub loaded: Counter,
    /// Responses that were evicted for others.
    pub evicted: Counter,
    /// Requests to the origin.
    pub fetches: Counter,
    /// Of these, those that found the stored response valid: for a request, or in the background.
    pub validations: Counter,
    /// Requests to the origin without a usable answer.
    pub fetch_failures: Counter,
    /// Bytes of bodies answered from the store.
    pub hit_bytes: Counter,
    /// Bytes of bodies that came from the origin.
    pub fetched_bytes: Counter,
    /// From a request to the origin to the head of its answer.
    pub origin: Histogram,
}

impl RouteCounts {
    /// Counts a request to the origin, which took this long up to the head of its answer.
    pub fn count_fetch(&self, took: Duration, is_failure: bool) {
        self.fetches.increment();
        self.origin.record(took);
        if is_failure {
            self.fetch_failures.increment();
        }
    }

    /// The counters of which one counts each request that a route answers.
    pub const fn answered(&self) -> [&Counter; 7] {
        let Self { hits, stale, misses, collapsed, revalidated, passed, failed, .. } = self;
        [hits, stale, misses, collapsed, revalidated, passed, failed]
    }

    /// Counts an answer of the store.
    pub fn count_hit(&self, served: ServedFreshness, body_bytes: u64) {
        match served.fresh_for {
            Some(_) => self.hits.increment(),
            None => self.stale.increment(),
        }
        self.hit_bytes.add(body_bytes);
    }
}

/// What one shard counts of values that clients store.
#[derive(Debug, Default)]
pub(crate) struct PutCounts {
    /// Values that were stored.
    pub stored: Counter,
    /// Requests to store that were refused.
    pub refused: Counter,
    /// Requests for a value that were answered with it.
    pub served: Counter,
    /// Those that were not.
    pub missed: Counter,
}

/// The counts of all routes, in the order of the configuration, each by shard.
pub(crate) type CountsByRoute = Vec<PerShard<RouteCounts>>;

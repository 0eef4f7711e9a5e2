//! Counters, gauges and histograms with one writer each, and their Prometheus exposition.
//!
//! Each shard owns metrics that it alone writes: an update is a relaxed load and store, never a
//! locked instruction, and no two cores write the same cache line. The scraper sums over shards.
//! This module must not know any service's metrics.
//!
//! A crate names its metrics in one place, a struct and a function; the page prefixes every name
//! with `vickrey_`:
//!
//! ```
//! use std::fmt;
//! use runtime::metrics::{Counter, Exposition, MetricsPage, PerShard};
//!
//! #[derive(Default)]
//! struct Metrics { auctions: Counter, won: Counter, lost: Counter }
//!
//! fn expose(shards: &PerShard<Metrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
//!     page.counters("auctions", "Auctions cleared.")?.sum(&[], shards.iter().map(|m| &m.auctions))?;
//!     let mut bids = page.counters("bids", "Bids by fate.")?;
//!     bids.sum(&[("fate", "won")], shards.iter().map(|m| &m.won))?;
//!     bids.sum(&[("fate", "lost")], shards.iter().map(|m| &m.lost))
//! }
//!
//! let shards = PerShard::<Metrics>::new(2);
//! let first = shards.shard(0); // Moves to the shard's thread.
//! let mut exposition = Exposition::default();
//! exposition.add(move |page| expose(&shards, page));
//! first.won.increment();
//! assert!(exposition.text().contains("vickrey_bids_total{fate=\"won\"} 1\n"));
//! ```

mod exposition;
mod format;
mod histogram;
mod process;

#[cfg(test)]
mod tests;

use std::ops::{Deref, Index};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use exposition::{CounterFamily, Exposition, Gauges, Histograms, MetricsPage};
pub use format::ExpositionFormat;
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};

fn add_as_only_writer(cell: &AtomicU64, n: u64) {
    // Not `fetch_add`: with one writer no update is lost, and a plain store locks no bus.
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// A count that only grows. One thread writes it, any may read it; two writers would lose counts.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `n`.
    pub fn add(&self, n: u64) {
        add_as_only_writer(&self.0, n);
    }

    /// The count so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters by index, for example one per variant of an enumeration.
#[derive(Debug)]
pub struct CounterArray<const N: usize>([Counter; N]);

impl<const N: usize> Default for CounterArray<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl<const N: usize> Index<usize> for CounterArray<N> {
    type Output = Counter;

    fn index(&self, number: usize) -> &Counter {
        &self.0[number]
    }
}

/// A level that rises and falls. One thread writes it, any may read it.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Sets the level.
    pub fn set(&self, level: i64) {
        self.0.store(level, Ordering::Relaxed);
    }

    /// Raises the level, or lowers it by a negative `change`.
    pub fn change(&self, change: i64) {
        self.set(self.value().wrapping_add(change));
    }

    /// The level.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Keeps neighbours off its cache lines: two lines, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<M>(M);

impl<M> Padded<M> {
    /// Wraps `metrics`.
    pub fn new(metrics: M) -> Self {
        Self(metrics)
    }
}

impl<M> Deref for Padded<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.0
    }
}

/// Metrics of each shard, which only that shard writes.
#[derive(Debug)]
pub struct PerShard<M>(Vec<Arc<Padded<M>>>);

impl<M: Default> PerShard<M> {
    /// Metrics for `shards` shards, all zero.
    pub fn new(shards: usize) -> Self {
        Self::with(shards, M::default)
    }
}

impl<M> PerShard<M> {
    /// Metrics for `shards` shards, each from `make`: for vectors with one entry per label.
    pub fn with(shards: usize, make: impl Fn() -> M) -> Self {
        Self((0..shards).map(|_| Arc::new(Padded(make()))).collect())
    }

    /// The metrics of one shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard(&self, index: usize) -> Arc<Padded<M>> {
        Arc::clone(&self.0[index])
    }

    /// The metrics of one shard, borrowed.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn of(&self, index: usize) -> &M {
        &self.0[index].0
    }

    /// The metrics of all shards, for the scraper.
    pub fn iter(&self) -> impl Iterator<Item = &M> + Clone {
        self.0.iter().map(|set| &set.0)
    }
}

impl<M> Clone for PerShard<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

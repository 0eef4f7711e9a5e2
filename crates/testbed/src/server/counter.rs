//! Counters that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with a single writer: a plain load and store, without a locked instruction. A reader
/// sees everything written before the count.
#[derive(Debug, Default)]
pub struct SingleWriterCounter(AtomicU64);

impl SingleWriterCounter {
    /// Adds `n`; only the thread that owns the counter may call it.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
    }

    /// Subtracts `n`; only the thread that owns the counter may call it.
    pub fn subtract(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// The count.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A server's counters of connections.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    /// Open now.
    pub open: SingleWriterCounter,
    /// Closed at once because the thread was full.
    pub refused: SingleWriterCounter,
    /// Requests that were not HTTP, not allowed or too large.
    pub malformed: SingleWriterCounter,
}

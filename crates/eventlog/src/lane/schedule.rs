//! The time of a step, and when the next one is due.

use std::time::Duration;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since any moment that stays the same; never goes back.
    pub tick: Duration,
    /// Unix milliseconds, which may.
    pub unix_ms: u64,
}

/// When the next step is due. What is sooner is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// At once.
    Now,
    /// At this tick, or when a shard wakes the thread.
    At(Duration),
    /// When a shard wakes the thread.
    Woken,
}

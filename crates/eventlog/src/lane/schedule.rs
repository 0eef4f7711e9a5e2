//! The time of a step, and when the next one is due.

use std::time::Duration;

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneTime {
    /// Monotonic, from any fixed origin.
    pub tick: Duration,
    /// Unix milliseconds; may go backwards.
    pub unix_ms: u64,
}

/// When the next step is due, soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextStep {
    /// At once.
    Now,
    /// At this tick, or when a shard wakes the thread.
    At(Duration),
    /// When a shard wakes the thread.
    Woken,
}

//! What the service counts.

use runtime::metrics::Counter;

/// Of the look-up thread, which alone writes it.
#[derive(Debug, Default)]
pub(crate) struct LookupCounts {
    /// Queries that began.
    pub queries: Counter,
    /// Those that ended with all that was asked for.
    pub done: Counter,
    /// Those that ended with a part of it.
    pub partial: Counter,
    /// Those that ended with nothing.
    pub failed: Counter,
    pub cancelled: Counter,
    /// Requests to providers.
    pub attempts: Counter,
    /// Those that failed.
    pub failures: Counter,
    /// Calls that the cache answered.
    pub cached: Counter,
    /// Answers that were read from the disk.
    pub loaded: Counter,
    /// Queries that the answer of another one answered.
    pub reused: Counter,
    /// Records of answers to queries.
    pub records: Counter,
    /// Look-ups for the memory that found something.
    pub remembered: Counter,
    /// Those that found that there is nothing, or too much.
    pub remembered_none: Counter,
    /// Those that failed.
    pub refresh_failures: Counter,
    /// Times that all values of a rule were loaded.
    pub loads: Counter,
    /// Times that they could not be.
    pub load_failures: Counter,
}

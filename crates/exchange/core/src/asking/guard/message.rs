//! Messages between shards and governor. Counts are cumulative; the highest `seq` counts.

use std::time::Duration;

/// How often a shard reports and the governor grants.
pub const STEP: Duration = Duration::from_millis(100);

/// From a shard to the governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardReport {
    /// Position of the shard.
    pub shard: usize,
    /// Counts the shard's reports.
    pub seq: u64,
    /// Calls wanted, including refused ones.
    pub attempts: u64,
    /// Tokens used.
    pub consumed: u64,
    /// Tokens returned, or void before use.
    pub returned: u64,
    /// Permits returned.
    pub permits_returned: u64,
    /// Calls under way.
    pub in_use: u32,
    /// Most calls in flight at once since the previous report.
    pub in_use_peak: u32,
    /// Calls refused for lack of a permit.
    pub in_flight_refused: u64,
    /// Counts of the current epoch.
    pub epoch: EpochCounts,
}

/// Counts since the shard learnt of an epoch. A throttling starts an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCounts {
    /// The epoch.
    pub epoch: u32,
    /// Tokens used in it.
    pub consumed: u64,
    /// Tokens of this epoch that were returned.
    pub returned: u64,
    /// Good results of calls that began in it.
    pub good: u64,
    /// Bad results of calls that began in it.
    pub bad: u64,
}

/// From the governor to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallGrant {
    /// Position of the shard.
    pub shard: usize,
    /// Counts the governor's steps.
    pub seq: u64,
    /// Requirements of a call.
    pub mode: GuardMode,
    /// The breaker's epoch.
    pub epoch: u32,
    /// Tokens granted.
    pub tokens: u64,
    /// Number of these tokens that are void, the oldest: they were granted before the throttling.
    pub tokens_void: u64,
    /// Free tokens above this are to be returned.
    pub tokens_keep: u64,
    /// Permits granted. None if calls need none.
    pub permits: Option<u64>,
    /// Permits above this are to be returned once free, and not reused.
    pub permits_keep: u32,
}

/// What a call needs in addition to a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// Nothing.
    Open,
    /// A token.
    Limited,
    /// A token, few of which are granted because the DSP fails.
    Throttled,
    /// No calls are allowed.
    Paused,
}

//! Messages between shards and governor. All counts are cumulative; the message with the highest `seq`
//! counts.

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
    /// Calls wanted, those refused included.
    pub attempts: u64,
    /// Tokens used.
    pub consumed: u64,
    /// Tokens given back, or void before they were used.
    pub returned: u64,
    /// Permits given back.
    pub permits_returned: u64,
    /// Calls under way.
    pub in_use: u32,
    /// Most calls under way at once since the report before.
    pub in_use_peak: u32,
    /// Calls refused for want of a permit.
    pub in_flight_refused: u64,
    /// What counts in this epoch alone.
    pub epoch: EpochCounts,
}

/// Counts since the shard learnt of an epoch. An epoch separates calls made before a throttling from
/// those made during it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochCounts {
    /// The epoch.
    pub epoch: u32,
    /// Tokens used in it.
    pub consumed: u64,
    /// Tokens of this epoch that were given back.
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
    /// What calls need.
    pub mode: GuardMode,
    /// The breaker's epoch.
    pub epoch: u32,
    /// Tokens granted.
    pub tokens: u64,
    /// Of those, the first so many are void: they were granted before the throttling.
    pub tokens_void: u64,
    /// Free tokens beyond these are to be given back.
    pub tokens_keep: u64,
    /// Permits granted; `None`: calls need none.
    pub permits: Option<u64>,
    /// Permits beyond these are to be given back as they become free, and not used again.
    pub permits_keep: u32,
}

/// What a call needs besides a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// Nothing.
    Open,
    /// A token.
    Limited,
    /// A token, of which there are few because the DSP fails.
    Throttled,
    /// No calls are allowed.
    Paused,
}

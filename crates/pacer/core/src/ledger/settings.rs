//! The ledger's periods, spans and bounds.

use std::time::Duration;

use crate::messages::{CampaignIndex, Epoch};
use crate::store::BATCH_LEASES_MAX;

/// A lease period has this many parts; campaigns spread over them by number.
const PARTS: u64 = 1024;

/// The settings of a ledger.
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// The node that leases.
    pub node: u32,
    /// This start of the process; larger than all before.
    pub epoch: Epoch,
    /// Number of shards, at least one; they count from 0.
    pub shards: u16,
    /// Nodes that share the budgets, at least one. A lease is at most a quarter of a node's share.
    pub nodes: u16,
    /// Minimum time between two batches.
    pub lease_period: Duration,
    /// How long a lease lasts at the observed rate.
    pub lease_span: Duration,
    /// How long before an hour ends the next one's budget is leased and granted, plus up to a lease
    /// period: see [`LedgerSettings::ahead_of`]. With zero each hour begins without budget.
    pub ahead: Duration,
    /// How long a slice lasts at the observed rate.
    pub slice_span: Duration,
    /// Maximum lifetime of a token (a shard's longest time to live and a sixteenth) plus the delay
    /// of a win through the log: what comes later may have been leased again.
    pub horizon: Duration,
    /// How long after that a shard still distinguishes a late win from a repeated one.
    pub late_window: Duration,
    /// Whether settlements say which wins came late. An exchange that writes its record before it
    /// asks the shard does not know: then a win is settled in full.
    pub is_lateness_recorded: bool,
    /// How long an ended hour keeps its row in the store: at least as long as a clock may go back.
    pub hours_kept: Duration,
    /// How long budget may lie unused at a shard while others need it.
    pub patience: Duration,
    /// Maximum number of due campaigns that one step looks at; later steps look at the rest.
    pub wakes_max: usize,
    /// Maximum number of leases in a batch; later batches contain the rest.
    pub leases_max: usize,
}

impl LedgerSettings {
    /// Leases every second for two seconds; slices of a tenth of a second.
    pub fn new(node: u32, epoch: Epoch, shards: u16) -> Self {
        let lease_period = Duration::from_secs(1);
        Self {
            node,
            epoch,
            shards,
            nodes: 1,
            lease_period,
            lease_span: Duration::from_secs(2),
            ahead: Self::ahead_of(lease_period),
            slice_span: Duration::from_millis(100),
            horizon: Duration::from_secs(15 * 60),
            late_window: Duration::from_secs(60 * 60),
            is_lateness_recorded: true,
            hours_kept: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(5),
            wakes_max: 4096,
            leases_max: BATCH_LEASES_MAX,
        }
    }
}

impl LedgerSettings {
    /// How long before an hour ends the next one's budget is leased, at this lease period: time for
    /// a batch that must wait, its successor, and the messages.
    pub fn ahead_of(lease_period: Duration) -> Duration {
        (lease_period * 5 / 2).max(Duration::from_secs(3))
    }

    /// How long before its hour a campaign leases, spread over campaigns.
    pub(super) fn ahead_ms(&self, slot: CampaignIndex) -> u64 {
        let lease_period = in_ms(self.lease_period);
        in_ms(self.ahead) + lease_period * (u64::from(slot.0) % PARTS) / PARTS
    }

    pub(super) fn ahead_ms_max(&self) -> u64 {
        in_ms(self.ahead) + in_ms(self.lease_period)
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

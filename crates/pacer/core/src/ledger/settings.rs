//! How a ledger works: its periods, spans and bounds.

use std::time::Duration;

use crate::messages::{CampaignIndex, Epoch};
use crate::store::BATCH_LEASES_MAX;

/// Campaigns by their numbers are looked at in so many parts of a lease period.
const PARTS: u64 = 1024;

/// How a ledger works.
#[derive(Clone, Debug)]
pub struct LedgerSettings {
    /// Whose leases it makes.
    pub node: u32,
    /// Which start of the process this is; larger than any before.
    pub epoch: Epoch,
    /// Shards are numbered from 0; at least one.
    pub shards: u16,
    /// Nodes that share the budgets: no lease takes more than a quarter of a node's part of what
    /// remains. At least one.
    pub nodes: u16,
    /// The least time between two batches.
    pub lease_period: Duration,
    /// For how long a lease lasts at the observed rate.
    pub lease_span: Duration,
    /// How long before an hour ends the next one's rights are leased and granted, up to a lease period
    /// more: see [`LedgerSettings::ahead_of`]. With none each hour begins without rights.
    pub ahead: Duration,
    /// For how long a slice lasts at the observed rate.
    pub slice_span: Duration,
    /// The longest that a token lives (a shard's longest time to live and a sixteenth), and beside it
    /// what a win takes to come here by the log: what comes later may have been leased again.
    pub horizon: Duration,
    /// How long after that a shard still tells a late win from a repeated one.
    pub late_window: Duration,
    /// Whether settlements say which wins came late. An exchange that writes its record before it asks
    /// the shard does not know: then all of a win is told as settled.
    pub is_late_told: bool,
    /// How long after its end an hour keeps its row in the store, once nothing can change it: for whoever
    /// looks at hours, and at least as long as a clock may be put back at a start.
    pub hours_kept: Duration,
    /// For how long rights may lie at a shard that makes no use of them, where others need them.
    pub patience: Duration,
    /// Campaigns whose time has come that one step looks at; the next ones look at the rest.
    pub wakes_max: usize,
    /// The most leases of a batch; the next one says the rest.
    pub leases_max: usize,
}

impl LedgerSettings {
    /// Leases by the second, two seconds' worth; slices of a tenth of a second.
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
            is_late_told: true,
            hours_kept: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(5),
            wakes_max: 4096,
            leases_max: BATCH_LEASES_MAX,
        }
    }
}

impl LedgerSettings {
    /// How long before an hour ends the next one's rights are leased, where batches come so often:
    /// time for one that must wait, its successor, and the messages.
    pub fn ahead_of(lease_period: Duration) -> Duration {
        (lease_period * 5 / 2).max(Duration::from_secs(3))
    }

    /// When a campaign is looked at for the next hour: not all of them at once.
    pub(super) fn ahead_ms(&self, slot: CampaignIndex) -> u64 {
        let lease_period = in_ms(self.lease_period);
        in_ms(self.ahead) + lease_period * (u64::from(slot.0) % PARTS) / PARTS
    }

    /// When the first campaign is.
    pub(super) fn ahead_ms_max(&self) -> u64 {
        in_ms(self.ahead) + in_ms(self.lease_period)
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

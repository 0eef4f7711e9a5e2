//! Messages between the ledger and its shards, and the identifiers in them.
//!
//! All amounts are **cumulative** per period: of two messages the later has the larger figures, so
//! repeated, late or reordered messages change nothing. Grants are for one period and return to it.

use units::{Nanos, Tick};

use crate::calendar::Period;
use crate::refusal::SpendRefusal;
use crate::strategy::BidPace;

/// A campaign (or a DSP's seat) as the ledger numbers it: from 0, never reused in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CampaignIndex(pub u32);

pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).expect("addresses have 32 bits at least")
}

/// A start of the ledger's process; grows with each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// From the ledger to a shard: budget to spend. Durable before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetGrant {
    /// The campaign.
    pub slot: CampaignIndex,
    /// When it may be reserved. Settling may follow later.
    pub period: Period,
    /// Total granted to this shard in this period and epoch.
    pub granted: Nanos,
    /// End of the period: reserving stops, and the remainder is returned.
    pub until: Tick,
}

/// From the ledger to a shard: whether a campaign may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendingGate {
    /// The campaign.
    pub slot: CampaignIndex,
    /// Grows with every change; the larger wins.
    pub version: u64,
    /// Why nothing may be reserved. None if it may be. Reservations settle in either case.
    pub closed: Option<SpendRefusal>,
    /// Whether the shard must return all unreserved budget, because another shard spends the last.
    pub is_recalled: bool,
}

/// From a shard to the ledger: how it used its grants of one period, cumulative in this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendReport {
    /// The campaign.
    pub slot: CampaignIndex,
    /// The period of the grants.
    pub period: Period,
    /// Returned: never reserved, released, expired, or left over by a lower price.
    pub returned: Nanos,
    /// Settled from reservations: at most what was reserved.
    pub settled: Nanos,
    /// Settled after the reservation had expired.
    pub late: Nanos,
    /// Settled above the reservation.
    pub over: Nanos,
    /// Total reserved, however it ended.
    pub reserved: Nanos,
    /// Number of reservations.
    pub reserved_count: u64,
    /// Number of wins, late ones included.
    pub won_count: u64,
}

/// From an ending shard to the ledger: how much it took of one period. The rest is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The campaign.
    pub slot: CampaignIndex,
    /// The period of the grants.
    pub period: Period,
    /// Total taken.
    pub granted: Nanos,
}

/// From a shard to the ledger: its budget runs low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillRequest {
    /// The campaign.
    pub slot: CampaignIndex,
    /// Amount it needs: at least the refused reservation.
    pub amount: Nanos,
    /// The largest reservation since the last request that would still be refused. Zero if none.
    pub refused: Nanos,
}

/// From a shard to the ledger's thread: a campaign's requests, cumulative in this epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that its targeting matched.
    pub requests: u64,
    /// Requests that it bid for.
    pub bids: u64,
}

/// From the ledger's thread to a shard. A campaign's grants, gates and paces arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToShard {
    /// Budget to spend.
    Grant(BudgetGrant),
    /// Whether a campaign may spend.
    Gate(SpendingGate),
    /// How a campaign bids until the next pace.
    Pace(CampaignIndex, BidPace),
}

/// From a shard to the ledger's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromShard {
    /// How it used its grants. None may be lost.
    Report(SpendReport),
    /// Its budget runs low.
    Refill(RefillRequest),
    /// A campaign's requests.
    Seen(CampaignIndex, RequestCounts),
    /// How much it has taken, once it takes no more. Follows the last reports; one for each period.
    Receipt(Receipt),
    /// It has ended and sent everything.
    Closed,
}

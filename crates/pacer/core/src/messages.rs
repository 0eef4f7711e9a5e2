//! What the ledger and its shards tell each other, and what identifies things between them.
//!
//! Everything about money is **cumulative** and per period: the latest of any two is the larger, so
//! that what comes twice, late or out of order changes nothing. Rights are granted for one period and
//! come back to it.

use units::{Nanos, Tick};

use crate::calendar::Period;
use crate::refusal::SpendRefusal;
use crate::strategy::BidPace;

/// A campaign (or a DSP's seat), as the ledger numbers it: dense, from 0, and never given to another
/// within an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CampaignIndex(pub u32);

/// A number as an index.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).expect("addresses have 32 bits at least")
}

/// A start of the ledger's process: grows with every one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// From the ledger to a shard: rights to spend. Durable before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetGrant {
    /// Whose.
    pub slot: CampaignIndex,
    /// When they may be reserved; what is reserved then may be settled later.
    pub period: Period,
    /// All that this shard has been granted of this period in this epoch.
    pub granted: Nanos,
    /// Nothing may be reserved from here on: the period is over. What is left goes back.
    pub until: Tick,
}

/// From the ledger to a shard: what is to be answered besides money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendingGate {
    /// Whose.
    pub slot: CampaignIndex,
    /// Grows with every change; the larger wins.
    pub version: u64,
    /// Why nothing may be reserved, if so; what is reserved is settled all the same.
    pub closed: Option<SpendRefusal>,
    /// Whether the shard is to send back all that it has not reserved: another one spends the last.
    pub is_recalled: bool,
}

/// From a shard to the ledger: what became of its grants of one period. All cumulative, in this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendReport {
    /// Whose.
    pub slot: CampaignIndex,
    /// Which grants.
    pub period: Period,
    /// Sent back: never reserved, released, expired, or left over by a lower price.
    pub returned: Nanos,
    /// Settled out of reservations, at most what was reserved.
    pub settled: Nanos,
    /// Settled after the reservation had expired.
    pub late: Nanos,
    /// Settled above what was reserved.
    pub over: Nanos,
    /// All that was ever reserved, whatever became of it.
    pub reserved: Nanos,
    /// How many reservations that was.
    pub reserved_count: u64,
    /// How many were won, late ones included.
    pub won_count: u64,
}

/// From a shard to the ledger, when it ends: how much it has taken of one period. What it was granted
/// beyond that never came to it, and is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Whose.
    pub slot: CampaignIndex,
    /// Which grants.
    pub period: Period,
    /// All that it ever took of them.
    pub granted: Nanos,
}

/// From a shard to the ledger: it may soon have too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillRequest {
    /// Whose.
    pub slot: CampaignIndex,
    /// What it needs to go on: at least what was refused.
    pub amount: Nanos,
    /// The largest reservation that was refused since it told last, if one was and still would be: less
    /// than that does not help.
    pub refused: Nanos,
}

/// From a shard to the ledger's thread: how many requests a campaign came to here. Cumulative, in this
/// epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that its targeting matched.
    pub requests: u64,
    /// Of these, how many it bid for.
    pub bids: u64,
}

/// What the ledger's thread tells a shard. Grants, gates and paces of a campaign come in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToShard {
    /// Rights to spend.
    Grant(BudgetGrant),
    /// What is to be answered besides money.
    Gate(SpendingGate),
    /// How a campaign bids until the next is told.
    Pace(CampaignIndex, BidPace),
}

/// What a shard tells the ledger's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromShard {
    /// What became of its grants. None may be lost.
    Report(SpendReport),
    /// It may soon have too little.
    Want(RefillRequest),
    /// How many requests a campaign came to.
    Seen(CampaignIndex, RequestCounts),
    /// How much it has taken, once it takes no more: behind its last reports, all periods that it keeps.
    Receipt(Receipt),
    /// It has ended, and has said all.
    Closed,
}

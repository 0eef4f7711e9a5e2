//! Planted bugs that the observer must catch: those in the cores, behind the cores' own switches,
//! and those in the code that connects them.

use pacer_core::{ledger, shard, store};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetBug {
    /// In a shard or its tokens.
    Shard(shard::bug::ShardBug),
    /// In the ledger.
    Ledger(ledger::LedgerBug),
    /// In the store.
    Store(store::StoreBug),
    /// In the code that connects them.
    Wiring(Wiring),
}

/// A bug in the code that connects the cores: log, rings, forwarding, start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Acknowledges a win before its record is durable.
    AcknowledgeBeforeSync,
    /// Settles a win before its record is durable.
    SettleBeforeSync,
    /// Does not check whether the log already has a win of a dead epoch.
    RepeatDeadWins,
    /// Does not record a win of a dead epoch, because no shard knows it.
    ForgetDeadWins,
    /// Does not record the amount above the reserved price.
    ForgetOver,
    /// Books a win to the hour of its arrival.
    BookToNow,
    /// Tells the ledger too early that the replay of the log is complete.
    ReplayedEarly,
    /// Skips the records that were durable at the start.
    SkipReplay,
    /// Drops the ledger's messages to a shard when the ring is full.
    DropWhenFull,
    /// Drops a shard's reports when the ring is full.
    DropReports,
    /// Treats the shard where a forwarded token landed as its owner.
    ForwardNowhere,
    /// Drops the claim of a lost record.
    DropClaim,
}

impl Wiring {
    /// Every wiring bug.
    pub const ALL: [Self; 12] = [
        Self::AcknowledgeBeforeSync,
        Self::SettleBeforeSync,
        Self::RepeatDeadWins,
        Self::ForgetDeadWins,
        Self::ForgetOver,
        Self::BookToNow,
        Self::ReplayedEarly,
        Self::SkipReplay,
        Self::DropWhenFull,
        Self::DropReports,
        Self::ForwardNowhere,
        Self::DropClaim,
    ];
}

//! Mistakes that are planted to see that they would be found: those of the cores, behind their own
//! switches, and those of whoever puts the cores together.

use pacer_core::{ledger, shard, store};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetBug {
    /// Of a shard, or of its tokens.
    Shard(shard::bug::ShardBug),
    /// Of the ledger.
    Ledger(ledger::LedgerBug),
    /// Of the store.
    Store(store::StoreBug),
    /// Of what stands between them.
    Wiring(Wiring),
}

/// A mistake in what stands between cores: the log, the rings, forwarding, starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Acknowledging a win before its record is durable.
    AcknowledgeBeforeSync,
    /// Settling a win before its record is durable.
    SettleBeforeSync,
    /// Not looking whether a win of a dead epoch is in the log already.
    RepeatDeadWins,
    /// Not writing a win of a dead epoch at all, since no shard knows it.
    ForgetDeadWins,
    /// Not writing what is above the reserved price.
    ForgetOver,
    /// Booking a win to the hour in which it comes.
    BookToNow,
    /// Telling the ledger that the log is replayed before it is.
    ReplayedEarly,
    /// Beginning to replay the log behind what it had when the process started.
    SkipReplay,
    /// Dropping what the ledger sends when a ring is full.
    DropWhenFull,
    /// Dropping what a shard reports when a ring is full.
    DropReports,
    /// Settling a forwarded token at the shard where it landed.
    ForwardNowhere,
    /// Dropping the claim of a record that the log has lost.
    DropClaim,
}

impl Wiring {
    /// All there are.
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

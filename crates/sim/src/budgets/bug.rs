//! Planted bugs that the observer must catch, behind the cores' own switches.

use pacer_core::{ledger, shard};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetBug {
    /// In a shard or its tokens.
    Shard(shard::bug::ShardBug),
    /// In the ledger.
    Ledger(ledger::LedgerBug),
}

//! Judging: the fate of each bid before the auction clears, and the cost of wins to accounts.

pub(crate) mod judge;
pub(crate) mod win_cost;

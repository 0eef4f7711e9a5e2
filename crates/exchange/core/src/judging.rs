//! Judging: the fate of each bid before the auction clears, and what a winner's account must hold.

pub(crate) mod judge;
pub(crate) mod win_cost;

//! The ledger beside plain shards and a plain store.

mod ahead;
mod bugs;
mod closing;
mod folding;
mod hardships;
mod lives;
mod plain;
mod refusals;
mod scale;
mod simulation;
mod standing;
mod tables;

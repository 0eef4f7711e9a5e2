//! The ledger with naive shards and a naive store.

mod ahead;
mod closing;
mod epoch_lifetimes;
mod folding;
mod hardships;
mod holds;
mod plain;
mod refusals;
mod scale;
mod simulation;
mod standing;
mod tables;

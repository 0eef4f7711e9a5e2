//! The ledger beside plain shards and a plain store.

mod bugs;
mod plain;
mod refusals;
mod scale;
mod simulation;
mod tables;

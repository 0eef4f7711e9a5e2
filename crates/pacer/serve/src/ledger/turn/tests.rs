//! The ledger's thread with a real store, real rings, and shards that spend.

mod failing;
pub(crate) mod fake;
mod holds;
mod killed;
mod live;
mod restart;
mod states;
mod told;

//! Limits of accounts and campaigns, and their use.
//!
//! Owns definitions, the sums of exposure, and headroom. Knows no lease, shard or store.

pub(super) mod definition;
pub(super) mod level;
pub(super) mod tally;

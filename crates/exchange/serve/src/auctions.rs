//! One auction on a shard, from its request to its answer.

pub(crate) mod abandonment;
pub(crate) mod auction;
pub(crate) mod calls;
pub(crate) mod closing;
mod enrich;
pub mod explain;
pub(crate) mod record;
pub(crate) mod reservations;
pub(crate) mod trace;

//! The exchange's parts: one per process, and one per shard.

pub mod api;
pub(crate) mod dns;
pub(crate) mod generation;
pub(crate) mod service;
pub(crate) mod shard;

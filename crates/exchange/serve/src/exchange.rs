//! What an exchange has once in a process, and once on each shard.

pub mod api;
pub(crate) mod dns;
pub(crate) mod generation;
pub(crate) mod guards;
pub(crate) mod service;
pub(crate) mod shard;

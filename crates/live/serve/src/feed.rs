//! The feed as it is made from the log: records are read, turned into messages, and selected for
//! those who subscribe.

/// Identifies a reader of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReaderId(pub u64);

pub(crate) mod auction;
pub(crate) mod message;
pub(crate) mod place;
pub(crate) mod publisher;
pub(crate) mod replay;
pub(crate) mod selection;
pub(crate) mod source;

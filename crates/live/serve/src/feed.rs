//! The feed as it is made from the log: records are read, turned into messages, and selected for
//! those who subscribe.

pub(crate) mod auction;
pub(crate) mod message;
pub(crate) mod place;
pub(crate) mod publisher;
pub(crate) mod replay;
pub(crate) mod selection;
pub(crate) mod source;

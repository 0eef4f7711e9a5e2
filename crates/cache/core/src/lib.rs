//! The rules of a shared HTTP cache (RFC 9111), as functions of messages' heads and of times.
//!
//! Must not know sockets, clocks or threads: heads and times are arguments.

pub mod cache_status;
pub mod control;
pub mod dates;
pub mod forwarding;
pub mod freshness;
pub mod invalidation;
pub mod key;
pub mod ranges;
pub mod reuse;
pub mod storing;
pub mod validation;
pub mod vary;

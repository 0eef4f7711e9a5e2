//! The rules of a shared HTTP cache (RFC 9111), as functions of messages' heads and of times.
//!
//! Must not know sockets, clocks or threads: heads and times are arguments.

pub mod cache_status;
pub mod fields;
pub mod key;
pub mod origin_health;
pub mod puts;
pub mod rules;
pub mod store;

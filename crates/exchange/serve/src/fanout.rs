//! Asks many DSPs at once over kept-alive HTTP/1.1 connections, until a deadline.
//!
//! One shard is one thread, so pools, connections and inboxes are plain cells. An auction writes to
//! each DSP from its own task. The reactor reads answers and delivers them to the auction's inbox,
//! which wakes the auction when all have answered or time is up. Later answers are read and
//! dropped, so that they reach no other auction.

pub mod answer;
mod body;
mod connection;
mod endpoint;
mod handshakes;
mod inbox;
pub mod inflate;
mod pool;
mod reactor;
mod round;
mod standing;
mod tls;
mod transport;

pub use endpoint::{Addresses, Endpoint, EndpointOptions};
pub use inbox::Outcomes;
pub use pool::{DspPool, PoolLimits};
pub use reactor::Reactor;
pub use round::{Question, ask_all};
pub use standing::Backoff;
pub use tls::{Authorities, TlsOptions};

#[cfg(test)]
mod tests;

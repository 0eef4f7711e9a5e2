//! Asks many DSPs at once over kept-alive connections, HTTP/1.1 or HTTP/2, until a deadline.
//!
//! One shard is one thread, so pools, connections and inboxes are plain cells. An auction writes to
//! each DSP from its own task. The reactor reads answers and delivers them to the auction's inbox,
//! which wakes the auction when all have answered or time is up. Later answers are read and
//! dropped, so that they reach no other auction.

pub mod answer;
pub(crate) mod connection;
mod endpoint;
mod health;
mod inbox;
pub mod inflate;
mod peer;
mod pool;
mod round;
pub(crate) mod sockets;

pub use endpoint::{Addresses, Endpoint, EndpointOptions};
pub use health::Backoff;
pub use inbox::Outcomes;
pub use peer::PoolLimits;
pub use pool::{DspPool, DspReactor};
pub use round::ask_all;
pub use round::request::DspRequest;
pub use sockets::tls::{HttpVersions, TlsOptions};

#[cfg(test)]
mod tests;

//! Asks many DSPs at once over kept-alive HTTP/1.1 connections, until a deadline.
//!
//! One shard, one thread: pools, connections and inboxes are plain cells. An auction writes to
//! each DSP from its own task; the reactor reads from whichever connection has an answer and
//! delivers into the auction's inbox; the auction wakes when all have answered or the time is up.
//! What comes later is read to its end and dropped, so that it can reach no other auction.

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

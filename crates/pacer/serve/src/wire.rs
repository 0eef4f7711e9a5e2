//! The pacer on the wire: bidders ask over TCP which of their campaigns may spend, and report what
//! they won (`docs/pacer-protocol.md`).
//!
//! Owns connections, the catalogue that clients see, and wins until they are durable. `pacer_core`
//! decides what may be spent; `pacer_wire` defines frames.
//!
//! Each shard has budgets of its own, and answers its connections from them. A token is settled at
//! the shard that made it, whichever connection brings it.

mod bidders;
mod campaigns;
mod changes;
mod classes;
mod client_port;
mod config;
mod connection;
mod counters;
mod replay;
mod service;
mod settlements;
mod shard;

pub use config::{BidderConfig, FrameLimits, PacerConfig};
pub use replay::{SETTLEMENT_LOG, SettlementLog, SettlementReplayError};
pub use service::{PacerService, PacerStartError};

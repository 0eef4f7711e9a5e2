//! The live floor on the wire: the feed of the log over WebSocket and server-sent events, and
//! publishing.
//!
//! Owns the service `[live]`: its listener, what each shard keeps for subscribers, the thread that
//! broadcasts the log and the one that reads it again for those who resume. Must not know how
//! auctions are cleared. What a subscriber gets is decided in `live-core`.
//!
//! Its modules are layers, each of which imports only those to its left: `config`, `counters`,
//! `access`, `feed`, `lots`, `shard`, `clients`, `http`,
//! `exposition`, `service`.

mod access;
mod clients;
mod config;
mod counters;
mod exposition;
mod feed;
mod http;
mod lots;
mod service;
mod shard;
#[cfg(feature = "testing")]
pub mod testing;

pub use access::sign_token;
pub use config::{ClientLimits, LiveConfig, LotsConfig, SigningKey};
pub use http::{EVENTS_PATH, FEED_PATH, PUBLISH_PATH};
pub use live_core::rights::LiveClaims;
pub use lots::{HOLDS, SOLD_LOTS};
pub use service::{FeedFigures, Live};

//! The HTTP cache on the wire: the service `[cache]`, its routes to origins, and fetches that several
//! clients share.
//!
//! What may be stored and what answers a request is decided in `cache-core`.
//!
//! Its modules are layers, each of which imports only those to its left: `config`, `counters`,
//! `origin`, `fill`, `answers`, `shard`, `fetch`, `routed`, `exchange`,
//! `proxy`, `exposition`, `service`.

mod answers;
mod config;
mod counters;
mod exchange;
mod exposition;
mod fetch;
mod fill;
mod origin;
mod proxy;
mod routed;
mod service;
mod shard;

pub use config::{CacheConfig, CacheRoute};
pub use service::{Cache, CacheFigures};
pub use shard::store::PurgeError;
pub use shard::values::{CACHE_VALUES, ValueStore};

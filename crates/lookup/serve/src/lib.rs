//! Look-ups on the wire: the service `[lookup]`, its calls to providers, and answers for clients that
//! wait or poll.
//!
//! Which calls a query needs, in which order they are made, and how their records become one answer is
//! decided in `lookup-core`.
//!
//! Its modules are layers, each of which imports only those to its left: `config`, `counters`, `maps`,
//! `calls`, `queries`, `memory`, `thread`, `http`, `exposition`, `service`.

mod calls;
mod config;
mod counters;
mod exposition;
mod http;
pub mod maps;
mod memory;
mod queries;
mod service;
mod thread;

pub use config::{LookupConfig, LookupLimits, ProviderCallLimits};
pub use memory::{
    FieldValues, LOOKUP_MEMORIES, LookupMemories, LookupMemory, MemoryLoad, MemoryRule,
    NotRemembered, RememberedValue,
};
pub use service::{Lookup, MapProblems, check_maps};

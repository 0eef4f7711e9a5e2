//! The common base of all services: configuration and its reload, shards and their acceptor,
//! shutdown, metrics, traces, the admin listener and logging.
//!
//! It must not know any service: no auction, no DSP, no budget. A service passes in closures and
//! names its own keys and metrics.

pub mod admin;
pub mod builder;
pub mod config;
pub mod control;
pub mod listen;
pub mod logging;
pub mod metrics;
pub mod process;
pub mod service;
pub mod shards;
pub mod shutdown;
pub mod traces;

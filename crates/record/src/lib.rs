//! The record of a node as a service: the log's two lanes, which other services write.
//!
//! Owns the configuration `[record]`, the log's thread, its metrics and what operators read about
//! it. Must not know what a record of another service means.

mod config;
mod exposition;
mod log;
mod report;
mod service;

pub use config::{LaneConfig, RecordConfig};
pub use log::RecordError;
pub use service::{RECORD, Record, RecordService};

//! Puts load on a live floor: subscribers that read, stall, dawdle or reconnect at random, and
//! publishers at a constant rate whose messages say when they were due. One thread.
//!
//! Speaks WebSocket by itself, and finds what it needs in messages without parsing them, so that the
//! server stays the bottleneck.

mod counts;
mod frames;
pub mod lots;
mod options;
mod publisher;
mod report;
mod run;
mod server_process;
mod subscriber;

pub use options::{LiveLoadError, LiveLoadOptions};
pub use report::{LiveLoadReport, ServerFigures};
pub use run::{LiveLoadProgress, run};

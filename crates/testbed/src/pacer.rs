//! Puts load on a pacer over its wire protocol: batches of bid requests, several in flight on each
//! connection, and settlements of what they win. One thread, one poll.
//!
//! Its frames are those of `pacer-wire`; the clients in other languages are independent of that.

mod client;
mod options;
mod report;
mod requests;
mod run;

pub use options::{PacerLoadError, PacerLoadOptions};
pub use report::{PacerLoadCounts, PacerLoadReport};
pub use run::{PacerLoadProgress, run};

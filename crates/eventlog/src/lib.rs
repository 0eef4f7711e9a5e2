//! A durable segmented log: framed records, group commit, recovery.
//!
//! Owns what stands in the files, what is durable when, and what is found again after a crash.
//! Knows nothing of what a record means, who waits for it, or when to commit: the thread that
//! owns a [`Writer`] appends what came in, commits once, and answers all at once.
//!
//! **What holds:** a record whose [`Writer::commit`] returned is found by every later start, with
//! its sequence and its bytes, until [`Writer::remove_before`] takes it away; sequences have no
//! holes; what is found was appended. Where the medium itself lost something, the place is told.
//!
//! A record is named by its sequence among the durable ones, and by epoch and sequence among all
//! that were ever tried: a new epoch begins at each start and after each failed commit.

mod bug;
pub mod disk;
mod reader;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Corruption, Item, Problem, ReadError, Reader, Record, Torn};
pub use segment::{
    FORMAT_VERSION, FRAME_BYTES, Found, Frame, HEADER_BYTES, Identity, PAYLOAD_BYTES_MAX,
    SEGMENT_BYTES_LIMIT, Scan, encode_frame, encode_header,
};
pub use writer::{AppendError, CommitError, OpenError, Options, Recovery, Writer};

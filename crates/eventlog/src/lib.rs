//! A durable segmented log: framed records, group commit, recovery.
//!
//! Owns what stands in the files, what is durable when, and what is found again after a crash.
//! Knows nothing of what a record means. A [`Writer`] knows neither who waits for a record nor when
//! to commit: whoever owns it appends what came in, commits once, and answers all at once. The
//! [`lane`]s do so for many threads that must not wait.
//!
//! **What holds:** a record whose [`Writer::commit`] returned is found by every later start, with
//! its sequence and its bytes, until [`Writer::remove_before`] or [`Writer::retain`] takes it away;
//! sequences have no holes; what is found was appended. Where the medium itself lost something,
//! the place is told.
//!
//! [`Writer::open_at_end`] starts by the newest segment alone, [`Reader::seek`] by an index beside each
//! sealed one, on which nothing else depends.
//!
//! A record is named by its sequence among a node's durable ones, and by node, epoch and sequence
//! among all that were ever tried: a new epoch begins at each start, after each failed commit, and
//! wherever a segment without records is given up.

mod bug;
mod chain;
pub mod disk;
mod end;
mod index;
mod item;
pub mod lane;
mod reader;
mod scan;
mod segment;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use chain::{ChainHash, ChainHashError, ChainPoint, HASH_BYTES, SegmentHasher};
pub use end::{END_BYTES, END_NAME, END_VERSION, EndFile, LogEnd};
pub use index::{Entry, INDEX_BYTES_MAX, INDEX_ENTRIES_MAX, INDEX_VERSION, Index};
pub use item::{Corruption, Item, Problem, ReadError, Record, Torn};
pub use reader::{Reader, begins, newest, segments};
pub use scan::{Found, Scan, Step, Window};
#[cfg(any(test, feature = "testing"))]
pub use segment::encode_unlinked_header;
pub use segment::{
    FORMAT_VERSION, FRAME_BYTES, Frame, HEADER_BYTES, Identity, PAYLOAD_BYTES_MAX,
    SEGMENT_BYTES_LIMIT, SEGMENT_RECORDS_MAX, SEQUENCE_MAX, SegmentHeader, aligned, encode_frame,
    encode_header, frames_at,
};
pub use source::WINDOW_BYTES;
pub use writer::{
    AppendError, CLOCK_STEP_MAX_MS, CommitError, FoundEnd, OpenError, Options, Recovery, Removed,
    RetainError, Writer,
};

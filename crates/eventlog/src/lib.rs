//! A durable segmented log: framed records, group commit, recovery.
//!
//! Owns what the files contain, what is durable when, and what a start finds after a crash. Knows
//! nothing of what a record means. A [`LogWriter`] neither waits nor decides when to commit: its
//! owner appends what arrived, commits once, and answers everyone at once. The [`lane`]s do this
//! for many threads that must not wait.
//!
//! **Invariant:** a record whose [`LogWriter::commit`] returned is found by every later start, with
//! its sequence and bytes, until [`LogWriter::remove_before`] or [`LogWriter::retain`] removes it;
//! sequences have no holes; nothing is found that was not appended. Loss of durable data is
//! reported with its place.
//!
//! [`LogWriter::open_at_end`] reads the newest segment only; [`LogReader::seek`] uses an index
//! beside each sealed one, on which nothing else depends.
//!
//! A durable record is identified by node and sequence, an attempted one by node, epoch and
//! sequence: a new epoch begins at each start, after each failed commit, and when a segment without
//! records is abandoned.

mod chain;
pub mod disk;
mod end;
mod index;
mod interleaving;
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
pub use index::{INDEX_BYTES_MAX, INDEX_ENTRIES_MAX, INDEX_VERSION, IndexEntry, SegmentIndex};
pub use item::{Corruption, CorruptionKind, LogEntry, LogReadError, LogRecord, TornTail};
pub use reader::{LogReader, begins, begins_since, newest, segments};
pub use scan::{FrameScan, ScanItem, ScanStep, ScanWindow};
#[cfg(any(test, feature = "testing"))]
pub use segment::encode_unlinked_header;
pub use segment::{
    FORMAT_VERSION, FRAME_BYTES, FrameFields, HEADER_BYTES, LogFrame, PAYLOAD_BYTES_MAX,
    SEGMENT_BYTES_LIMIT, SEGMENT_RECORDS_MAX, SEQUENCE_MAX, SegmentHeader, SegmentId, aligned,
    encode_frame, encode_header, frames_at,
};
pub use source::WINDOW_BYTES;
pub use writer::{
    AppendError, CLOCK_STEP_MAX_MS, CommitError, LogOpenError, LogWriter, RecoveredEnd, Recovery,
    RemovedSegments, RetainError, WriterOptions,
};

//! What a reader of the log yields: records, damage and its place, and why reading ended early.

use std::io;

use crate::segment;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The writer's epoch in which it was appended.
    pub epoch: u64,
    /// Its number: one more than that of the previous record.
    pub sequence: u64,
    /// Unix milliseconds, given by the caller. Clocks go backwards; sequences do not.
    pub time_ms: u64,
    /// Kind, given by the caller.
    pub kind: u8,
    /// Payload, given by the caller.
    pub payload: Vec<u8>,
}

/// What is wrong with some bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum CorruptionKind {
    /// The segment's header is damaged; its records are read all the same.
    #[error("the header is damaged")]
    Header,
    /// A segment of another node's log. It is ignored.
    #[error("this is a segment of node {node}")]
    OtherNode { node: u32 },
    /// Bytes that are not a record.
    #[error("no record stands here")]
    Garbage,
    /// A record with a damaged payload.
    #[error("the payload of record {sequence} is damaged")]
    Payload { sequence: u64 },
    /// Durable records that were not found.
    #[error("{}", missing(*from, *through))]
    Missing { from: u64, through: u64 },
    /// A record that was already read, in a segment that does not belong here.
    #[error("record {sequence} stands here once more")]
    Repeated { sequence: u64 },
}

fn missing(from: u64, through: u64) -> String {
    // After a lost segment a writer skips this many sequences.
    if through - from + 1 >= segment::SEGMENT_RECORDS_MAX {
        format!(
            "whole segments are missing: records from {from} on, at most those through {through}"
        )
    } else {
        format!("records {from} to {through} are missing")
    }
}

/// Durable bytes that were lost or changed, or a file that is not part of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{segment}, byte {offset}: {problem} ({bytes} bytes)")]
pub struct Corruption {
    /// File name.
    pub segment: String,
    /// Offset of the damage.
    pub offset: u64,
    /// Number of bytes concerned.
    pub bytes: u64,
    /// What is wrong.
    pub problem: CorruptionKind,
}

/// Bytes at the end that a crash cut off before they were acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{segment}, byte {offset}: {bytes} bytes of an unfinished write, {records} sound records among them"
)]
pub struct TornTail {
    /// File name.
    pub segment: String,
    /// Offset of the first of them.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Sound records after the first unsound one. They are dropped with it, because sequences have
    /// no holes.
    pub records: u64,
}

/// What a reader yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// A sound record.
    Record(LogRecord),
    /// Durable data was lost.
    Corruption(Corruption),
    /// An unfinished write, which is always the last entry.
    Torn(TornTail),
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum LogReadError {
    /// The file system failed.
    #[error("{name} cannot be read: {source}")]
    Io { name: String, source: io::Error },
    /// Written by a later release.
    #[error("{name} has format version {version}, known is {known}: use the release that wrote it")]
    Version { name: String, version: u32, known: u32 },
    /// The newest segment is of another node: the directory or the configured node is wrong.
    #[error(
        "{name} was written by node {node}, this is node {known}: name the directory of this node, or the node that wrote it"
    )]
    OtherNode { name: String, node: u32, known: u32 },
}

impl LogReadError {
    /// Whether the file is gone: a writer removes old ones while others read.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

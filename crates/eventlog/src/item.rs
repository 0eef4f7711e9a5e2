//! What a reader of the log tells: records, what is wrong and where, and why it ended early.
//!
//! Knows nothing of how it was found.

use std::io;

use crate::segment;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The writer's incarnation that appended it.
    pub epoch: u64,
    /// Its number; one more than that of the record before.
    pub sequence: u64,
    /// Unix milliseconds, as its owner gave it. Clocks go backwards; sequences do not.
    pub time_ms: u64,
    /// The owner's.
    pub kind: u8,
    /// The owner's.
    pub payload: Vec<u8>,
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The segment's header is not one; its records were looked for all the same.
    #[error("the header is damaged")]
    Header,
    /// A segment of another node's log. It is left alone and overrules nothing.
    #[error("this is a segment of node {node}")]
    OtherNode {
        /// Whose.
        node: u32,
    },
    /// Bytes that are no record.
    #[error("no record stands here")]
    Garbage,
    /// A record whose payload changed.
    #[error("the payload of record {sequence} is damaged")]
    Payload {
        /// Which.
        sequence: u64,
    },
    /// Records that were durable and are nowhere.
    #[error("{}", missing(*from, *through))]
    Missing {
        /// The first of them.
        from: u64,
        /// The last of them.
        through: u64,
    },
    /// A record that was there before, in a segment that does not belong here.
    #[error("record {sequence} stands here once more")]
    Repeated {
        /// Which.
        sequence: u64,
    },
}

fn missing(from: u64, through: u64) -> String {
    // A start leaves so many sequences out behind a segment that is gone.
    if through - from + 1 >= segment::SEGMENT_RECORDS_MAX {
        format!(
            "whole segments are missing: records from {from} on, at most those through {through}"
        )
    } else {
        format!("records {from} to {through} are missing")
    }
}

/// Durable bytes that the medium did not keep, or a file that is not the log's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{segment}, byte {offset}: {problem} ({bytes} bytes)")]
pub struct Corruption {
    /// Name of the file.
    pub segment: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes are concerned.
    pub bytes: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// The end of what was written before a crash: bytes that were not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{segment}, byte {offset}: {bytes} bytes of an unfinished write, {records} sound records among them"
)]
pub struct Torn {
    /// Name of the file.
    pub segment: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes there are.
    pub bytes: u64,
    /// Sound records behind the first that is not: dropped with it, for sequences have no holes.
    pub records: u64,
}

/// What a reader comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A sound record.
    Record(Record),
    /// Something durable was lost.
    Corruption(Corruption),
    /// An unfinished write; nothing comes after it.
    Torn(Torn),
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system failed.
    #[error("{name} cannot be read: {source}")]
    Io {
        /// The file, or the directory.
        name: String,
        /// What the file system said.
        source: io::Error,
    },
    /// Written by a later release.
    #[error("{name} has format version {version}, known is {known}: use the release that wrote it")]
    Version {
        /// The file.
        name: String,
        /// Its version.
        version: u32,
        /// The latest that is read.
        known: u32,
    },
    /// The newest segment is another node's: the directory, or the configured node, is wrong.
    #[error(
        "{name} was written by node {node}, this is node {known}: name the directory of this node, or the node that wrote it"
    )]
    OtherNode {
        /// The file.
        name: String,
        /// Who wrote it.
        node: u32,
        /// Who reads it.
        known: u32,
    },
}

impl ReadError {
    /// Whether a file is gone, as happens beside a writer that removes old ones.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

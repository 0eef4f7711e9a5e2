//! Why an export ends early, and what its owner can do.

use std::error::Error;
use std::io;

use crate::name::STATE_VERSION;
use crate::options::Format;

/// Why an export ended early. Whatever it is, what was complete stays so, and the next export goes on
/// behind it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file system failed.
    #[error("{path} cannot be {action}: {source}; {remedy}", remedy = remedy(source.kind()))]
    Io {
        /// The file or folder.
        path: String,
        /// What was to be done with it, as a participle.
        action: &'static str,
        /// What the file system said.
        source: io::Error,
    },
    /// Another export of the same node into the same folder is running.
    #[error(
        "{path} is held by another export of node {node}: wait for its end, or name another folder"
    )]
    InUse {
        /// What is locked.
        path: String,
        /// Whose export.
        node: u32,
    },
    /// The state was written by a later release.
    #[error("{path} has version {version}, known is {known}: use the release that wrote it, or export into an empty folder",
        known = STATE_VERSION)]
    StateVersion {
        /// The state.
        path: String,
        /// Its version.
        version: u32,
    },
    /// The state is not what an export wrote.
    #[error(
        "{path} is damaged, {reason}: put back what stood there, or export into an empty folder"
    )]
    StateDamaged {
        /// The state.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The folder has files of the other format.
    #[error(
        "{path} says that files here are {before}: ask for {before}, or export {now} into another folder"
    )]
    OtherFormat {
        /// The state that says so.
        path: String,
        /// What is there.
        before: Format,
        /// What was asked for.
        now: Format,
    },
    /// The folder was filled by another filter.
    #[error(
        "{path} says that files here are filtered by `{before}`, not by `{now}`: ask for the same, or name another folder"
    )]
    OtherFilter {
        /// The state that says so.
        path: String,
        /// What is there.
        before: String,
        /// What was asked for.
        now: String,
    },
    /// What is exported was not read from this log, whose epochs are older.
    #[error(
        "{out} holds records of epoch {before}, but record {sequence} is of epoch {now}: this is another log; name its own folder"
    )]
    OtherLog {
        /// The folder.
        out: String,
        /// The number of the record.
        sequence: u64,
        /// That of a record with the same number, or a lower one.
        before: u64,
        /// Its epoch in the log that is read.
        now: u64,
    },
    /// A file of this node that its state does not know: both together would hold rows twice.
    #[error(
        "{file} is not known to {state}: put back the state that was lost, or move the file away"
    )]
    Unknown {
        /// The file.
        file: String,
        /// The state.
        state: String,
    },
    /// A file that was complete before the last export was stopped is gone.
    #[error("{file} was complete and is gone: put it back, or export into an empty folder")]
    Lost {
        /// Where it was.
        file: String,
    },
    /// What was to be exported cannot be read; what came before it is complete.
    #[error("everything before is exported; then {0}")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// The type of the rows cannot be columns, or a row is not of that type.
    #[error("{what} cannot be written as {format}: {reason}; this is a bug of ours")]
    Row {
        /// The row, or the type.
        what: String,
        /// The format.
        format: Format,
        /// What the encoder said.
        reason: String,
    },
}

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, and export again: it goes on behind what is complete"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a folder that you may write into"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file stands where a folder should; name another folder"
        }
        _ => "once that is mended, export again: it goes on behind what is complete",
    }
}

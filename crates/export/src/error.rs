//! Why an export ends early, and the remedy.

use std::error::Error;
use std::io;

use crate::name::STATE_VERSION;
use crate::options::FileFormat;

/// Why an export ended early. Completed files stay complete, and the next export continues after
/// them.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file system failed.
    #[error("{path} cannot be {action}: {source}; {remedy}", remedy = remedy(source.kind()))]
    Io {
        /// The file or folder.
        path: String,
        /// The attempted action, as a participle.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Another export of the same node into the same folder is running.
    #[error(
        "{path} is held by another export of node {node}: wait for its end, or name another folder"
    )]
    InUse {
        /// The lock.
        path: String,
        /// The node.
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
    /// The state file is damaged.
    #[error(
        "{path} is damaged, {reason}: put back what stood there, or export into an empty folder"
    )]
    StateDamaged {
        /// The state.
        path: String,
        /// The problem.
        reason: String,
    },
    /// The folder has files of the other format.
    #[error(
        "{path} says that files here are {before}: ask for {before}, or export {now} into another folder"
    )]
    OtherFormat {
        /// The state file.
        path: String,
        /// The folder's format.
        before: FileFormat,
        /// The requested format.
        now: FileFormat,
    },
    /// The folder was filled by another filter.
    #[error(
        "{path} says that files here are filtered by `{before}`, not by `{now}`: ask for the same, or name another folder"
    )]
    OtherFilter {
        /// The state file.
        path: String,
        /// The folder's filter.
        before: String,
        /// The requested filter.
        now: String,
    },
    /// The folder was exported from another log with newer epochs.
    #[error(
        "{out} holds records of epoch {before}, but record {sequence} is of epoch {now}: this is another log; name its own folder"
    )]
    OtherLog {
        /// The folder.
        out: String,
        /// Sequence of the record.
        sequence: u64,
        /// Epoch of an exported record with this sequence or a lower one.
        before: u64,
        /// Epoch of the record in this log.
        now: u64,
    },
    /// A file of this node that its state does not name: exporting again would duplicate its rows.
    #[error(
        "{file} is not known to {state}: put back the state that was lost, or move the file away"
    )]
    Unknown {
        /// The file.
        file: String,
        /// The state file.
        state: String,
    },
    /// A completed file of an interrupted export is gone.
    #[error("{file} was complete and is gone: put it back, or export into an empty folder")]
    Lost {
        /// Its path.
        file: String,
    },
    /// The log cannot be read; everything before is complete.
    #[error("everything before is exported; then {0}")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// The row type cannot be mapped to columns, or a row does not match it.
    #[error("{what} cannot be written as {format}: {reason}; this is a bug of ours")]
    Row {
        /// The row or the type.
        what: String,
        /// The format.
        format: FileFormat,
        /// The encoder's message.
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

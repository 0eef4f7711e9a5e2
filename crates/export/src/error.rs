//! Why an export ends early, and the remedy.

use std::error::Error;
use std::io;

use crate::name::STATE_VERSION;
use crate::options::FileFormat;

/// Why an export ended early. Completed files stay complete, and the next export continues after
/// them.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum ExportError {
    /// The file system failed.
    #[error("{path} cannot be {action}: {source}; {remedy}", remedy = remedy(source.kind()))]
    Io { path: String, action: &'static str, source: io::Error },
    /// Another export of the same node into the same folder is running.
    #[error(
        "{path} is held by another export of node {node}: wait for its end, or name another folder"
    )]
    InUse { path: String, node: u32 },
    /// The state was written by a later release.
    #[error("{path} has version {version}, known is {known}: use the release that wrote it, or export into an empty folder",
        known = STATE_VERSION)]
    StateVersion { path: String, version: u32 },
    /// The state file is damaged.
    #[error(
        "{path} is damaged, {reason}: put back what stood there, or export into an empty folder"
    )]
    StateDamaged { path: String, reason: String },
    /// The folder has files of the other format.
    #[error(
        "{path} says that files here are {before}: ask for {before}, or export {now} into another folder"
    )]
    OtherFormat { path: String, before: FileFormat, now: FileFormat },
    /// The folder was filled by another filter.
    #[error(
        "{path} says that files here are filtered by `{before}`, not by `{now}`: ask for the same, or name another folder"
    )]
    OtherFilter { path: String, before: String, now: String },
    /// The folder was exported from another log with newer epochs.
    #[error(
        "{out} holds records of epoch {before}, but record {sequence} is of epoch {now}: this is another log; name its own folder"
    )]
    OtherLog { out: String, sequence: u64, before: u64, now: u64 },
    /// A file of this node that its state does not name: exporting again would duplicate its rows.
    #[error(
        "{file} is not known to {state}: put back the state that was lost, or move the file away"
    )]
    Unknown { file: String, state: String },
    /// A completed file of an interrupted export is gone.
    #[error("{file} was complete and is gone: put it back, or export into an empty folder")]
    Lost { file: String },
    /// The log cannot be read; everything before is complete.
    #[error("everything before is exported; then {0}")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// The row type cannot be mapped to columns, or a row does not match it.
    #[error("{what} cannot be written as {format}: {reason}; this is a bug of ours")]
    Row { what: String, format: FileFormat, reason: String },
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

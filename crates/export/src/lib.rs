//! Rows into a folder, for analysts: JSON Lines or Parquet, parted by the hour of UTC.
//!
//! Owns what a reader of the folder sees, and when: a file is there once it is complete, and never
//! changes or goes after that. Owns how an export goes on where one before stopped. Knows neither
//! what a row means nor where it comes from; columns are those of the type that is written.
//!
//! **What holds:** after an export that follows one that was stopped at any moment, by a signal, a
//! crash, a lost machine or a full disk, every row stands in exactly one file of its hour.
//!
//! How: files are written aside, then synced; then the state, replaced at once, names them and the
//! record through which all is done; then they get their places. An export that finds named files
//! without their places gives them these first, and removes what is not named.
//!
//! **Memory:** at most [`Limits::hours_open`] files are under way; each holds a batch of rows and a
//! row group until they are written. Nothing else grows with what is exported.

mod error;
mod hour;
mod name;
mod run;
mod sheet;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use error::ExportError;
pub use sheet::Columns;
pub use state::STATE_VERSION;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A JSON object by line; 64-bit integers as they are.
    Jsonl,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Jsonl, Self::Parquet];

    /// What names of files end in, without the dot; also how operators call it.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// The place of a record in a node's log. Epochs never fall along a log, and within one sequences
/// grow. A new epoch may count from before the end of the last: what was not yet synced when the
/// machine went down is gone from the log, and its numbers are given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Which start of the node wrote it.
    pub epoch: u64,
    /// The number of the record.
    pub sequence: u64,
}

/// What stands at a place of the log.
#[derive(Clone, Debug)]
pub enum Item<R> {
    /// A record that makes a row.
    Row {
        /// Where it stands.
        place: Position,
        /// When it was, in microseconds of Unix time: it goes to the files of that hour.
        time_us: u64,
        /// How long the record is.
        bytes: usize,
        /// What is written.
        row: R,
    },
    /// A record that makes none.
    Passed(Position),
    /// Records that were never written.
    Gap {
        /// Where the log says so.
        place: Position,
        /// How many.
        records: u64,
    },
}

/// What is exported, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder; made when it is not there. Several nodes may share one.
    pub out: PathBuf,
    /// Whose log it is.
    pub node: u32,
    /// How rows are written; one folder has one format.
    pub format: Format,
    /// Which rows are wanted, in words that are the same whenever the same is meant; an export
    /// goes on only where it is that of the exports before.
    pub filter: String,
    /// What may be held and when something is complete.
    pub limits: Limits,
}

/// What an export may hold in memory, and how much is done before it is complete. At the defaults
/// memory stays in the low hundreds of MiB, and a run that is killed has done at most one GiB in vain.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// So many hours are written to side by side; when another comes up, the one that was written
    /// to least recently is finished. 1 or more.
    pub hours_open: usize,
    /// Rows that are encoded together.
    pub batch_rows: usize,
    /// Records, in bytes, of the rows that are encoded together; their columns take a small
    /// multiple of it.
    pub batch_bytes: usize,
    /// Rows of a row group, which is held until it is complete.
    pub group_rows: usize,
    /// Encoded bytes of a row group.
    pub group_bytes: usize,
    /// Files are complete after so many rows, over all of them.
    pub commit_rows: u64,
    /// Files are complete after so many bytes of records, over all of them.
    pub commit_bytes: u64,
    /// Files are complete when so many are finished.
    pub commit_files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hours_open: 4,
            batch_rows: 1024,
            batch_bytes: 4 << 20,
            group_rows: 1 << 17,
            group_bytes: 32 << 20,
            commit_rows: 1 << 20,
            commit_bytes: 1 << 30,
            commit_files: 64,
        }
    }
}

/// What an export came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Through which record everything is complete; `None` when there was none.
    pub position: Option<Position>,
    /// Where it went on; `None` when it began with the log.
    pub resumed: Option<Position>,
    /// The first record that was taken. Where its sequence is not the next after `resumed`, records
    /// between were gone from the log, or not wanted.
    pub first: Option<Position>,
    /// Records that were taken, with or without a row.
    pub records: u64,
    /// Rows that were written.
    pub rows: u64,
    /// Gaps that stood in the log.
    pub gaps: u64,
    /// Records that these gaps stand for: they were never written to the log.
    pub shed: u64,
    /// Files that are new.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Whether it was told to stop before the end.
    pub is_stopped: bool,
}

/// Writes what `items` tells, behind what exports before have written, until its end or until
/// `stop`, which is asked before each item. `items` stand in the log's order; those at or before
/// [`resume_point`] are not written again.
///
/// # Errors
/// See [`ExportError`]. Where `items` fails, what came before is completed first.
pub fn export<R, E>(
    items: impl IntoIterator<Item = Result<Item<R>, E>>,
    options: &Options,
    stop: impl FnMut() -> bool,
) -> Result<Summary, ExportError>
where
    R: Serialize + DeserializeOwned,
    E: Error + Send + Sync + 'static,
{
    let folder = store::Folder::new(&options.out);
    folder.make().map_err(|source| state::failed(&folder, "", "made", source))?;
    run::run(&folder, items, options, stop)
}

/// Through which record of a node everything stands in complete files, or will with the next export;
/// `None` when nothing does. Changes nothing.
///
/// Who reads the log starts at its sequence, or where the first later epoch begins if that is before.
///
/// # Errors
/// The state cannot be read, is damaged, or of a later version.
pub fn resume_point(out: &Path, node: u32) -> Result<Option<Position>, ExportError> {
    let state = state::State::read(&store::Folder::new(out), node)?;
    Ok(state.and_then(|state| state.position))
}

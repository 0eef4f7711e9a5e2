//! What is exported, how it is written, and what that may take.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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

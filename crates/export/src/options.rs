//! Options of an export.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// File format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// One JSON object per line; 64-bit integers unquoted.
    Jsonl,
    /// Apache Parquet, compressed with Snappy.
    Parquet,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Jsonl, Self::Parquet];

    /// Extension of file names, without the dot; also the name of the format on the command line.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The folder, created if missing. Several nodes may share one.
    pub out: PathBuf,
    /// Node of the log.
    pub node: u32,
    /// File format, one per folder.
    pub format: FileFormat,
    /// The filter of rows, in canonical form. It must be that of the earlier exports.
    pub filter: String,
    /// Limits of memory and of unfinished work.
    pub limits: ExportLimits,
}

/// Limits of memory, and of the work that an interruption loses. With the defaults, memory is in
/// the low hundreds of MiB, and a killed run loses at most one GiB of work.
#[derive(Clone, Copy, Debug)]
pub struct ExportLimits {
    /// Most hours written concurrently, at least 1. Another hour closes the least recently written
    /// file.
    pub hours_open: usize,
    /// Rows per encoded batch.
    pub batch_rows: usize,
    /// Record bytes per encoded batch; the columns take a small multiple of it.
    pub batch_bytes: usize,
    /// Rows per row group, which is held in memory.
    pub group_rows: usize,
    /// Encoded bytes per row group.
    pub group_bytes: usize,
    /// Rows, over all files, after which files are completed.
    pub commit_rows: u64,
    /// Record bytes, over all files, after which files are completed.
    pub commit_bytes: u64,
    /// Finished files after which files are completed.
    pub commit_files: usize,
}

impl Default for ExportLimits {
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

//! The log compared with the minimum cost of its work: the same bytes written, synced and read raw.
//!
//! Owns the command line. Each command prints one line of JSON per measurement; `bench/run.py`
//! decides how often each runs, and what its figures mean. Knows only vickrey's log, not what
//! records mean.

mod commit;
mod fill;
mod groups;
mod read;

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use eventlog::lane::LaneKind;
use serde_json::Value;

/// The log compared with the same bytes written, synced and read raw.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Acknowledged records per second through the durable lane, and the same bytes in the same
    /// groups written and synced raw, in turn: log, raw, raw, log.
    Commit(commit::Options),
    /// Write a directory of real segments with their indexes.
    Fill(fill::Options),
    /// Make the newest segment of each lane look as after a crash.
    Tear {
        /// The log's directory.
        directory: PathBuf,
    },
    /// Measure the time to open both lanes.
    Open {
        /// The log's directory.
        directory: PathBuf,
    },
    /// Check every record of both lanes, and read the same files alone: log, raw, raw, log.
    Scan(read::Options),
    /// Read the files of both lanes without processing.
    Read {
        /// The log's directory.
        directory: PathBuf,
    },
    /// Evict the files of both lanes from the page cache.
    Forget {
        /// The log's directory.
        directory: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Commit(options) => commit::run(&options, &mut say),
        Command::Fill(options) => fill::run(&options, &mut say),
        Command::Tear { directory } => fill::tear(&directory),
        Command::Open { directory } => read::open(&directory, &mut say),
        Command::Scan(options) => read::scan(&options, &mut say),
        Command::Read { directory } => read::raw(&directory, &mut say),
        Command::Forget { directory } => read::forget(&directory),
    }
}

/// The consumer of output lines.
type Say<'a> = &'a mut dyn FnMut(&Value) -> Result<()>;

fn say(line: &Value) -> Result<()> {
    writeln!(stdout(), "{line}")?;
    Ok(())
}

/// The directories of a log's lanes.
fn lanes(directory: &Path) -> [PathBuf; 2] {
    [LaneKind::Durable, LaneKind::Firehose].map(|kind| directory.join(kind.name()))
}

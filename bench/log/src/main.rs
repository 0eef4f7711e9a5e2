//! The log beside the least that its work can cost: the same bytes written, synced and read raw.
//!
//! Owns the command line. Each command prints a line of JSON for each thing that it measured, and
//! `bench/run.py` says how often each is asked for and what its figures mean. Of vickrey it knows
//! the log alone, not what records mean.

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

/// The log beside the same bytes written, synced and read raw.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Acknowledged records a second through the durable lane, and the same bytes in the same
    /// groups written and synced raw, in turn: log, raw, raw, log.
    Commit(commit::Options),
    /// A directory of real segments with their indexes.
    Fill(fill::Options),
    /// Makes the newest segment of each lane what a crash leaves of it.
    Tear {
        /// The log's directory.
        directory: PathBuf,
    },
    /// How long both lanes take to open.
    Open {
        /// The log's directory.
        directory: PathBuf,
    },
    /// Every record of both lanes checked, and the same files read alone: log, raw, raw, log.
    Scan(read::Options),
    /// Reads the files of both lanes, and does nothing with them.
    Read {
        /// The log's directory.
        directory: PathBuf,
    },
    /// Puts the files of both lanes out of the page cache.
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

/// Who takes a line.
type Say<'a> = &'a mut dyn FnMut(&Value) -> Result<()>;

fn say(line: &Value) -> Result<()> {
    writeln!(stdout(), "{line}")?;
    Ok(())
}

/// Where the lanes of a log are.
fn lanes(directory: &Path) -> [PathBuf; 2] {
    [LaneKind::Durable, LaneKind::Firehose].map(|kind| directory.join(kind.name()))
}

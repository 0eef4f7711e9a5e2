//! The rules of look-ups, and of enrichment, as loops.
//!
//! Owns the command line. Each command prints one line of JSON per measurement; `bench/run.py`
//! decides how often each runs, and what its figures mean.

mod enrich;
mod lane;
mod merge;

use std::io::{Write as _, stdout};

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::Value;

/// The rules of look-ups, and of enrichment, as loops.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read the answers of two providers and merge them; parse the same bytes alone.
    Merge(merge::Options),
    /// Pass calls through the lane of a provider.
    Lane(lane::Options),
    /// Add what is in memory to the requests of auctions.
    Enrich(enrich::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Merge(options) => merge::run(&options, &mut say),
        Command::Lane(options) => lane::run(&options, &mut say),
        Command::Enrich(options) => enrich::run(&options, &mut say),
    }
}

/// The consumer of output lines.
type Say<'a> = &'a mut dyn FnMut(&Value) -> Result<()>;

fn say(line: &Value) -> Result<()> {
    writeln!(stdout(), "{line}")?;
    Ok(())
}

//! The cache's directory compared with other locks, other caches and no lock, as loops without
//! sockets.
//!
//! Owns the command line. Each command prints one line of JSON per measurement; `bench/run.py`
//! decides how often each runs, and what its figures mean.

mod bare;
mod hit_ratio;
mod locks;
mod lookup;
mod loops;

use std::io::{Write as _, stdout};

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::Value;

/// The cache's directory compared with other locks, other caches and no lock.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the answer of a hit by bare hyper, on one thread.
    Bare(bare::Options),
    /// Reads of one hot value by 1 to N threads under each kind of lock, with a few writes.
    Locks(locks::Options),
    /// Look-ups by 1 to N threads in the directory and in other caches that have all keys.
    Lookup(lookup::Options),
    /// Hit ratios of traces, by requests and by bytes, of the directory and of other caches.
    HitRatio(hit_ratio::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Bare(options) => bare::run(&options, &mut say),
        Command::Locks(options) => locks::run(&options, &mut say),
        Command::Lookup(options) => lookup::run(&options, &mut say),
        Command::HitRatio(options) => hit_ratio::run(&options, &mut say),
    }
}

/// The consumer of output lines.
type Say<'a> = &'a mut dyn FnMut(&Value) -> Result<()>;

fn say(line: &Value) -> Result<()> {
    writeln!(stdout(), "{line}")?;
    Ok(())
}

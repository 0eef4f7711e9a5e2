//! `vickrey simulate`: what would become of a budget, and streams of auctions to try it on.
//!
//! Owns the command line and files. Streams, strategies and figures are `whatif`'s.

mod extract;
mod generate;
mod pacing;
mod quality;
mod recorded;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use clap::Subcommand;
use whatif::stream::{self, Auction};

use crate::exit::{Exit, Failure};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Spend a budget on a stream of auctions by each strategy, beside the optimum of hindsight
    Pacing(pacing::PacingArgs),
    /// Make a stream of auctions from a seed
    Generate(generate::GenerateArgs),
    /// Make a stream of auctions out of an exchange's log: what a campaign or a seat bid on
    Extract(extract::ExtractArgs),
    /// Every strategy on every kind of generated stream, with the targets that the default must meet
    Quality(quality::QualityArgs),
}

pub(crate) fn run(command: &SimulateCommand) -> anyhow::Result<Exit> {
    let mut out = BufWriter::new(io::stdout().lock());
    let exit = match command {
        SimulateCommand::Pacing(args) => pacing::run(args, &mut out),
        SimulateCommand::Generate(args) => generate::run(args, &mut out),
        SimulateCommand::Extract(args) => extract::run(args, &mut out),
        SimulateCommand::Quality(args) => quality::run(args, &mut out),
    }?;
    out.flush()?;
    Ok(exit)
}

/// All auctions of a file, or of what is piped in where it is called `-`.
fn read(path: &Path) -> anyhow::Result<Vec<Auction>> {
    let options = stream::Options::default();
    let read = if path.as_os_str() == "-" {
        stream::read(io::stdin().lock(), options)
    } else {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        stream::read(BufReader::with_capacity(READ_BYTES, file), options)
    };
    read.map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &dyn std::error::Error) -> anyhow::Error {
    Failure::usage(format!("{}: {error}", path.display()))
}

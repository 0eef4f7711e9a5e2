//! `vickrey simulate`: tries budgets on streams of auctions, and makes such streams.
//!
//! Owns the command line and files. `whatif` has the streams, strategies and figures.

mod extract;
mod generate;
mod input;
mod pacing;
mod quality;
mod recorded;

use std::io::{self, BufWriter, Write};

use clap::Subcommand;

use crate::command::exit::Exit;

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Spend a budget on a stream of auctions with each strategy, compared with the optimum of
    /// hindsight
    Pacing(pacing::PacingArgs),
    /// Generate a stream of auctions from a seed
    Generate(generate::GenerateArgs),
    /// Extract a stream of auctions from an exchange's log: those on which a campaign or a seat bid
    Extract(extract::ExtractArgs),
    /// Run every strategy on every kind of generated stream, and check the default against its
    /// targets
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

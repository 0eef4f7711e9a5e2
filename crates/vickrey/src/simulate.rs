//! `vickrey simulate`: what would become of a budget, and streams of auctions to try it on.
//!
//! Owns the command line and files. Streams, strategies and figures are `whatif`'s.

mod extract;
mod generate;
mod input;
mod pacing;
mod quality;
mod recorded;

use std::io::{self, BufWriter, Write};

use clap::Subcommand;

use crate::exit::Exit;

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

//! `vickrey simulate quality`: how well the default strategy spends, on every kind of stream.

use std::io::Write;

use clap::Args;
use whatif::quality::{QualityOptions, measure};
use whatif::table;

use crate::command::exit::{CommandFailure, Exit};

#[derive(Debug, Args)]
pub(crate) struct QualityArgs {
    /// Auctions of each stream
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    auctions: u64,
    /// The seed of all streams
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &QualityArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let options =
        QualityOptions { auctions: args.auctions, seed: args.seed, ..QualityOptions::default() };
    let rows = measure(&options).map_err(CommandFailure::usage)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        out.write_all(table::quality(&rows).as_bytes())?;
    }
    let is_met = rows.iter().filter(|row| row.is_default).all(|row| row.missed().is_empty());
    Ok(if is_met { Exit::Done } else { Exit::Missed })
}

//! `vickrey simulate generate`: a stream from a seed, to standard output or a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use whatif::generate::{self, Options, Profile, profile};

use crate::exit::{Exit, Failure};
use crate::hammer::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// What traffic, prices and values are like; `--list` names all
    #[arg(long, value_name = "NAME", default_value = "diurnal", value_parser = Profile::parse)]
    profile: Profile,
    /// How many auctions
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    auctions: u64,
    /// Another seed, another stream of the same kind; the same one gives the same bytes everywhere
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How long the stream goes on, such as 24h
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    duration: Duration,
    /// The file to write; without it the stream goes to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Say which profiles there are, and end
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &GenerateArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if args.list {
        for Profile { name, about, .. } in profile::PROFILES {
            writeln!(out, "{name:<14} {about}")?;
        }
        return Ok(Exit::Done);
    }
    let options = Options {
        auctions: args.auctions,
        seed: args.seed,
        duration_ms: u64::try_from(args.duration.as_millis()).unwrap_or(u64::MAX),
        ..Options::new(args.profile.clone())
    };
    // What is asked for wrongly leaves no file.
    generate::auctions(&options).map(drop).map_err(Failure::usage)?;
    let Some(path) = &args.out else {
        generate::write(&options, out)?;
        return Ok(Exit::Done);
    };
    let in_the_way = |error: io::Error| {
        Failure::unavailable(format!("cannot write {}: {error}", path.display()))
    };
    let file = File::create(path).map_err(in_the_way)?;
    generate::write(&options, BufWriter::new(file)).map_err(in_the_way)?;
    Ok(Exit::Done)
}

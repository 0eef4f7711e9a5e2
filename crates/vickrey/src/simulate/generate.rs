//! `vickrey simulate generate`: writes a stream from a seed to standard output or a file.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use whatif::generate::{self, GenerateOptions, Profile, profile};
use whatif::stream::StreamWriter;

use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{millis, parse_duration, progress_bar, stop_on_signal};

/// Auctions between two updates of progress and checks for signals.
const STEP: u64 = 4096;

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Profile of traffic, prices and values; `--list` prints all
    #[arg(long, value_name = "NAME", default_value = "diurnal", value_parser = Profile::parse)]
    profile: Profile,
    /// Number of auctions
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    auctions: u64,
    /// Seed; the same seed gives the same bytes everywhere
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Duration of the stream, such as 24h
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    duration: Duration,
    /// The output file, which appears only when it is complete [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the profiles and exit
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
    let options = GenerateOptions {
        auctions: args.auctions,
        seed: args.seed,
        duration_ms: millis(args.duration),
        ..GenerateOptions::new(args.profile.clone())
    };
    // Invalid options touch no file.
    let auctions = generate::auctions(&options).map_err(CommandFailure::usage)?;
    let Some(path) = &args.out else {
        generate::write(&options, out)?;
        return Ok(Exit::Done);
    };
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let bar = progress_bar(Some(args.auctions), "{bar:30} {percent:>3}% of {len} auctions, {eta}");
    output_file::write(path, |out| {
        let mut writer = StreamWriter::new(out)?;
        for (number, auction) in (0_u64..).zip(auctions) {
            if number.is_multiple_of(STEP) {
                bar.set_position(number);
                if stop.load(Ordering::Relaxed) {
                    let path = path.display();
                    return Err(CommandFailure::unavailable(format!(
                        "stopped: {path} is as it was"
                    )));
                }
            }
            writer.write(&auction)?;
        }
        writer.finish()?;
        Ok(())
    })?;
    Ok(Exit::Done)
}

//! Arguments of the demo.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::peers::long_run::parse_duration;

/// All listeners are on loopback, on ports that the system chooses.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(super) other: Option<OtherDemo>,
    /// Duration of the run; Ctrl-C ends it sooner, with the same report
    #[arg(long, default_value = "30s", value_parser = parse_length)]
    pub(super) duration: Duration,
    /// Number of simulated DSPs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(super) dsps: u16,
    /// Bid requests per second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: u32,
    /// Shard threads of the exchange
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) shards: u16,
    /// Seed of the traffic and of the DSPs' choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Keep the record of all auctions in this new directory, for `vickrey log`; without it the
    /// record is removed at the end
    #[arg(long, value_name = "DIR")]
    pub(super) record: Option<PathBuf>,
    /// Print only the final result, as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print a configuration like the demo's, with fixed ports and directories, and exit
    #[arg(long)]
    pub(super) print_config: bool,
}

/// Demos of one service alone.
#[derive(Debug, Subcommand)]
pub(super) enum OtherDemo {
    /// Run a pacer and a bidder that asks it, over a real socket: decisions per second, latency, and
    /// the spend of campaigns beside its target
    Pacer(PacerDemoArgs),
    /// Ask a hundred simulated providers, some of them broken: who answers, what is missing, and what
    /// the providers notice of it
    Lookup(LookupDemoArgs),
}

/// Providers and look-ups are threads of this process.
#[derive(Debug, Args)]
pub(super) struct LookupDemoArgs {
    /// Number of simulated providers, of which three are broken
    #[arg(long, default_value_t = 100, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(8..=1_000))]
    pub(super) providers: usize,
    /// Go on until Ctrl-C, so that the page can be tried
    #[arg(long)]
    pub(super) stay: bool,
    /// Print only the final result, as JSON
    #[arg(long, conflicts_with = "stay")]
    pub(super) json: bool,
}

/// The pacer and the bidder are two threads of this process.
#[derive(Debug, Args)]
pub(super) struct PacerDemoArgs {
    /// Duration of the run; Ctrl-C ends it sooner, with the same report
    #[arg(long, default_value = "30s", value_parser = parse_length)]
    pub(super) duration: Duration,
    /// Bid requests per second; the pacer can do millions, see `vickrey hammer pacer`
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    pub(super) rate: u64,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Print only the final result, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

fn parse_length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text)?;
    if length.is_zero() { Err("must be longer than 0s".to_owned()) } else { Ok(length) }
}

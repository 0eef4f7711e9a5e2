//! `vickrey hammer exchange`: bid requests to an exchange.

use std::path::PathBuf;

use clap::Args;
use testbed::exchange::{Beacons, ExchangeLoad};
use testbed::traffic::{Traffic, TrafficOptions};

use super::load::{LoadArgs, LoadReportArgs, LoadTarget, run_load};
use crate::command::exit::{CommandFailure, Exit};

pub(super) const EXAMPLES: &str = "\
Examples:
  vickrey hammer exchange --rate 500 --duration 10s --tmax 250ms
  vickrey hammer exchange --rate 6000 --connections 1000 --tmax 250ms --json report.json

Only 200 with a bid response and 204 count as answers. The report counts every status, times each
apart, and quotes the first refusal. It exits 1 if nothing was answered or an objective was missed.";

/// Latency counts from the time at which a request was intended to be sent, so a stalled exchange
/// cannot hide its own delay.
#[derive(Debug, Args)]
pub(crate) struct ExchangeArgs {
    /// URL for bid requests
    #[arg(long, default_value = "http://127.0.0.1:8080/openrtb2/auction")]
    url: String,
    #[command(flatten)]
    load: LoadArgs,
    /// Send the requests of this file, one JSON object per line, instead of generated ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reference", "seed"])]
    requests: Option<PathBuf>,
    /// Send one fixed 3 KB banner request, each time with a new id
    #[arg(long)]
    reference: bool,
    /// Seed of the generated requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Call the beacons in answers, which are the URLs with this prefix, at the address of --url
    #[arg(long, value_name = "URL")]
    call_beacons: Option<String>,
    /// Share of answers with bids whose beacons are called, in parts per million
    #[arg(long, value_name = "PPM", default_value_t = 1_000_000, requires = "call_beacons")]
    beacons_ppm: u32,
    #[command(flatten)]
    report: LoadReportArgs,
}

pub(super) fn run(args: &ExchangeArgs) -> anyhow::Result<Exit> {
    let traffic = match (&args.requests, args.reference) {
        (Some(file), _) => Traffic::from_json_lines(file).map_err(CommandFailure::usage)?,
        (None, true) => Traffic::reference(),
        (None, false) => {
            let options = TrafficOptions { seed: args.seed, ..TrafficOptions::default() };
            Traffic::generated(&options).map_err(CommandFailure::usage)?
        }
    };
    let beacons =
        args.call_beacons.clone().map(|prefix| Beacons { prefix, share_ppm: args.beacons_ppm });
    let workload = ExchangeLoad::new(&args.url, traffic, beacons).map_err(CommandFailure::usage)?;
    let target = LoadTarget { url: &args.url, service: "exchange", nothing: "no auction was run" };
    run_load(target, workload, &args.load, &args.report)
}

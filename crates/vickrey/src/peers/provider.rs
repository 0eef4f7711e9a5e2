//! `vickrey provider`: runs simulated data providers, for look-ups to call.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use testbed::provider::{
    CatalogueOptions, ProviderAct, ProviderBehaviour, ProviderFault, ProviderOptions,
    ProviderStats, farm_map,
};
use testbed::server::{Cut, DripFrom, ServerOptions};

use super::long_run::{StopSignal, parse_duration};
use crate::command::exit::{CommandFailure, Exit};

/// Pace of a slow body.
const SLOW_EVERY: Duration = Duration::from_millis(100);
/// Pieces of a slow body, in bytes.
const SLOW_BYTES: usize = 64;

#[derive(Debug, Args)]
#[command(
    after_help = "Every provider knows what the maps in deploy/maps ask for, on any port, and items of groups: `item group=g`.\n\nExamples:\n  vickrey provider --port 7501 --count 13                 those of deploy/maps\n  vickrey provider --count 100 --map farm.toml            a farm, and the map that describes it\n  vickrey provider --port 7501 --concurrency 10 --latency 20ms   fails above 10 at a time\n  vickrey provider --count 100 --map farm.toml --fault hang --faulty 1"
)]
pub(crate) struct ProviderArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port of the first; the others follow [default: chosen by the system]
    #[arg(long)]
    port: Option<u16>,
    /// How many there are
    #[arg(long, default_value_t = 1)]
    count: usize,
    /// Write a map that describes them to this file
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Time from request to answer
    #[arg(long, default_value = "0ms", value_parser = parse_duration)]
    latency: Duration,
    /// The most requests at a time, for each; further ones are refused
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// The status of refusals; 429 and 503 say to come back after a second
    #[arg(long, value_name = "STATUS", default_value_t = 500, requires = "concurrency")]
    refusal: u16,
    /// Blocks of a dataset
    #[arg(long, default_value_t = 10)]
    blocks: usize,
    /// Files of a block
    #[arg(long, default_value_t = 10)]
    files: usize,
    /// Items of a group
    #[arg(long, default_value_t = 100)]
    items: usize,
    /// What befalls answers
    #[arg(long, value_enum)]
    fault: Option<ProviderFaultKind>,
    /// What share of answers it befalls, in parts per million
    #[arg(long, value_name = "PPM", default_value_t = 1_000_000, requires = "fault")]
    fault_share: u32,
    /// How many of the providers it befalls [default: all]
    #[arg(long, value_name = "N", requires = "fault")]
    faulty: Option<usize>,
    /// Seed of content and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Core of their thread
    #[arg(long)]
    core: Option<usize>,
    /// Print JSON: the URLs, and the final counts
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProviderFaultKind {
    /// 500
    Error,
    /// 429, which says to come back after a second
    Busy,
    /// No answer
    Hang,
    /// A body of 64 bytes each 100 ms
    Slow,
    /// The connection closes in the middle of the body, which has a length
    Close,
    /// Bytes that are not HTTP
    Garbage,
    /// A redirect
    Redirect,
    /// A page for people
    Html,
    /// A message instead of records
    Message,
    /// Text that is not UTF-8
    Latin1,
    /// Half of the body
    Truncated,
    /// Lists within lists within lists
    Deep,
}

impl ProviderFaultKind {
    fn act(self) -> ProviderAct {
        let status = |code, body: &str| ProviderAct::Status { code, body: body.to_owned() };
        match self {
            Self::Error => status(500, "out of order\n"),
            Self::Busy => status(429, "too many requests\n"),
            Self::Hang => ProviderAct::Hang,
            Self::Slow => {
                ProviderAct::Trickle { bytes: SLOW_BYTES, every: SLOW_EVERY, from: DripFrom::Body }
            }
            Self::Close => ProviderAct::Close { at: Cut::Body },
            Self::Garbage => ProviderAct::Garbage,
            Self::Redirect => ProviderAct::Redirect { code: 302, to: None },
            Self::Html => ProviderAct::Content(ProviderFault::Html),
            Self::Message => ProviderAct::Content(ProviderFault::Message),
            Self::Latin1 => ProviderAct::Content(ProviderFault::Latin1),
            Self::Truncated => ProviderAct::Content(ProviderFault::Truncated),
            Self::Deep => ProviderAct::Content(ProviderFault::Deep),
        }
    }
}

pub(crate) fn run(args: &ProviderArgs) -> anyhow::Result<Exit> {
    let catalogue = CatalogueOptions { blocks: args.blocks, files: args.files, items: args.items };
    let options = ProviderOptions {
        catalogue,
        latency: args.latency,
        concurrency_max: args.concurrency,
        refusal: args.refusal,
        seed: args.seed,
    };
    let fault = ProviderBehaviour {
        act: args.fault.map_or(ProviderAct::Healthy, ProviderFaultKind::act),
        share_ppm: args.fault_share,
    };
    let faulty = args.faulty.unwrap_or(args.count);
    let behaviour = |at| if at < faulty { fault.clone() } else { ProviderBehaviour::HEALTHY };
    let server = ServerOptions {
        listen: args.listen,
        base_port: args.port,
        core: args.core,
        ..ServerOptions::default()
    };
    runtime::process::raise_descriptor_limit();
    let behaviours = (0..args.count).map(behaviour).collect();
    let farm = testbed::provider::start(&options, behaviours, &server)
        .map_err(CommandFailure::unavailable)?;
    if let Some(path) = &args.map {
        std::fs::write(path, farm_map(farm.urls(), "")).map_err(|error| {
            CommandFailure::unavailable(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    // The reader of the line with the URLs may stop it at once.
    let stop = StopSignal::catch()?;
    let out = &mut std::io::stdout();
    match args.json {
        true => writeln!(out, "{}", json!({ "urls": farm.urls() }))?,
        false => {
            let urls = farm.urls();
            let others = if urls.len() > 1 { ", and the others behind it" } else { "" };
            writeln!(out, "a provider listens at {}{others}; stop with Ctrl-C", urls[0])?;
        }
    }
    stop.wait();
    let stats = farm.stats();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&stats)?)?,
        false => print(&stats, out)?,
    }
    farm.stop()?;
    Ok(Exit::Done)
}

fn print(stats: &[ProviderStats], out: &mut impl std::io::Write) -> std::io::Result<()> {
    let sum = |of: fn(&ProviderStats) -> u64| stats.iter().map(of).sum::<u64>();
    let most = stats.iter().map(|of| of.concurrent_max).max().unwrap_or(0);
    writeln!(
        out,
        "{} requests, at most {most} at a time of one provider; {} refused because there were too \
         many, {} with a fault, {} for what they do not have",
        sum(|of| of.requests),
        sum(|of| of.overloaded),
        sum(|of| of.faults),
        sum(|of| of.unknown),
    )
}

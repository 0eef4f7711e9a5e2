//! `vickrey hammer`: puts load on a service and measures it.

mod live;
mod lots;
mod pacer;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use testbed::exchange::{Beacons, ExchangeLoad, ExchangeOutcomes};
use testbed::load::{
    self, LoadConnections, LoadError, LoadLength, LoadMode, LoadOptions, LoadProgress, LoadReport,
    Objectives,
};
use testbed::traffic::{Traffic, TrafficOptions};

use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{BUSY_PPM, millis, parse_duration, progress_bar, stop_on_signal};

/// Connections that an open loop opens as needed.
const CONNECTIONS_MAX: usize = 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum HammerCommand {
    /// Post bid requests to an exchange, and report its answers and their latency
    #[command(after_help = EXAMPLES)]
    Exchange(ExchangeArgs),
    /// Send batches of bid requests to a pacer, settle what they win, and report its decisions and
    /// their latency
    #[command(after_help = pacer::EXAMPLES)]
    Pacer(pacer::PacerArgs),
    /// Subscribe to a live floor in many ways and publish to it, and report what arrived, how late,
    /// and what it cost the server
    #[command(after_help = live::EXAMPLES)]
    Live(live::LiveArgs),
    /// Let bidders outbid each other on lots of a live floor, and check every price, number and winner
    #[command(after_help = lots::EXAMPLES)]
    Lots(lots::LotsArgs),
}

const EXAMPLES: &str = "\
Examples:
  vickrey hammer exchange --rate 500 --duration 10s --tmax 250ms
  vickrey hammer exchange --rate 6000 --connections 1000 --tmax 250ms --json report.json

Only 200 with a bid response and 204 count as answers. The report counts every status, times each
apart, and quotes the first refusal. It exits 1 if nothing was answered or an objective was missed.";

/// The kind of load, for any service.
#[derive(Debug, Args)]
struct LoadArgs {
    /// Open loop: send this many requests per second, regardless of the exchange's speed
    #[arg(long, conflicts_with = "in_flight")]
    rate: Option<u32>,
    /// Closed loop: keep this many requests in flight [default: 32]
    #[arg(long)]
    in_flight: Option<usize>,
    /// Open this many connections in advance, and use them in turn [default: opened as needed, up
    /// to 1024]
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u16).range(1..))]
    connections: Option<u16>,
    /// How long to measure
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Measure this many requests instead of a duration
    #[arg(long, conflicts_with = "duration")]
    count: Option<u64>,
    /// Send the same load before the run for this long, without measuring
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Longest wait for an answer, and for a free connection in an open loop
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    timeout: Duration,
    /// Deadline for answers: count those in time, and measure the lateness of the others
    #[arg(long, value_parser = parse_duration)]
    tmax: Option<Duration>,
    /// Pin the generating thread to this core
    #[arg(long)]
    core: Option<usize>,
}

/// The report's file and its objectives.
#[derive(Debug, Args)]
struct LoadReportArgs {
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail unless latency p99 is at most this
    #[arg(long, value_parser = parse_duration)]
    p99_max: Option<Duration>,
    /// Fail unless latency p99.9 is at most this
    #[arg(long, value_parser = parse_duration)]
    p999_max: Option<Duration>,
    /// Fail unless p99.9 of the time past --tmax is at most this
    #[arg(long, value_parser = parse_duration, requires = "tmax")]
    overshoot_max: Option<Duration>,
    /// Fail if more than this share of requests fails, in parts per million
    #[arg(long, value_name = "PPM")]
    errors_max: Option<u32>,
    /// Fail unless this many auctions per second are answered
    #[arg(long, value_name = "RATE")]
    rate_min: Option<u32>,
}

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

impl LoadArgs {
    fn options(&self) -> LoadOptions {
        LoadOptions {
            mode: match self.rate {
                Some(rate_per_s) => LoadMode::Open { rate_per_s },
                None => LoadMode::Closed { in_flight: self.in_flight.unwrap_or(32) },
            },
            warm_up: self.warm_up,
            length: self.count.map_or(LoadLength::For(self.duration), LoadLength::Count),
            timeout: self.timeout,
            tmax: self.tmax,
            core: self.core,
            connections: match self.connections {
                Some(count) => LoadConnections::Fixed(count.into()),
                None => LoadConnections::AsNeeded { max: CONNECTIONS_MAX },
            },
        }
    }
}

impl LoadReportArgs {
    const fn objectives(&self) -> Objectives {
        Objectives {
            p99_max: self.p99_max,
            p999_max: self.p999_max,
            overshoot_p999_max: self.overshoot_max,
            error_rate_max_ppm: self.errors_max,
            rate_min: self.rate_min,
        }
    }
}

pub(crate) fn run(command: &HammerCommand) -> anyhow::Result<Exit> {
    match command {
        HammerCommand::Exchange(args) => run_exchange(args),
        HammerCommand::Pacer(args) => pacer::run(args),
        HammerCommand::Live(args) => live::run(args),
        HammerCommand::Lots(args) => lots::run(args),
    }
}

fn run_exchange(args: &ExchangeArgs) -> anyhow::Result<Exit> {
    runtime::process::raise_descriptor_limit();
    args.report.json.as_deref().map_or(Ok(()), output_file::check)?;
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
    let options = args.load.options();
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let bar = LoadBar::new(&options);
    let report = load::run(&options, &args.url, workload, stop, &mut |now| bar.show(now)).map_err(
        |error| match error {
            LoadError::System(_) => CommandFailure::unavailable(error),
            _ => CommandFailure::usage(error),
        },
    )?;
    drop(bar);
    conclude(args, &report)
}

fn conclude(args: &ExchangeArgs, report: &LoadReport<ExchangeOutcomes>) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    write!(out, "{report}")?;
    if report.generator_busy_ppm > BUSY_PPM {
        writeln!(out, "note             the load generator was the bottleneck, not the exchange")?;
    }
    if let Some(file) = &args.report.json {
        output_file::write_text(file, &(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    let violations = report.violations(&args.report.objectives());
    for violation in &violations {
        writeln!(out, "MISSED           {violation}")?;
    }
    let calls = &report.counts.calls;
    if calls.valid == 0 {
        let what = match calls.refused {
            0 => "nothing was answered".to_owned(),
            refused => format!("no auction was run: {refused} requests were refused"),
        };
        writeln!(out, "MISSED           {what}; is an exchange at {}?", args.url)?;
        return Ok(Exit::Missed);
    }
    Ok(if violations.is_empty() { Exit::Done } else { Exit::Missed })
}

struct LoadBar {
    bar: ProgressBar,
    warm_up: Duration,
    length: LoadLength,
}

impl LoadBar {
    fn new(options: &LoadOptions) -> Self {
        let total = match options.length {
            LoadLength::For(duration) => millis(duration),
            LoadLength::Count(count) => count,
        };
        let bar = progress_bar(Some(total), "{bar:30} {percent:>3}% {msg}");
        Self { bar, warm_up: options.warm_up, length: options.length }
    }

    fn show(&self, progress: &LoadProgress) {
        if progress.warming_up {
            self.bar.set_message("warming up");
            return;
        }
        self.bar.set_position(match self.length {
            LoadLength::For(_) => millis(progress.elapsed.saturating_sub(self.warm_up)),
            LoadLength::Count(_) => progress.sent,
        });
        let p99 = progress.latency_us.map_or(0, |latency| latency.p99);
        self.bar.set_message(format!(
            "{} answered, {} in flight, {} errors, p99 {}.{:03} ms",
            progress.answered,
            progress.in_flight,
            progress.errors,
            p99 / 1000,
            p99 % 1000
        ));
    }
}

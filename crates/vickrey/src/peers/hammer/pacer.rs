//! `vickrey hammer pacer`: batches of bid requests and settlements over the pacer's protocol.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use runtime::process::raise_descriptor_limit;
use testbed::pacer::{self, PacerLoadError, PacerLoadOptions, PacerLoadReport};
use units::Ppm;

use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{BUSY_PPM, millis, parse_duration, progress_bar, stop_on_signal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  vickrey hammer pacer --client dsp-1 --secret \"$SECRET\" --duration 10s
  vickrey hammer pacer --client dsp-1 --secret \"$SECRET\" --rate 1000000 --p999-max 2ms

Every reply is checked against its request. The report has the decisions by code, and the cost of all
wins that the pacer booked, to the nano. It exits 1 if a reply was wrong or an objective was missed.";

/// Latency counts from the time at which a batch was intended to be sent, so a stalled pacer cannot
/// hide its own delay.
#[derive(Debug, Args)]
pub(crate) struct PacerArgs {
    /// Address of the pacer
    #[arg(long, default_value = "127.0.0.1:7100")]
    address: SocketAddr,
    /// Id of the client
    #[arg(long, default_value = "dsp-1")]
    client: String,
    /// Its secret; better given as VICKREY_PACER_SECRET
    #[arg(long, env = "VICKREY_PACER_SECRET", hide_env_values = true)]
    secret: String,
    /// Open loop: send this many bid requests per second, regardless of the pacer's speed
    #[arg(long)]
    rate: Option<u64>,
    /// Closed loop: keep this many batches in flight on each connection
    #[arg(long, default_value_t = 4, conflicts_with = "rate")]
    depth: usize,
    /// Connections
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Bid requests in a batch
    #[arg(long, default_value_t = 10)]
    batch: usize,
    /// Candidates of a bid request
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    candidates: u8,
    /// Share of requests that may be bid for, in parts per million; the others have a minimum price
    /// that no strategy reaches
    #[arg(long, value_name = "PPM", default_value_t = 300_000)]
    biddable: u32,
    /// Share of authorised bids that are won and settled, in parts per million
    #[arg(long, value_name = "PPM", default_value_t = 100_000)]
    won: u32,
    /// Share of the others that are reported as lost, in parts per million; the rest expire
    #[arg(long, value_name = "PPM", default_value_t = 0)]
    lost: u32,
    /// Time that the pacer has for each batch
    #[arg(long, default_value = "100ms", value_parser = parse_duration)]
    deadline: Duration,
    /// How long to measure
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Send the same load before the run for this long, without measuring
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pin the generating thread to this core
    #[arg(long)]
    core: Option<usize>,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail unless this many bid requests per second are decided
    #[arg(long, value_name = "RATE")]
    rate_min: Option<u64>,
    /// Fail unless batch latency p99.9 is at most this
    #[arg(long, value_parser = parse_duration)]
    p999_max: Option<Duration>,
    /// Fail unless batch latency is at most this
    #[arg(long, value_parser = parse_duration)]
    latency_max: Option<Duration>,
}

impl PacerArgs {
    fn options(&self) -> anyhow::Result<PacerLoadOptions> {
        let share = |flag: &str, ppm: u32| {
            let share = Ppm::new(ppm).ok_or_else(|| format!("--{flag} {ppm}: at most 1000000"));
            share.map_err(CommandFailure::usage)
        };
        Ok(PacerLoadOptions {
            address: self.address,
            client: self.client.clone(),
            secret: self.secret.clone(),
            connections: self.connections,
            depth: self.depth,
            batch: self.batch,
            candidates: self.candidates,
            biddable: share("biddable", self.biddable)?,
            won: share("won", self.won)?,
            lost: share("lost", self.lost)?,
            rate: self.rate,
            deadline: self.deadline,
            warm_up: self.warm_up,
            duration: self.duration,
            seed: self.seed,
            core: self.core,
        })
    }

    fn missed(&self, report: &PacerLoadReport) -> Vec<String> {
        let mut missed = Vec::new();
        if let Some(least) = self.rate_min.filter(|least| report.requests_per_s < *least) {
            missed.push(format!("{} requests per second, at least {least}", report.requests_per_s));
        }
        let latency = &report.latency_us;
        for (name, found, most) in
            [("p99.9", latency.p999, self.p999_max), ("latency", latency.max, self.latency_max)]
        {
            let most = most.map(|most| u64::try_from(most.as_micros()).unwrap_or(u64::MAX));
            if let Some(most) = most.filter(|most| *most < found) {
                missed.push(format!("{name} of {found} us, at most {most} us"));
            }
        }
        missed
    }
}

pub(super) fn run(args: &PacerArgs) -> anyhow::Result<Exit> {
    raise_descriptor_limit();
    args.json.as_deref().map_or(Ok(()), output_file::check)?;
    let options = args.options()?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let whole = args.warm_up + args.duration;
    let bar = progress_bar(Some(millis(whole)), "{bar:30} {percent:>3}% {msg}");
    let report = pacer::run(&options, &stop, &mut |progress| {
        bar.set_position(millis(progress.elapsed));
        bar.set_message(format!("{} requests decided", progress.requests));
    });
    drop(bar);
    let report = report.map_err(|error| match error {
        PacerLoadError::Options(_) | PacerLoadError::Core { .. } | PacerLoadError::NoCampaigns => {
            CommandFailure::usage(error)
        }
        PacerLoadError::Connection { .. } | PacerLoadError::Closed(_) => {
            CommandFailure::unavailable(error)
        }
        PacerLoadError::Reply(_) => CommandFailure::with_exit(Exit::Missed, error),
    })?;
    let mut out = std::io::stdout().lock();
    write!(out, "{report}")?;
    if report.generator_busy_ppm > BUSY_PPM {
        writeln!(out, "note             the load generator was the bottleneck, not the pacer")?;
    }
    if let Some(file) = &args.json {
        output_file::write_text(file, &(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    let missed = args.missed(&report);
    for missed in &missed {
        writeln!(out, "MISSED           {missed}")?;
    }
    Ok(if missed.is_empty() { Exit::Done } else { Exit::Missed })
}

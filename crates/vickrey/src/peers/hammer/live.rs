//! `vickrey hammer live`: subscribers and publishers on a live floor.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use runtime::process::raise_descriptor_limit;
use testbed::live::{self, LiveLoadError, LiveLoadOptions, LiveLoadReport};

use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{BUSY_PPM, millis, parse_duration, progress_bar, stop_on_signal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  vickrey hammer live --topic news --subscribers 1000 --rate 200 --bytes 200
  vickrey hammer live --topic news --subscribers 90 --stalled 10 --rate 5000 --p99-max 5ms
  vickrey hammer live --topic news --subscribers 10 --reconnecting 50 --rate 1000

The topic must be one of `live.topics`, and `live.limits.commands_per_s` must allow the rate. It
exits 1 if a message is missing or comes twice, or if an objective was missed.";

/// Latency counts from the time at which a message was due, so a stalled server cannot hide its own
/// delay.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Address of the live floor
    #[arg(long, default_value = "127.0.0.1:7200")]
    address: SocketAddr,
    /// The token, unless the server trusts this machine
    #[arg(long, env = "VICKREY_LIVE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Declared topic to publish and subscribe to
    #[arg(long, default_value = "news")]
    topic: String,
    /// What happens to subscribers that read slowly
    #[arg(long, default_value = "strict", value_parser = ["strict", "conflate"])]
    policy: String,
    /// Subscribers that read everything at once
    #[arg(long, default_value_t = 100)]
    subscribers: usize,
    /// Subscribers that never read
    #[arg(long, default_value_t = 0)]
    stalled: usize,
    /// Subscribers that read 4 KiB ten times a second
    #[arg(long, default_value_t = 0)]
    slow: usize,
    /// Subscribers that disconnect about once a second, and resume
    #[arg(long, default_value_t = 0)]
    reconnecting: usize,
    /// Connections that publish; 0 if somebody else does
    #[arg(long, default_value_t = 1)]
    publishers: usize,
    /// Messages per second, of all publishers together
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Length of a message's body
    #[arg(long, default_value_t = 200)]
    bytes: usize,
    /// How long to measure
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Send the same load before the run for this long, without measuring
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Seed of what happens at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pin the generating thread to this core
    #[arg(long)]
    core: Option<usize>,
    /// Process of the server, if it runs here: reports its processor time and memory
    #[arg(long, value_name = "PID")]
    server: Option<u32>,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail unless the p99 of the latency is at most this
    #[arg(long, value_parser = parse_duration)]
    p99_max: Option<Duration>,
    /// Fail unless the p99.9 of the latency is at most this
    #[arg(long, value_parser = parse_duration)]
    p999_max: Option<Duration>,
}

impl LiveArgs {
    fn options(&self) -> LiveLoadOptions {
        LiveLoadOptions {
            address: self.address,
            token: self.token.clone(),
            topic: self.topic.clone(),
            policy: self.policy.clone(),
            subscribers: self.subscribers,
            stalled: self.stalled,
            slow: self.slow,
            reconnecting: self.reconnecting,
            publishers: self.publishers,
            rate: self.rate,
            bytes: self.bytes,
            warm_up: self.warm_up,
            duration: self.duration,
            seed: self.seed,
            core: self.core,
            server: self.server,
        }
    }

    fn missed(&self, report: &LiveLoadReport) -> Vec<String> {
        let mut missed = Vec::new();
        // Who conflates misses messages, and is told so.
        if self.policy == "strict" && report.gaps > 0 {
            missed.push(format!("{} messages are missing", report.gaps));
        }
        if report.duplicates > 0 {
            missed.push(format!("{} messages came twice", report.duplicates));
        }
        if report.delivered == 0 && self.subscribers > 0 {
            missed.push("nothing was delivered".to_owned());
        }
        let latency = &report.latency_us;
        for (name, found, most) in
            [("p99", latency.p99, self.p99_max), ("p99.9", latency.p999, self.p999_max)]
        {
            let most = most.map(|most| u64::try_from(most.as_micros()).unwrap_or(u64::MAX));
            if let Some(most) = most.filter(|most| *most < found) {
                missed.push(format!("{name} of {found} us, at most {most} us"));
            }
        }
        missed
    }
}

/// Why a load on a live floor did not run to its end.
pub(super) fn load_failure(error: LiveLoadError) -> anyhow::Error {
    match error {
        LiveLoadError::Options(_) | LiveLoadError::Core { .. } => CommandFailure::usage(error),
        LiveLoadError::Refused { .. } | LiveLoadError::System(_) => {
            CommandFailure::unavailable(error)
        }
    }
}

pub(super) fn run(args: &LiveArgs) -> anyhow::Result<Exit> {
    raise_descriptor_limit();
    args.json.as_deref().map_or(Ok(()), output_file::check)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let whole = args.warm_up + args.duration;
    let bar = progress_bar(Some(millis(whole)), "{bar:30} {percent:>3}% {msg}");
    let report = live::run(&args.options(), &stop, &mut |progress| {
        bar.set_position(millis(progress.elapsed));
        bar.set_message(format!("{} messages delivered", progress.delivered));
    });
    drop(bar);
    let report = report.map_err(load_failure)?;
    let mut out = std::io::stdout().lock();
    write!(out, "{report}")?;
    if report.generator_busy_ppm > BUSY_PPM {
        writeln!(out, "note             the load generator was the bottleneck, not the server")?;
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

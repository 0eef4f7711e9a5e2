//! What loads of any service have in common: their kind, their progress, and their report.

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use testbed::load::{
    self, LoadConnections, LoadError, LoadLength, LoadMode, LoadOptions, LoadProgress, LoadReport,
    Objectives, Workload,
};

use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;
use crate::peers::long_run::{BUSY_PPM, millis, parse_duration, progress_bar, stop_on_signal};

/// Connections that an open loop opens as needed.
const CONNECTIONS_MAX: usize = 1024;

/// The kind of load, for any service.
#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// Open loop: send this many requests per second, regardless of the service's speed
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
pub(super) struct LoadReportArgs {
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
    /// Fail unless this many requests per second are answered
    #[arg(long, value_name = "RATE")]
    rate_min: Option<u32>,
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

/// What is loaded, in the words of the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadTarget<'t> {
    pub(super) url: &'t str,
    /// As in "is an exchange at …?".
    pub(super) service: &'static str,
    /// What did not happen if all was refused.
    pub(super) nothing: &'static str,
}

/// Loads a service, and reports.
pub(super) fn run_load<W: Workload>(
    target: LoadTarget<'_>,
    workload: W,
    args: &LoadArgs,
    report_args: &LoadReportArgs,
) -> anyhow::Result<Exit>
where
    W::Outcomes: Send + Serialize,
    LoadReport<W::Outcomes>: Display,
{
    runtime::process::raise_descriptor_limit();
    report_args.json.as_deref().map_or(Ok(()), output_file::check)?;
    let options = args.options();
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let bar = LoadBar::new(&options);
    let report = load::run(&options, target.url, workload, stop, &mut |now| bar.show(now));
    drop(bar);
    let report = report.map_err(|error| match error {
        LoadError::System(_) => CommandFailure::unavailable(error),
        _ => CommandFailure::usage(error),
    })?;
    conclude(target, report_args, &report)
}

fn conclude<O: Serialize>(
    target: LoadTarget<'_>,
    args: &LoadReportArgs,
    report: &LoadReport<O>,
) -> anyhow::Result<Exit>
where
    LoadReport<O>: Display,
{
    let mut out = std::io::stdout().lock();
    write!(out, "{report}")?;
    if report.generator_busy_ppm > BUSY_PPM {
        let service = target.service;
        writeln!(out, "note             the load generator was the bottleneck, not the {service}")?;
    }
    if let Some(file) = &args.json {
        output_file::write_text(file, &(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    let violations = report.violations(&args.objectives());
    for violation in &violations {
        writeln!(out, "MISSED           {violation}")?;
    }
    let calls = &report.counts.calls;
    if calls.valid == 0 {
        let what = match calls.refused {
            0 => "nothing was answered".to_owned(),
            refused => format!("{}: {refused} requests were refused", target.nothing),
        };
        let LoadTarget { service, url, .. } = target;
        let article = if service.starts_with('e') { "an" } else { "a" };
        writeln!(out, "MISSED           {what}; is {article} {service} at {url}?")?;
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

//! `vickrey dsp`: simulated DSPs in a process of their own.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use runtime::shutdown::Shutdown;
use testbed::dsp::{DspProfile, FleetOptions, LatencySpread, PriceSpread};

use crate::exit::{Exit, Failure, write_file};
use crate::hammer::BUSY_PPM;

#[derive(Debug, Args)]
pub(crate) struct DspArgs {
    /// How many DSPs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// Address that all of them listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port of the first, the others following; absent, the system chooses
    #[arg(long)]
    base_port: Option<u16>,
    /// Share of requests that are answered with a bid, in percent
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=100))]
    bid_percent: u32,
    /// Size of one bid, in bytes
    #[arg(long, default_value_t = 1100)]
    bid_bytes: usize,
    /// Median offer, in USD per 1000 impressions, for example 1.50
    #[arg(long, default_value = "1.50", value_parser = parse_cpm)]
    price_median: u64,
    /// Latency as MIN,MEDIAN,P99 in milliseconds; `0,0,0` answers at once
    #[arg(long, default_value = "0,0,0", value_parser = parse_latency)]
    latency_ms: LatencySpread,
    /// Share of answers that come after 500 ms, in parts per million
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    late_ppm: u32,
    /// Share of bids sent chunked, in parts per million
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    chunked_ppm: u32,
    /// Source of every choice; equal seeds choose equally
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that share the DSPs
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Core of the first thread
    #[arg(long)]
    core: Option<usize>,
    /// Write a `[[dsp]]` table for each to this file, to append to a configuration
    #[arg(long, value_name = "FILE")]
    write_config: Option<PathBuf>,
    /// Write each one's URL to this file, a line each
    #[arg(long, value_name = "FILE")]
    write_urls: Option<PathBuf>,
}

fn parse_cpm(text: &str) -> Result<u64, String> {
    let price = units::Cpm::parse(text, units::Round::Down).map_err(|error| error.to_string())?;
    Ok(price.micros())
}

fn parse_latency(text: &str) -> Result<LatencySpread, String> {
    let parts: Result<Vec<u64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match parts.as_deref() {
        Ok([min, median, p99]) if min <= median && median <= p99 => {
            let [min, median, p99] = [*min, *median, *p99].map(Duration::from_millis);
            Ok(LatencySpread { min, median, p99 })
        }
        _ => Err("expected MIN,MEDIAN,P99 in rising order, for example 2,10,60".to_owned()),
    }
}

pub(crate) fn run(args: &DspArgs) -> anyhow::Result<Exit> {
    runtime::process::raise_descriptor_limit()?;
    let profile = DspProfile {
        seed: args.seed,
        no_bid_ppm: (100 - args.bid_percent) * 10_000,
        price: PriceSpread { median_micros: args.price_median, ..DspProfile::default().price },
        latency: args.latency_ms,
        late_ppm: args.late_ppm,
        chunked_ppm: args.chunked_ppm,
        bid_bytes: args.bid_bytes,
        ..DspProfile::default()
    };
    let options = FleetOptions {
        dsps: vec![profile; args.count.into()],
        listen: args.listen,
        base_port: args.base_port,
        threads: args.threads,
        core: args.core,
        ..FleetOptions::default()
    };
    let fleet = testbed::dsp::start(options).map_err(Failure::unavailable)?;
    let urls: Vec<_> =
        fleet.addresses().iter().map(|address| format!("http://{address}/bid")).collect();
    if let Some(file) = &args.write_config {
        let table = |(index, url): (usize, &String)| {
            format!(
                "[[dsp]]\nid = \"dsp-{index}\"\nurl = \"{url}\"\nseats = [\"seat-{index}\"]\n\n"
            )
        };
        write_file(file, &urls.iter().enumerate().map(table).collect::<String>())?;
    }
    if let Some(file) = &args.write_urls {
        write_file(file, &(urls.join("\n") + "\n"))?;
    }
    let first = urls.first().map_or("", |url| url);
    writeln!(
        std::io::stdout(),
        "{} DSPs listen, the first at {first}; stop with Ctrl-C",
        args.count
    )?;
    let shutdown = Shutdown::new(Duration::ZERO);
    shutdown.on_signals()?;
    let mut watch = Watch::new();
    while !shutdown.is_started() {
        std::thread::park_timeout(Duration::from_millis(100));
        watch.look(&fleet.stats().cpu)?;
    }
    let total = fleet.stats().total();
    let cpu: Duration = fleet.stats().cpu.iter().sum();
    writeln!(
        std::io::stdout(),
        "{} requests: {} answered with {} bids, {} without, {} late, {} malformed; {:.3} s of CPU",
        total.requests,
        total.bid_answers,
        total.bids,
        total.no_bids,
        total.late,
        total.malformed,
        cpu.as_secs_f64()
    )?;
    fleet.stop()?;
    Ok(Exit::Done)
}

/// Says once when the DSPs, and not the exchange, are what limits a measurement.
struct Watch {
    since: Instant,
    cpu: Vec<Duration>,
    told: bool,
}

impl Watch {
    fn new() -> Self {
        Self { since: Instant::now(), cpu: Vec::new(), told: false }
    }

    /// `cpu` is the time that each thread has used so far.
    fn look(&mut self, cpu: &[Duration]) -> std::io::Result<()> {
        let elapsed = self.since.elapsed();
        if elapsed < Duration::from_secs(1) {
            return Ok(());
        }
        let used = cpu.iter().zip(&self.cpu).map(|(now, before)| now.saturating_sub(*before));
        let busiest = used.max().unwrap_or_default();
        let busy_ppm = busiest.as_micros() * 1_000_000 / elapsed.as_micros();
        (self.since, self.cpu) = (Instant::now(), cpu.to_vec());
        if busy_ppm > BUSY_PPM.into() && !self.told {
            self.told = true;
            let busy = busy_ppm / 10_000;
            let note = "the DSPs are the bottleneck, add --threads or --latency-ms";
            writeln!(std::io::stdout(), "note: a thread is {busy} % busy: {note}")?;
        }
        Ok(())
    }
}

//! `vickrey dsp`: runs simulated DSPs, healthy or faulty, in a process of their own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use runtime::control::Control;
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use testbed::dsp::{
    ACTS, ActDoc, DspProfile, DspStats, Fleet, LatencySpread, NoticeStats, PriceSpread,
};
use testbed::server::{ServedVersions, ServerOptions, ServerTls};

use super::long_run::BUSY_PPM;
use crate::command::exit::{CommandFailure, Exit};
use crate::command::output_file;

/// Arguments that conflict with a profile file.
const PLAIN: [&str; 8] = [
    "count",
    "bid_percent",
    "bid_bytes",
    "price_median",
    "latency_ms",
    "late_ppm",
    "chunked_ppm",
    "seed",
];

#[derive(Debug, Args)]
#[command(
    after_help = "A profile file holds `[[dsp]]` tables, each with a `[[dsp.phase]]` for every step of its\nschedule:\n\n  [[dsp]]\n  count = 2\n  bids = \"80%\"\n  price = \"1.50 USD\"\n  latency = { min = \"1ms\", median = \"8ms\", p99 = \"60ms\" }\n\n  [[dsp.phase]]\n  lasts = \"10s\"\n  kind = \"healthy\"\n\n  [[dsp.phase]]\n  kind = \"trickle\"\n  every = \"20ms\"\n  share = \"50%\"\n\nKinds: --list-behaviours. Keys: --list-keys. Examples: deploy/testbed/."
)]
pub(crate) struct DspArgs {
    /// Profiles of one or more DSPs, healthy or hostile, with schedules
    #[arg(long, value_name = "FILE", conflicts_with_all = PLAIN)]
    profiles: Option<PathBuf>,
    /// Print the kinds of behaviour for profiles and exit
    #[arg(long)]
    list_behaviours: bool,
    /// Print every key of a profile file and exit
    #[arg(long)]
    list_keys: bool,
    /// Serve TLS, with a certificate generated for this run unless one is given
    #[arg(long)]
    tls: bool,
    /// Write the certificate of the authority that signed the generated one to this file, as PEM
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "certificate")]
    write_ca: Option<PathBuf>,
    /// Certificates for TLS, as PEM, the DSPs' own first
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    certificate: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Number of DSPs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    /// Address that all of them listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port of the first DSP, the others following [default: chosen by the system]
    #[arg(long)]
    base_port: Option<u16>,
    /// Share of requests answered with a bid, in percent
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=100))]
    bid_percent: u32,
    /// Size of one bid, in bytes
    #[arg(long, default_value_t = 1100)]
    bid_bytes: usize,
    /// Median bid, in USD per 1000 impressions, for example 1.50
    #[arg(long, default_value = "1.50", value_parser = parse_cpm)]
    price_median: u64,
    /// Latency as MIN,MEDIAN,P99 in milliseconds; `0,0,0` answers at once
    #[arg(long, default_value = "0,0,0", value_parser = parse_latency)]
    latency_ms: LatencySpread,
    /// Share of answers that take 500 ms instead of a latency, in parts per million
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    late_ppm: u32,
    /// Share of answers with bids that are sent chunked, in parts per million
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    chunked_ppm: u32,
    /// Seed of every choice; equal seeds make equal choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON: behaviours, keys, or the final counts
    #[arg(long)]
    json: bool,
    /// Threads that share the DSPs
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Core of the first thread
    #[arg(long)]
    core: Option<usize>,
    /// Versions of HTTP to speak: both, 1.1 or 2. With both, ALPN chooses under TLS, and without it a
    /// connection that begins with the preface of HTTP/2 speaks HTTP/2
    #[arg(long, default_value = "both", value_parser = parse_versions)]
    http: ServedVersions,
    /// Write a `[[dsp]]` table for each DSP to this file, to append to a configuration; it trusts
    /// the file of --write-ca
    #[arg(long, value_name = "FILE")]
    write_config: Option<PathBuf>,
    /// Print these tables and exit; without this option, the same command runs DSPs at those
    /// addresses
    #[arg(long, requires = "base_port", conflicts_with_all = ["write_config", "write_ca"])]
    print_config: bool,
    /// Write each DSP's URL to this file, one per line
    #[arg(long, value_name = "FILE")]
    write_urls: Option<PathBuf>,
}

fn parse_cpm(text: &str) -> Result<u64, String> {
    let price =
        units::Cpm::parse(text, units::Rounding::Down).map_err(|error| error.to_string())?;
    Ok(price.micros())
}

fn parse_versions(text: &str) -> Result<ServedVersions, String> {
    match text {
        "both" => Ok(ServedVersions::Both),
        "1.1" => Ok(ServedVersions::Http1),
        "2" => Ok(ServedVersions::Http2),
        _ => Err("expected both, 1.1 or 2".to_owned()),
    }
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
    if args.list_behaviours {
        return list_behaviours(args.json);
    }
    if args.list_keys {
        let reference = testbed::dsp::profiles_reference();
        match args.json {
            true => writeln!(std::io::stdout(), "{:#}", json!({ "reference": reference }))?,
            false => std::io::stdout().write_all(reference.as_bytes())?,
        }
        return Ok(Exit::Done);
    }
    let dsps = profiles(args)?;
    let tls = tls(args)?;
    let options = ServerOptions {
        listen: args.listen,
        base_port: args.base_port,
        threads: args.threads,
        core: args.core,
        tls,
        http: args.http,
        ..ServerOptions::default()
    };
    if args.print_config {
        let urls = testbed::dsp::urls(&dsps, &options).map_err(CommandFailure::usage)?;
        std::io::stdout().write_all(configuration(&dsps, &urls, args)?.as_bytes())?;
        return Ok(Exit::Done);
    }
    runtime::process::raise_descriptor_limit();
    let fleet = testbed::dsp::start(dsps.clone(), &options).map_err(CommandFailure::unavailable)?;
    let urls: Vec<_> = (0..dsps.len()).map(|dsp| fleet.url(dsp)).collect();
    if let Some(file) = &args.write_config {
        output_file::write_text(file, &configuration(&dsps, &urls, args)?)?;
    }
    if let Some(file) = &args.write_urls {
        output_file::write_text(file, &(urls.join("\n") + "\n"))?;
    }
    // The reader of the line with the addresses may stop them at once.
    let shutdown = Shutdown::new(Duration::ZERO);
    let control = Control::start()?;
    shutdown.on_signals(&control)?;
    let (count, first) = (urls.len(), urls.first().map_or("", |url| url));
    let listening = match count {
        1 => format!("1 DSP listens at {first}"),
        _ => format!("{count} DSPs listen, the first at {first}"),
    };
    match args.json {
        true => writeln!(std::io::stdout(), "{}", json!({ "urls": urls }))?,
        false => writeln!(std::io::stdout(), "{listening}; stop with Ctrl-C")?,
    }
    let mut watch = BottleneckWatch::new();
    while !shutdown.is_started() {
        std::thread::park_timeout(Duration::from_millis(100));
        watch.check(&fleet.stats().cpu, args.json)?;
    }
    match args.json {
        true => writeln!(std::io::stdout(), "{}", as_json(&fleet))?,
        false => sum_up(&fleet)?,
    }
    fleet.stop()?;
    Ok(Exit::Done)
}

fn list_behaviours(is_json: bool) -> anyhow::Result<Exit> {
    if is_json {
        let act = |act: &ActDoc| json!({ "name": act.name, "what": act.line, "keys": act.knobs });
        let acts: Vec<_> = ACTS.iter().map(act).collect();
        writeln!(std::io::stdout(), "{:#}", json!({ "behaviours": acts }))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for act in &ACTS {
        writeln!(text, "{:<15} {}", act.name, act.line)?;
        if !act.knobs.is_empty() {
            writeln!(text, "{:<15}   {}", "", act.knobs.join(", "))?;
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn profiles(args: &DspArgs) -> anyhow::Result<Vec<DspProfile>> {
    if let Some(file) = &args.profiles {
        return testbed::dsp::load_profiles(file).map_err(CommandFailure::usage);
    }
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
    Ok(vec![profile; args.count.into()])
}

fn tls(args: &DspArgs) -> anyhow::Result<Option<ServerTls>> {
    let read = |file: &PathBuf| {
        let told =
            |error| CommandFailure::usage(format!("cannot read {}: {error}", file.display()));
        std::fs::read(file).map_err(told)
    };
    if let (Some(certificate), Some(key)) = (&args.certificate, &args.key) {
        let tls =
            ServerTls::from_pem(&read(certificate)?, &read(key)?).map_err(CommandFailure::usage)?;
        return Ok(Some(tls));
    }
    if !args.tls {
        return Ok(None);
    }
    let (tls, authority) =
        ServerTls::generated(args.listen).map_err(CommandFailure::unavailable)?;
    if let Some(file) = &args.write_ca {
        output_file::write_text(file, &authority)?;
    }
    Ok(Some(tls))
}

/// A `[[dsp]]` table of an exchange for each DSP, with the authority's file.
fn configuration(dsps: &[DspProfile], urls: &[String], args: &DspArgs) -> anyhow::Result<String> {
    let mut text = String::new();
    let authority = args.write_ca.as_deref().map(std::path::absolute).transpose()?;
    for (index, (profile, url)) in dsps.iter().zip(urls).enumerate() {
        let quoted: Vec<_> = profile.seats.iter().map(|seat| format!("\"{seat}\"")).collect();
        let seats = match quoted.as_slice() {
            [] => format!("\"seat-{index}\""),
            seats => seats.join(", "),
        };
        let _ = write!(text, "[[dsp]]\nid = \"dsp-{index}\"\nurl = \"{url}\"\nseats = [{seats}]\n");
        if profile.currency != "USD" {
            let _ = writeln!(text, "currencies = [\"{}\"]", profile.currency);
        }
        match args.http {
            ServedVersions::Both => (),
            ServedVersions::Http1 => text.push_str("http = \"1.1\"\n"),
            ServedVersions::Http2 => text.push_str("http = \"2\"\n"),
        }
        if let Some(file) = &authority {
            let _ = writeln!(text, "ca = {:?}", format!("file:{}", file.display()));
        }
        text.push('\n');
    }
    Ok(text)
}

const fn notices(total: &DspStats) -> [(&'static str, NoticeStats); 4] {
    [("nurl", total.win), ("burl", total.bill), ("lurl", total.loss), ("view", total.view)]
}

fn as_json(fleet: &Fleet) -> Value {
    let stats = fleet.stats();
    let total = stats.total();
    let DspStats { requests, bid_answers, bids, no_bids, late, malformed, misbehaved, .. } = &total;
    let cpu: Duration = stats.cpu.iter().sum();
    let notices = notices(&total).into_iter().map(|(kind, notices)| {
        let counted = json!({
            "calls": notices.calls,
            "counted": notices.counted,
            "failed": notices.failed,
            "malformed": notices.malformed,
            "repeated": notices.duplicates,
            "overpriced": notices.overpriced,
        });
        (kind.to_owned(), counted)
    });
    json!({
        "requests": requests,
        "answered_with_bids": bid_answers,
        "bids": bids,
        "no_bids": no_bids,
        "late": late,
        "malformed": malformed,
        "sick": misbehaved,
        "cpu_us": u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
        "notices": notices.collect::<serde_json::Map<_, _>>(),
    })
}

fn sum_up(fleet: &Fleet) -> anyhow::Result<()> {
    let stats = fleet.stats();
    let total = stats.total();
    let DspStats { requests, bid_answers, bids, no_bids, late, malformed, misbehaved, .. } = total;
    let cpu: Duration = stats.cpu.iter().sum();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{requests} requests: {bid_answers} answered with {bids} bids, {no_bids} without, \
         {late} late, {malformed} malformed; {:.3} s of CPU",
        cpu.as_secs_f64()
    )?;
    if misbehaved > 0 {
        writeln!(out, "{misbehaved} requests fell on sick phases")?;
    }
    for (kind, notices) in notices(&total).into_iter().filter(|(_, notices)| notices.calls > 0) {
        writeln!(
            out,
            "{} calls of {kind}: {} counted, {} failed, {} malformed, {} repeated, {} overpriced",
            notices.calls,
            notices.counted,
            notices.failed,
            notices.malformed,
            notices.duplicates,
            notices.overpriced
        )?;
    }
    Ok(())
}

/// Warns once if the DSPs limit a measurement.
struct BottleneckWatch {
    since: Instant,
    cpu: Vec<Duration>,
    is_reported: bool,
}

impl BottleneckWatch {
    fn new() -> Self {
        Self { since: Instant::now(), cpu: Vec::new(), is_reported: false }
    }

    /// `cpu` is the CPU time of each thread so far.
    fn check(&mut self, cpu: &[Duration], is_json: bool) -> std::io::Result<()> {
        let elapsed = self.since.elapsed();
        if elapsed < Duration::from_secs(1) {
            return Ok(());
        }
        let used = cpu.iter().zip(&self.cpu).map(|(now, before)| now.saturating_sub(*before));
        let busiest = used.max().unwrap_or_default();
        let busy_ppm = busiest.as_micros() * 1_000_000 / elapsed.as_micros();
        (self.since, self.cpu) = (Instant::now(), cpu.to_vec());
        if busy_ppm > BUSY_PPM.into() && !self.is_reported {
            self.is_reported = true;
            let busy = busy_ppm / 10_000;
            let note = "the DSPs are the bottleneck, add --threads or --latency-ms";
            let note = format!("note: a thread is {busy} % busy: {note}");
            match is_json {
                true => writeln!(std::io::stderr(), "{note}")?,
                false => writeln!(std::io::stdout(), "{note}")?,
            }
        }
        Ok(())
    }
}

//! `vickrey demo`: an exchange and a pacer, simulated DSPs, a bidder and traffic in one process, over
//! real sockets, and a summary of what they do.

mod args;
mod bidder;
mod campaigns;
mod creatives;
mod enrichment;
mod feed;
mod format;
mod lookup;
mod pacer;
mod screen;
mod summary;
mod watch;

use std::fmt::Write as _;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::LaneKind;
use cache_serve::Cache;
use exchange_serve::{AUCTION_PATH, Exchange};
use live_serve::Live;
use runtime::config::{Loaded, parse_loaded};
use runtime::control::Control;
use runtime::listen::listen;
use runtime::service::{Shell, ShellOptions};
use runtime::shutdown::Shutdown;
use serde::Serialize;
use serde_json::Value;
use testbed::cache::CacheOutcomes;
use testbed::dsp::{DspProfile, Fleet, LatencySpread, PriceSpread};
use testbed::exchange::{Beacons, ExchangeLoad, ExchangeOutcomes};
use testbed::load::{LoadLength, LoadMode, LoadOptions, LoadReport};
use testbed::origin::SimulatedOrigin;
use testbed::pacer::PacerLoadReport;
use testbed::provider::ProviderFarm;
use testbed::server::ServerOptions;
use testbed::traffic::{Traffic, TrafficOptions};

use crate::command::exit::{CommandFailure, Exit};
use crate::config::budgets::CampaignBudgets;
use crate::config::{read_config, services};
use crate::peers::long_run::stop_on_signal;
pub(crate) use args::DemoArgs;
use args::OtherDemo;
use screen::output;
use summary::{CallerLatency, DemoSummary, Totals};
use watch::{DemoLoad, WatchedDemo};

/// Brands behind the simulated seats, so that the summary reads like a market.
const SEATS: [&str; 10] = [
    "northwind",
    "acme",
    "globex",
    "initech",
    "umbrella",
    "hooli",
    "stark",
    "wayne",
    "tyrell",
    "soylent",
];

/// A warning about descriptors. Both ends of the DSPs' connections, at most 32 for each, are in
/// this process. None if there are enough.
fn few_descriptors(limit: u64, dsps: u16) -> Option<String> {
    const PER_DSP: u64 = 2 * 32;
    const OTHERS: u64 = 512;
    let needed = OTHERS + PER_DSP * u64::from(dsps);
    let fitting = (limit.saturating_sub(OTHERS) / PER_DSP).max(1);
    (limit < needed).then(|| {
        format!(
            "at most {limit} files may be open, and {dsps} DSPs may need {needed}: raise `ulimit -n`, or take \
             `--dsps {fitting}`"
        )
    })
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    match &args.other {
        Some(OtherDemo::Pacer(args)) => pacer::run(args),
        Some(OtherDemo::Lookup(args)) => lookup::run(args),
        None => run_exchange(args),
    }
}

#[expect(clippy::print_stderr, reason = "a warning, before there is a log")]
fn run_exchange(args: &DemoArgs) -> anyhow::Result<Exit> {
    if args.print_config {
        return print_configuration(args);
    }
    args.record.as_deref().map_or(Ok(()), refuse_record)?;
    if let Some(warning) = few_descriptors(runtime::process::raise_descriptor_limit(), args.dsps) {
        eprintln!("warning: {warning}");
    }
    runtime::process::keep_files_private();
    let folder = tempfile::tempdir()?;
    let peers = DemoPeers::start(args, folder.path())?;
    let record = args.record.clone().unwrap_or_else(|| folder.path().join("record"));
    let (listeners, [callers, bidders, watchers, players, lookups]) = open_listeners()?;
    let places = DemoPlaces {
        callers,
        bidders: Some(bidders),
        watchers,
        players,
        creatives: peers.origin.url(),
        lookups: Some(lookups),
        operators: ([127, 0, 0, 1], 0).into(),
        dsps: peers.fleet.addresses(),
        budgets: &folder.path().join("budgets"),
        record: &record,
    };
    let Loaded { value: config, effective, .. } =
        parse_loaded("the demo's configuration", &configuration(args, &places), read_config)?;
    runtime::logging::start(config.logging.clone())?;
    let shutdown = Shutdown::new(config.drain);
    campaigns::define(&folder.path().join("campaigns.d"), args)?;
    let url = format!("http://{}{AUCTION_PATH}", places.callers);
    let options = ShellOptions {
        effective,
        file: None,
        folder: folder.path(),
        listeners,
        shutdown: shutdown.clone(),
        control: Control::start()?,
    };
    let shell = Shell::start(&services(), config, options).map_err(CommandFailure::of_shell)?;
    let admin = shell.admin_address();
    let exchange = shell.service::<Exchange>().expect("the demo configures an exchange");
    let budgets = shell.service::<CampaignBudgets>();
    let live = shell.service::<Live>().expect("the demo configures a live floor");
    let cache = shell.service::<Cache>().expect("the demo configures a cache");
    let follower = feed::follow(live.address())?;
    let mut out = output(args.json);
    introduce(args, &url, [admin, live.address()], &mut *out)?;
    let (beacons, budgets) = (beacons_at(places.callers), budgets.as_deref());
    let (live, cache) = (&*live, &*cache);
    let (exchange, providers) = (&*exchange, &peers.providers);
    let watched = WatchedDemo { args, exchange, budgets, live, cache, providers, url: &url };
    let report = drive(&watched, &beacons, bidders, &mut *out)?;
    let summed = summarise(&watched, &report, &mut *out)?;
    let billed = report.bidder.billed_nanos;
    let spent = budgets.map_or(0, |it| bidder::await_books(it, &[bidder::CAMPAIGN], billed));
    shutdown.begin();
    let ended = shell.join();
    drop(follower.join());
    peers.stop()?;
    ended.map_err(CommandFailure::of_shell)?;
    bidder::compare(spent, billed)?;
    if args.json {
        let mut result = serde_json::to_value(&report)?;
        result["summary"] = summed;
        return print_json(&record, result);
    }
    replay(args, &record, &mut *out)
}

/// Simulated servers beside the exchange.
struct DemoPeers {
    fleet: Fleet,
    origin: SimulatedOrigin,
    providers: ProviderFarm,
}

impl DemoPeers {
    /// Starts them; `folder` gets the map of the providers.
    fn start(args: &DemoArgs, folder: &Path) -> anyhow::Result<Self> {
        let fleet = testbed::dsp::start(profiles(args), &ServerOptions::default())
            .map_err(CommandFailure::unavailable)?;
        let (origin, providers) = (creatives::origin()?, enrichment::providers()?);
        enrichment::write_map(&folder.join("maps"), &providers)?;
        Ok(Self { fleet, origin, providers })
    }

    fn stop(self) -> std::io::Result<()> {
        self.fleet.stop()?;
        self.origin.stop()?;
        self.providers.stop()
    }
}

fn introduce(
    args: &DemoArgs,
    url: &str,
    [admin, live]: [SocketAddr; 2],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "exchange at {url}, {} simulated DSPs, {} requests/s", args.dsps, args.rate)?;
    writeln!(out, "metrics at http://{admin}/metrics; Ctrl-C ends the demo with its report")?;
    writeln!(out, "auctions as they clear: vickrey watch --at {live}\n")
}

/// Listeners on ports that the system chooses, and their addresses. They are open before the
/// configuration is written: beacons name a port.
fn open_listeners<const N: usize>() -> anyhow::Result<(Vec<TcpListener>, [SocketAddr; N])> {
    let open = |_| listen(([127, 0, 0, 1], 0).into());
    let listeners: Result<Vec<_>, _> = (0..N).map(open).collect();
    let listeners = listeners.map_err(CommandFailure::unavailable)?;
    let addresses: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    let addresses = addresses?.try_into().expect("there are so many");
    Ok((listeners, addresses))
}

/// Prints the summary and what each side has seen, and returns the summary.
fn summarise(
    watched: &WatchedDemo<'_>,
    DemoReport { callers, bidder, players }: &DemoReport,
    out: &mut dyn Write,
) -> anyhow::Result<Value> {
    let WatchedDemo { args, exchange, budgets, live, cache, providers, .. } = *watched;
    let totals = Totals::of(exchange);
    let (generation, late) = (exchange.generation(), callers.counts.calls.after_tmax);
    let latency = CallerLatency { latency: callers.latency_us, late };
    let (config, auctions_per_s) = (&generation.config, totals.auctions_per_s(callers.duration_s));
    let summary = DemoSummary { config, totals: &totals, auctions_per_s, callers: latency };
    writeln!(out, "{summary}")?;
    let campaigns = budgets.map_or_else(Vec::new, |budgets| campaigns::lines(budgets, args));
    let (feed, creatives) = (feed::brief(live), creatives::brief(cache));
    let enriched = enrichment::brief(&generation, providers);
    writeln!(out, "{}\n\n{feed}\n{creatives}\n{enriched}", campaigns.join("\n"))?;
    write!(out, "\nseen by the callers\n{callers}\nseen by the bidder\n{bidder}")?;
    write!(out, "\nseen by the players\n{players}")?;
    Ok(summary.as_json())
}

/// Replays the record, and says how to look at it if it is kept.
fn replay(args: &DemoArgs, record: &Path, out: &mut dyn Write) -> anyhow::Result<Exit> {
    writeln!(out, "\nreplayed from the record")?;
    let ended = crate::log::replay_all(record, false, out)?;
    if args.record.is_some() {
        writeln!(out, "look at it with: vickrey log report --by seat --dir {}", record.display())?;
    }
    Ok(ended)
}

/// Adds the replay of the record to the result, and prints it.
fn print_json(record: &Path, mut result: Value) -> anyhow::Result<Exit> {
    let mut replayed = Vec::new();
    let ended = crate::log::replay_all(record, true, &mut replayed)?;
    let last = replayed.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    result["replay"] = serde_json::from_slice(last.unwrap_or_default())?;
    writeln!(std::io::stdout(), "{result:#}")?;
    Ok(ended)
}

/// What each side has seen.
#[derive(Serialize)]
struct DemoReport {
    callers: LoadReport<ExchangeOutcomes>,
    bidder: PacerLoadReport,
    players: LoadReport<CacheOutcomes>,
}

/// Sends traffic until the time is up or Ctrl-C, and shows progress.
fn drive(
    watched: &WatchedDemo<'_>,
    beacons: &str,
    pacer: SocketAddr,
    out: &mut dyn Write,
) -> anyhow::Result<DemoReport> {
    let (args, url) = (watched.args, watched.url);
    let options = LoadOptions {
        mode: LoadMode::Open { rate_per_s: args.rate },
        warm_up: Duration::ZERO,
        length: LoadLength::For(args.duration),
        tmax: Some(Duration::from_millis(250)),
        ..LoadOptions::default()
    };
    let beacons = Beacons { prefix: beacons.to_owned(), share_ppm: 1_000_000 };
    let traffic = TrafficOptions { seed: args.seed, ..TrafficOptions::default() };
    let traffic = Traffic::generated(&traffic).map_err(CommandFailure::usage)?;
    let workload =
        ExchangeLoad::new(url, traffic, Some(beacons)).map_err(CommandFailure::unavailable)?;
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let (playing, creatives) = creatives::load(watched.cache.address(), args)?;
    let asked = bidder::load(pacer, bidder::RATE_PER_S, args.duration, args.seed);
    let load = DemoLoad {
        progress: Mutex::new(None),
        bidder: Mutex::new(None),
        is_done: AtomicBool::new(false),
        stop,
    };
    std::thread::scope(|scope| {
        let hammer = scope.spawn(|| {
            let stop = Arc::clone(&load.stop);
            let report = testbed::load::run(&options, url, workload, stop, &mut |now| {
                *load.progress.lock().expect("nothing panics while it holds the progress") =
                    Some(*now);
            });
            load.is_done.store(true, Ordering::Relaxed);
            report
        });
        let bidder = scope.spawn(|| {
            testbed::pacer::run(&asked, &load.stop, &mut |now| {
                *load.bidder.lock().expect("nothing panics while it holds the progress") =
                    Some(*now);
            })
        });
        let players = scope.spawn(|| {
            let stop = Arc::clone(&load.stop);
            testbed::load::run(&playing, "creatives", creatives, stop, &mut |_| ())
        });
        let watched = watch::watch(watched, &load, out);
        if watched.is_err() {
            load.stop.store(true, Ordering::Relaxed);
        }
        let report = hammer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let bidder = bidder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let players = players.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        watched?;
        Ok(DemoReport {
            callers: report.map_err(CommandFailure::unavailable)?,
            bidder: bidder.map_err(CommandFailure::unavailable)?,
            players: players.map_err(CommandFailure::unavailable)?,
        })
    })
}

/// Fifty DSPs of one kind would bid alike: these differ in appetite, price, speed and currency.
fn profiles(args: &DemoArgs) -> Vec<DspProfile> {
    let profile = |index: u16| {
        let step = u64::from(index % 10);
        let percent = 10 + u32::from(index % 7) * 8;
        let ms = Duration::from_millis;
        DspProfile {
            seed: args.seed,
            seats: vec![seat(index)],
            no_bid_ppm: 1_000_000 - percent * 10_000,
            price: PriceSpread {
                median_micros: 600_000 + step * 250_000,
                ..DspProfile::default().price
            },
            currency: currency(index).to_owned(),
            latency: LatencySpread {
                min: ms(1),
                median: ms(8 + step * 3),
                p99: ms(60 + step * 12),
            },
            late_ppm: if index % 10 == 9 { 20_000 } else { 0 },
            late_by: ms(400),
            chunked_ppm: if index.is_multiple_of(5) { 500_000 } else { 0 },
            ..DspProfile::default()
        }
    };
    (0..args.dsps).map(profile).collect()
}

fn seat(index: u16) -> String {
    let brand = SEATS[usize::from(index) % SEATS.len()];
    format!("{brand}-{}", usize::from(index) / SEATS.len() + 1)
}

/// One DSP in eight bids in euros.
fn currency(index: u16) -> &'static str {
    if index % 8 == 3 { "EUR" } else { "USD" }
}

/// Where the exchange and its DSPs listen, and where the exchange keeps its files.
struct DemoPlaces<'p> {
    callers: SocketAddr,
    /// None: without a pacer.
    bidders: Option<SocketAddr>,
    watchers: SocketAddr,
    players: SocketAddr,
    /// URL of the creatives' origin.
    creatives: &'p str,
    /// None: nothing is looked up.
    lookups: Option<SocketAddr>,
    operators: SocketAddr,
    dsps: &'p [SocketAddr],
    budgets: &'p Path,
    record: &'p Path,
}

/// Refuses another run's record: its budgets are gone.
fn refuse_record(directory: &Path) -> anyhow::Result<()> {
    let has = |lane: LaneKind| directory.join(lane.name()).exists();
    if has(LaneKind::Durable) || has(LaneKind::Firehose) {
        let directory = directory.display();
        let message = format!("--record {directory}: holds a record; name an empty directory");
        return Err(CommandFailure::usage(message));
    }
    Ok(())
}

/// Prints a configuration like the demo's that a user can run.
fn print_configuration(args: &DemoArgs) -> anyhow::Result<Exit> {
    let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let dsps: Vec<_> = (0..args.dsps).map(|index| local(9001 + index)).collect();
    let places = DemoPlaces {
        callers: local(8080),
        bidders: None,
        watchers: local(7200),
        players: local(7300),
        creatives: "http://127.0.0.1:8081",
        lookups: None,
        operators: local(9464),
        dsps: &dsps,
        budgets: Path::new("budgets"),
        record: args.record.as_deref().unwrap_or(Path::new("record")),
    };
    let text = format!("{PRINTED}{}", configuration(args, &places));
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

const PRINTED: &str = "\
# Like the exchange of `vickrey demo`, which chooses its ports and keeps its files in a temporary folder.
# The demo runs simulated DSPs and an origin, and defines its own campaigns: put your DSPs into the [[dsp]]
# tables, your origin into [[cache.route]], and create the folder campaigns.d for your campaigns.

";

/// The URL of beacons, as behind a proxy with TLS: requests require HTTPS.
fn beacons_at(address: SocketAddr) -> String {
    format!("https://{address}/n/")
}

/// The exchange's configuration, as a file would have it.
fn configuration(args: &DemoArgs, places: &DemoPlaces<'_>) -> String {
    let DemoPlaces {
        callers,
        bidders,
        watchers,
        players,
        creatives,
        lookups,
        operators,
        dsps,
        budgets,
        record,
    } = *places;
    let beacons = beacons_at(callers);
    let mut text = format!(
        "[runtime]\nshards = {}\n\n[admin]\nlisten = \"{operators}\"\n\n[log]\nfilter = \"warn\"\n\n\
         [exchange]\nlisten = \"{callers}\"\nfee = \"10%\"\n\n\
         [exchange.notices]\nurl = \"{beacons}\"\n\n\
         [budgets]\ndirectory = {}\ncampaigns = \"campaigns.d/*.toml\"\nslot = \"1s\"\n\n\
         [currency]\nbase = \"USD\"\nrates = {{ EUR = \"1.08\", GBP = \"1.27\" }}\n\n\
         [[floor]]\nformat = \"video\"\nfloor = \"1.00 USD\"\n\n\
         [record]\ndirectory = {}\n",
        args.shards,
        Value::from(budgets.to_string_lossy()),
        Value::from(record.to_string_lossy())
    );
    let _ = write!(text, "\n[live]\nlisten = \"{watchers}\"\ntrust_loopback = true\n");
    let _ = write!(
        text,
        "\n[cache]\nlisten = \"{players}\"\n[[cache.route]]\nid = \"creatives\"\norigin = \"{creatives}\"\n"
    );
    text.push_str(&lookups.map_or_else(String::new, enrichment::tables));
    if let Some(bidders) = bidders {
        let id = bidder::CLIENT;
        let _ = write!(
            text,
            "\n[pacer]\nlisten = \"{bidders}\"\n[[pacer.client]]\nid = \"{id}\"\nsecret = \"{id}\"\n\
             accounts = [\"{id}\"]\n"
        );
    }
    for (index, address) in (0u16..).zip(dsps) {
        // Half of them.
        let http = if index % 2 == 0 { "1.1" } else { "2" };
        let _ = write!(
            text,
            "\n[[dsp]]\nid = \"dsp-{index}\"\nurl = \"http://{address}/bid\"\nhttp = \"{http}\"\nseats = [\"{}\"]\ncurrencies = [\"{}\"]\n",
            seat(index),
            currency(index)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_told_with_what_would_do() {
        assert_eq!(few_descriptors(3712, 50), None);
        let told = few_descriptors(3711, 50).expect("one is missing");
        assert!(told.contains("at most 3711") && told.contains("may need 3712"), "{told}");
        assert!(told.ends_with("`--dsps 49`"), "{told}");
        assert!(few_descriptors(64, 50).is_some_and(|told| told.ends_with("`--dsps 1`")));
    }
}

//! `vickrey demo lookup`: look-ups of a hundred simulated providers, some of them broken, in one process
//! over real sockets.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookup_serve::Lookup;
use runtime::config::parse;
use runtime::listen::listen;
use runtime::service::{LoneOptions, LoneService, Ports, Service as _};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use serde::Serialize;
use testbed::provider::{
    ProviderAct, ProviderBehaviour, ProviderFarm, ProviderFault, ProviderOptions, ProviderStats,
    farm_map,
};
use testbed::server::ServerOptions;

use super::args::LookupDemoArgs;
use super::screen::output;
use crate::command::exit::{CommandFailure, Exit};
use crate::peers::long_run::{millis, stop_on_signal};
use crate::query::answer::LookupAnswer;
use crate::query::ask::{Asker, LookupQuestion};

/// Of data about physics, with the addresses of its providers.
const PHYSICS: &str = include_str!("../../../../deploy/maps/physics.toml");
const PHYSICS_URLS: [&str; 3] =
    ["http://127.0.0.1:7501", "http://127.0.0.1:7502", "http://127.0.0.1:7503"];

/// What the queries have. One provider never answers.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A query, and what it shows.
const QUERIES: [(&str, &str); 3] = [
    (
        "file,run,lumi dataset=/a/b/c | sum(file.size), count(file)",
        "One provider finds the blocks of the dataset, then is asked about them, ten at a time:",
    ),
    (
        "item group=g | sort item.size- | grep item.name, item.size | limit 5",
        "Every provider knows something of each item. What the broken ones do not say is missing:",
    ),
    (
        "item group=g | sum(item.size)",
        "What the others said still counts; only the broken ones are asked again:",
    ),
];

/// The result.
#[derive(Serialize)]
struct LookupDemoSummary {
    queries: Vec<AskedQuery>,
    providers: usize,
    /// Requests that all of them have had.
    requests: u64,
    /// The most that one was answering at a time.
    concurrent_max: u64,
}

#[derive(Serialize)]
struct AskedQuery {
    query: &'static str,
    status: String,
    records: u64,
    calls: u64,
    failed: u64,
    ms: u64,
}

pub(super) fn run(args: &LookupDemoArgs) -> anyhow::Result<Exit> {
    let mut out = output(args.json);
    let farm = farm(args.providers)?;
    let folder = tempfile::tempdir()?;
    let map = map(&farm);
    std::fs::write(folder.path().join("map.toml"), map)?;
    let shutdown = Shutdown::new(Duration::from_secs(1));
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let (service, url) = serve(folder.path(), &shutdown)?;
    let count = args.providers;
    writeln!(out, "{count} simulated providers: p0 never answers, p1 answers with a page, p2 is")?;
    writeln!(out, "often out of order, p3 bears two calls at a time. Look-ups at {url}/query\n")?;
    let asker = Asker::new(&url, None)?;
    let mut queries = Vec::new();
    for (query, about) in QUERIES {
        writeln!(out, "{about}\n\n  vickrey query '{query}'\n")?;
        let began = Instant::now();
        let question = LookupQuestion { query, timeout: Some(TIMEOUT), is_background: false };
        let answer = asker.ask(&question, usize::MAX, &stop)?;
        let ms = millis(began.elapsed());
        answer.write_table(&mut *out)?;
        answer.report(&mut *out)?;
        writeln!(out, "in {ms} ms\n")?;
        queries.push(asked(query, &answer, ms));
    }
    if args.stay && !args.json {
        writeln!(out, "{url}/query is a page; Ctrl-C ends the demo")?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
    let stats = farm.stats();
    shutdown.begin();
    service.join().map_err(CommandFailure::of_service)?;
    farm.stop()?;
    report(args.json, queries, &stats, &mut *out)?;
    Ok(Exit::Done)
}

/// The providers: three are broken, and one is weak.
fn farm(count: usize) -> anyhow::Result<ProviderFarm> {
    let always = |act| ProviderBehaviour { act, share_ppm: 1_000_000 };
    let broken = [
        always(ProviderAct::Hang),
        always(ProviderAct::Content(ProviderFault::Html)),
        ProviderBehaviour {
            act: ProviderAct::Status { code: 500, body: "out of order\n".to_owned() },
            share_ppm: 700_000,
        },
    ];
    let healthy = std::iter::repeat_n(ProviderBehaviour::HEALTHY, count - broken.len());
    let behaviours = broken.into_iter().chain(healthy).collect();
    let options = ProviderOptions::default();
    let farm = testbed::provider::start(&options, behaviours, &ServerOptions::default())
        .map_err(CommandFailure::unavailable)?;
    for at in 0..count {
        let latency = Duration::from_millis(2 + at as u64 % 20);
        let concurrency_max = (at == 3).then_some(2);
        let own = ProviderOptions { latency, concurrency_max, refusal: 429, ..options.clone() };
        farm.set_options(at, own)?;
    }
    Ok(farm)
}

/// All providers know items; the last ones are also those of the example of physics.
fn map(farm: &ProviderFarm) -> String {
    let mut physics = PHYSICS.to_owned();
    for (example, url) in PHYSICS_URLS.iter().zip(farm.urls().iter().rev()) {
        physics = physics.replace(example, url);
    }
    format!("{}\n{physics}", farm_map(farm.urls(), ""))
}

/// Look-ups on a port of their own, and their URL.
fn serve(folder: &Path, shutdown: &Shutdown) -> anyhow::Result<(LoneService<Lookup>, String)> {
    let listener = listen(([127, 0, 0, 1], 0).into())?;
    let address = listener.local_addr()?;
    let maps = folder.join("map.toml");
    let config = format!("[lookup]\nlisten = \"{address}\"\nmaps = {maps:?}\n");
    let config = parse("the demo's configuration", &config, Lookup::read);
    let config = config.map_err(CommandFailure::usage)?.expect("there is a [lookup]");
    let options = LoneOptions {
        shards: ShardsOptions { outbound_max: 4_096, ..ShardsOptions::default() },
        listeners: vec![listener],
        shutdown: shutdown.clone(),
        tracer: Tracer::off(),
        ports: Ports::default(),
    };
    let service = LoneService::start(config, options).map_err(CommandFailure::of_service)?;
    Ok((service, format!("http://{address}")))
}

fn asked(query: &'static str, answer: &LookupAnswer, ms: u64) -> AskedQuery {
    AskedQuery {
        query,
        status: answer.state["status"].as_str().unwrap_or_default().to_owned(),
        records: answer.state["total"].as_u64().unwrap_or_default(),
        calls: answer.sum_of("calls"),
        failed: answer.sum_of("failed"),
        ms,
    }
}

fn report(
    is_json: bool,
    queries: Vec<AskedQuery>,
    stats: &[ProviderStats],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let summary = LookupDemoSummary {
        queries,
        providers: stats.len(),
        requests: stats.iter().map(|of| of.requests).sum(),
        concurrent_max: stats.iter().map(|of| of.concurrent_max).max().unwrap_or(0),
    };
    if is_json {
        let text = serde_json::to_string_pretty(&summary)?;
        writeln!(std::io::stdout(), "{text}")?;
        return Ok(());
    }
    let LookupDemoSummary { requests, concurrent_max, .. } = summary;
    writeln!(
        out,
        "The providers have had {requests} requests; at most {concurrent_max} at a time of one."
    )?;
    Ok(())
}

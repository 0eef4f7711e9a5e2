//! What three enrichments cost an auction whose data is in memory: finding it, and adding it to the
//! request for DSPs.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use exchange_core::{Auction, Enrichment, EnrichmentOutcome, KnownData, Market, outbound};
use exchange_serve::ExchangeConfig;
use lookup_serve::{Lookup, LookupMemories, LookupMemory, MemoryRule};
use openrtb::parse_request;
use runtime::config::parse;
use runtime::listen::listen;
use runtime::process::unix_ms;
use runtime::service::{LoneOptions, LoneService, Ports, Service as _};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;
use serde_json::json;
use testbed::provider::{ProviderBehaviour, ProviderFarm, ProviderOptions};
use testbed::server::ServerOptions;
use testbed::traffic::reference_request;

use crate::Say;

const MAP: &str = include_str!("../../../deploy/maps/audience.toml");
const URLS: [&str; 3] = ["http://127.0.0.1:7511", "http://127.0.0.1:7512", "http://127.0.0.1:7513"];
const DSPS: usize = 50;

const ENRICHMENTS: &str = include_str!("../../../deploy/enrichment.toml");

/// Of the command.
#[derive(Args)]
pub(crate) struct Options {
    /// Auctions of each kind.
    #[arg(long, default_value_t = 200_000)]
    auctions: usize,
}

/// Measures auctions with and without enrichments, and says what each takes.
pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<()> {
    let providers = providers()?;
    let shutdown = Shutdown::new(Duration::from_secs(1));
    let lookups = lookups(&providers, &shutdown)?;
    let enriched = market(&format!("[exchange]\n{ENRICHMENTS}"))?;
    let plain = market("[exchange]\n")?;
    let memories = lookups.service().memories();
    let open = enriched.enrichments.iter().map(|it| open(memories, it));
    let open: Vec<_> = open.collect::<Result<_>>()?;
    let body = String::from_utf8(reference_request())?;
    let mut edited = EditedAuctions { body: &body, value: String::with_capacity(256) };
    let known = Instant::now();
    while !edited.once(&enriched, &open)?.is_complete {
        if known.elapsed() > Duration::from_secs(10) {
            bail!("the providers do not answer");
        }
    }
    // In turn, so that both meet the same machine.
    let (mut with, mut without, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.auctions {
        let auction = edited.once(&enriched, &open)?;
        with.push(auction.whole);
        found.push(auction.found);
        without.push(edited.once(&plain, &[])?.whole);
    }
    let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
    let added = mean(&with).saturating_sub(mean(&without));
    found.sort_unstable();
    with.sort_unstable();
    let p99 = |times: &[u64]| times[times.len() * 99 / 100];
    say(&json!({
        "kind": "enrich",
        "auctions": options.auctions,
        "added_ns_mean": added,
        "found_ns_p99": p99(&found),
        "with_edits_ns_p99": p99(&with),
    }))?;
    shutdown.begin();
    lookups.join()?;
    providers.stop()?;
    Ok(())
}

/// What one auction took, in nanoseconds: to find the data, and to edit the request too.
struct EditedAuction {
    found: u64,
    whole: u64,
    is_complete: bool,
}

struct EditedAuctions<'b> {
    body: &'b str,
    value: String,
}

impl EditedAuctions<'_> {
    fn once(&mut self, market: &Market, open: &[LookupMemory]) -> Result<EditedAuction> {
        let request = parse_request(self.body).ok().context("the request is valid")?;
        let auction = Auction::new("0123456789abcdef0123456789abcdef", &request, market);
        let auction = auction.ok().context("it can be held")?;
        let now = unix_ms();
        let began = Instant::now();
        let auction = auction.enriched(self.body, &mut self.value, |at, value| {
            let found = open[at].find(value, now);
            let found = found.map_err(|_| EnrichmentOutcome::Unknown)?;
            Ok(KnownData { text: found.text, age: found.age, is_stale: found.is_stale })
        });
        let found = began.elapsed();
        black_box(outbound(&auction, self.body));
        let whole = began.elapsed();
        let is_complete = auction.enrichments().iter().all(|it| it.outcome.is_added());
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(EditedAuction { found: nanos(found), whole: nanos(whole), is_complete })
    }
}

fn market(exchange: &str) -> Result<Market> {
    let dsp = |at| format!("[[dsp]]\nid = \"dsp-{at}\"\nurl = \"http://127.0.0.1:9/bid\"\n");
    let text = (0..DSPS).map(dsp).fold(exchange.to_owned(), |text, dsp| text + &dsp);
    let config = parse("bench.toml", &text, ExchangeConfig::read)?;
    Ok(config.context("the exchange is on")?.market)
}

fn providers() -> Result<ProviderFarm> {
    let behaviours = vec![ProviderBehaviour::HEALTHY; URLS.len()];
    let (options, server) = (ProviderOptions::default(), ServerOptions::default());
    Ok(testbed::provider::start(&options, behaviours, &server)?)
}

fn lookups(providers: &ProviderFarm, shutdown: &Shutdown) -> Result<LoneService<Lookup>> {
    let folder = tempfile::tempdir()?;
    let pairs = URLS.iter().zip(providers.urls());
    let map = pairs.fold(MAP.to_owned(), |map, (example, url)| map.replace(example, url));
    std::fs::write(folder.path().join("map.toml"), map)?;
    let maps = folder.path().join("*.toml").display().to_string();
    let text = format!("[lookup]\nlisten = \"127.0.0.1:0\"\nmaps = \"{maps}\"\n");
    let config = parse("bench.toml", &text, Lookup::read)?.context("look-ups are on")?;
    let options = LoneOptions {
        shards: ShardsOptions { shards: 1, ..ShardsOptions::default() },
        listeners: vec![listen(SocketAddr::from(([127, 0, 0, 1], 0)))?],
        shutdown: shutdown.clone(),
        tracer: Tracer::off(),
        ports: Ports::default(),
    };
    Ok(LoneService::start(config, options)?)
}

fn open(memories: &LookupMemories, enrichment: &Enrichment) -> Result<LookupMemory> {
    let rendered = enrichment.clone();
    let rule = MemoryRule {
        key: enrichment.key.to_string(),
        fields: enrichment.fields.iter().map(ToString::to_string).collect(),
        bytes_max: exchange_core::ENRICHMENT_BYTES_MAX,
        render: Box::new(move |values| rendered.text(values)),
        load: None,
    };
    memories.open(&enrichment.name, rule, enrichment.stale).map_err(anyhow::Error::msg)
}

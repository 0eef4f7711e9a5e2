//! What look-ups know about the one request that is explained. The auction itself waits for nothing, so
//! the values are looked up before.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use exchange_core::{Auction, EnrichmentOutcome};
use exchange_serve::{EnrichmentMemories, ExchangeConfig, SharedEnrichmentMemory};
use lookup_serve::{Lookup, LookupConfig};
use openrtb::parse_request;
use runtime::listen::listen;
use runtime::process::unix_ms;
use runtime::service::{LoneOptions, LoneService, Ports};
use runtime::shards::ShardsOptions;
use runtime::shutdown::Shutdown;
use runtime::traces::Tracer;

use crate::command::exit::CommandFailure;
use crate::config::enrichments::LinkedMemories;

/// Longest wait for all values of the request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Look-ups of the file, which is in `folder`.
pub(super) fn start(
    mut config: LookupConfig,
    folder: &Path,
    shutdown: &Shutdown,
) -> anyhow::Result<LoneService<Lookup>> {
    // It has no clients.
    config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.tls = None;
    config.maps = folder.join(&config.maps).display().to_string();
    let options = LoneOptions {
        shards: ShardsOptions { shards: 1, ..ShardsOptions::default() },
        listeners: vec![listen(config.listen).map_err(CommandFailure::unavailable)?],
        shutdown: shutdown.clone(),
        tracer: Tracer::off(),
        ports: Ports::default(),
    };
    LoneService::start(config, options).map_err(CommandFailure::of_service)
}

/// Waits until the values of a valid request are known, but not forever. They are while what is
/// returned lives.
pub(super) fn look_up(
    memories: &LinkedMemories,
    exchange: &ExchangeConfig,
    body: &str,
) -> anyhow::Result<Vec<SharedEnrichmentMemory>> {
    let open = exchange.market.enrichments.iter().map(|rule| memories.open(rule));
    let open: Result<Vec<SharedEnrichmentMemory>, _> = open.collect();
    let open = open.map_err(CommandFailure::usage)?;
    let Ok(request) = parse_request(body) else { return Ok(open) };
    let (end, mut value) = (Instant::now() + PATIENCE, String::new());
    loop {
        // One that cannot be held needs no data.
        let Ok(auction) = Auction::new("", &request, &exchange.market) else { return Ok(open) };
        let auction =
            auction.enriched(body, &mut value, |at, value| open[at].0.find(value, unix_ms()));
        let mut outcomes = auction.enrichments().iter().map(|it| it.outcome);
        if !outcomes.any(|it| it == EnrichmentOutcome::Unknown) || end < Instant::now() {
            return Ok(open);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

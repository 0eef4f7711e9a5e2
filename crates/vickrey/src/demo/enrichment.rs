//! What the demo's DSPs are told about users, pages and places: simulated providers, look-ups of them, and
//! what came of it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use exchange_core::EnrichmentOutcome;
use exchange_serve::Generation;
use testbed::provider::{ProviderBehaviour, ProviderFarm, ProviderOptions};
use testbed::server::ServerOptions;

use crate::command::exit::CommandFailure;

/// The example of such data, with the addresses of its providers.
const MAP: &str = include_str!("../../../../deploy/maps/audience.toml");
const URLS: [&str; 3] = ["http://127.0.0.1:7511", "http://127.0.0.1:7512", "http://127.0.0.1:7513"];

const TABLES: &str = include_str!("../../../../deploy/enrichment.toml");

/// The providers, some way off.
pub(super) fn providers() -> anyhow::Result<ProviderFarm> {
    let options =
        ProviderOptions { latency: Duration::from_millis(20), ..ProviderOptions::default() };
    let behaviours = vec![ProviderBehaviour::HEALTHY; URLS.len()];
    testbed::provider::start(&options, behaviours, &ServerOptions::default())
        .map_err(CommandFailure::unavailable)
}

/// Writes the map of the providers.
pub(super) fn write_map(folder: &Path, providers: &ProviderFarm) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let pairs = URLS.iter().zip(providers.urls());
    let map = pairs.fold(MAP.to_owned(), |map, (example, url)| map.replace(example, url));
    std::fs::write(folder.join("audience.toml"), map)
}

/// The tables of the configuration.
pub(super) fn tables(listen: SocketAddr) -> String {
    format!("{TABLES}\n[lookup]\nlisten = \"{listen}\"\nmaps = \"maps/*.toml\"\n")
}

/// How many auctions each had data for, in one line.
pub(super) fn brief(generation: &Generation, providers: &ProviderFarm) -> String {
    let mut text = "enrichment:".to_owned();
    for (name, metrics) in generation.enrichments() {
        let count = |outcome: EnrichmentOutcome| {
            metrics.iter().map(|shard| shard.outcomes[outcome as usize].value()).sum::<u64>()
        };
        let added: u64 =
            EnrichmentOutcome::ALL.into_iter().filter(|it| it.is_added()).map(count).sum();
        // Requests without the value have nothing to be added.
        let all: u64 = EnrichmentOutcome::ALL.into_iter().map(count).sum();
        let asked = all - count(EnrichmentOutcome::NoValue);
        let tenths = added.saturating_mul(1_000).checked_div(asked).unwrap_or(0);
        let _ = write!(text, " {name} in {}.{} % of {asked} requests,", tenths / 10, tenths % 10);
    }
    let requests: u64 = providers.stats().iter().map(|of| of.requests).sum();
    let _ = write!(text, " by {requests} requests to providers");
    text
}

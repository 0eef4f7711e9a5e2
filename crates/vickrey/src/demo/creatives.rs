//! The demo's creatives: an origin that has them, the cache in front of it, and players that fetch them.

use std::net::SocketAddr;
use std::time::Duration;

use cache_serve::{Cache, CacheFigures};
use testbed::cache::{CacheKeys, CacheLoad, CacheLoadOptions};
use testbed::load::{LoadLength, LoadMode, LoadOptions};
use testbed::origin::{self, OriginBehaviour, OriginOptions, SimulatedOrigin};
use testbed::server::ServerOptions;

use super::args::DemoArgs;
use crate::command::exit::CommandFailure;

/// How many there are, and the size of each.
const CREATIVES: usize = 500;
const CREATIVE_BYTES: usize = 8 << 10;
/// Requests of players per second.
const RATE_PER_S: u32 = 200;
/// They change every few seconds, so that the origin is asked now and then.
const CACHE_CONTROL: &str = "max-age=5, stale-while-revalidate=5";

/// The origin, some way off.
pub(super) fn origin() -> anyhow::Result<SimulatedOrigin> {
    let options = OriginOptions {
        bytes: CREATIVE_BYTES,
        cache_control: CACHE_CONTROL.to_owned(),
        latency: Duration::from_millis(20),
        ..OriginOptions::default()
    };
    origin::start(&options, OriginBehaviour::HEALTHY, &ServerOptions::default())
        .map_err(CommandFailure::unavailable)
}

/// What players ask the cache for, by Zipf's law.
pub(super) fn load(cache: SocketAddr, args: &DemoArgs) -> anyhow::Result<(LoadOptions, CacheLoad)> {
    let options = LoadOptions {
        mode: LoadMode::Open { rate_per_s: RATE_PER_S },
        warm_up: Duration::ZERO,
        length: LoadLength::For(args.duration),
        ..LoadOptions::default()
    };
    let load = CacheLoadOptions {
        url: format!("http://{cache}/creatives/"),
        host: None,
        keys: CacheKeys::Zipf { count: CREATIVES },
        bytes: CREATIVE_BYTES,
        vary: None,
        seed: args.seed,
    };
    Ok((options, CacheLoad::new(load).map_err(CommandFailure::unavailable)?))
}

/// The counters of the cache, in one line.
pub(super) fn brief(cache: &Cache) -> String {
    let CacheFigures { requests, hits, fetches, entries, bytes, .. } = cache.figures();
    let tenths = hits.saturating_mul(1_000).checked_div(requests).unwrap_or(0);
    format!(
        "cache: {requests} requests, {}.{} % from memory, {fetches} to the origin, {entries} creatives in \
         {} KiB",
        tenths / 10,
        tenths % 10,
        bytes >> 10
    )
}

//! Metrics of the cache.

use std::fmt;
use std::sync::Arc;

use cache_disk::DiskFigures;
use runtime::metrics::{Counter, MetricsPage, PerShard};

use crate::counters::{CountsByRoute, PutCounts, RouteCounts};
use crate::shard::store::SharedStore;

/// A counter of the routes: name, help and source.
pub(super) type RouteCount = (&'static str, &'static str, fn(&RouteCounts) -> &Counter);

pub(super) const COUNTS: [RouteCount; 15] = [
    ("cache_hits", "Requests answered from the store, fresh.", |counts| &counts.hits),
    ("cache_stale_served", "Requests answered from the store, stale.", |counts| &counts.stale),
    ("cache_misses", "Requests answered by a fetch of their own.", |counts| &counts.misses),
    ("cache_collapsed", "Requests answered by the fetch of another request.", |counts| {
        &counts.collapsed
    }),
    ("cache_revalidated", "Requests answered from the store, validated for them.", |counts| {
        &counts.revalidated
    }),
    ("cache_passed", "Requests passed on whose answers are not shared.", |counts| &counts.passed),
    ("cache_failed", "Requests answered with an error of the cache.", |counts| &counts.failed),
    ("cache_stored", "Responses stored.", |counts| &counts.stored),
    ("cache_loaded", "Resources read from the disk for a request.", |counts| &counts.loaded),
    ("cache_evicted", "Stored resources that went for others.", |counts| &counts.evicted),
    ("cache_fetches", "Requests to the origin.", |counts| &counts.fetches),
    (
        "cache_validations",
        "Requests to the origin that found the stored response valid.",
        |counts| &counts.validations,
    ),
    ("cache_fetch_failures", "Requests to the origin without a usable answer.", |counts| {
        &counts.fetch_failures
    }),
    ("cache_hit_bytes", "Bytes of bodies answered from the store.", |counts| &counts.hit_bytes),
    ("cache_fetched_bytes", "Bytes of bodies that came from the origin.", |counts| {
        &counts.fetched_bytes
    }),
];

/// A counter of values that clients store: name, help and source.
pub(super) type PutCount = (&'static str, &'static str, fn(&PutCounts) -> &Counter);

pub(super) const PUT_COUNTS: [PutCount; 4] = [
    ("cache_puts_stored", "Values that clients stored.", |counts| &counts.stored),
    ("cache_puts_refused", "Requests to store values that were refused.", |counts| &counts.refused),
    ("cache_puts_served", "Requests for a value that were answered with it.", |counts| {
        &counts.served
    }),
    ("cache_puts_missed", "Requests for a value that is not stored.", |counts| &counts.missed),
];

/// Adds the metrics of all routes and of the store.
pub(crate) fn expose(
    store: &Arc<SharedStore>,
    counts: &CountsByRoute,
    puts: &PerShard<PutCounts>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    for (name, help, count) in COUNTS {
        let mut counters = page.counters(name, help)?;
        for (route, shards) in store.config.routes.all().iter().zip(counts) {
            counters.sum(&[("route", &route.id)], shards.iter().map(count))?;
        }
    }
    let mut origins =
        page.histograms("cache_origin_seconds", "Time to the head of the origin's answer.")?;
    for (route, shards) in store.config.routes.all().iter().zip(counts) {
        origins.sum(&[("route", &route.id)], shards.iter().map(|counts| &counts.origin))?;
    }
    let mut up =
        page.gauges("cache_origin_up", "0 while the route's origin is left alone, else 1.")?;
    for (route, health) in store.config.routes.all().iter().zip(store.health.all()) {
        up.value(&[("route", &route.id)], i64::from(health.is_up()))?;
    }
    if store.config.puts.is_some() {
        for (name, help, count) in PUT_COUNTS {
            page.counters(name, help)?.sum(&[], puts.iter().map(count))?;
        }
    }
    let occupancy = store.occupancy();
    let level = |level: usize| i64::try_from(level).unwrap_or(i64::MAX);
    page.gauges("cache_entries", "Resources in the store.")?
        .value(&[], level(occupancy.entries))?;
    page.gauges("cache_bytes", "Bytes of the store.")?.value(&[], level(occupancy.bytes))?;
    page.gauges("cache_fetching_bytes", "Bytes of bodies that are being fetched.")?
        .value(&[], level(store.fills.bytes()))?;
    page.counters("cache_purges", "Purges that were asked for.")?
        .value(&[], store.purge_count())?;
    page.counters("cache_purged", "Responses that purges removed or made stale.")?
        .value(&[], store.purged_count())?;
    page.gauges("cache_purges_pending", "Purges that are being applied.")?
        .value(&[], level(store.purges().pending()))?;
    store.disk.as_ref().map_or(Ok(()), |disk| expose_disk(&disk.figures(), page))
}

fn expose_disk(figures: &DiskFigures, page: &mut MetricsPage<'_>) -> fmt::Result {
    let DiskFigures { entries, bytes, written, unwritten, unread, ref failure, .. } = *figures;
    let level = |level: u64| i64::try_from(level).unwrap_or(i64::MAX);
    page.gauges("cache_disk_entries", "Resources on the disk.")?
        .value(&[], level(entries as u64))?;
    page.gauges("cache_disk_bytes", "Bytes of the disk's files.")?.value(&[], level(bytes))?;
    page.gauges("cache_disk_failing", "1 while the disk takes no writes, else 0.")?
        .value(&[], i64::from(failure.is_some()))?;
    page.counters("cache_disk_written", "Resources written to the disk.")?.value(&[], written)?;
    page.counters(
        "cache_disk_unwritten",
        "Resources not written: the disk is slow or fails, or they are too large.",
    )?
    .value(&[], unwritten)?;
    page.counters("cache_disk_unread", "Reads of the disk that came too late or to nothing.")?
        .value(&[], unread)
}

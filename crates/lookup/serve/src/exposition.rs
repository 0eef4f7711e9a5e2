//! Metrics and admin API of look-ups.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use cache_disk::DiskFigures;
use runtime::admin::{
    Api, ApiCall, CountsByLabel, ErrorCode, Method, Operation, Reply, ReplyResult, Route,
    counts_schema,
};
use runtime::metrics::{Counter, MetricsPage};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::counters::LookupCounts;
use crate::thread::{LookupLaneReport, LookupShared};

/// A counter: name, help and source.
type LookupCount = (&'static str, &'static str, fn(&LookupCounts) -> &Counter);

const COUNTS: [LookupCount; 16] = [
    ("lookup_queries", "Queries that began.", |counts| &counts.queries),
    ("lookup_done", "Queries answered completely.", |counts| &counts.done),
    ("lookup_partial", "Queries answered in part.", |counts| &counts.partial),
    ("lookup_failed", "Queries without an answer.", |counts| &counts.failed),
    ("lookup_cancelled", "Queries that clients cancelled.", |counts| &counts.cancelled),
    ("lookup_attempts", "Requests to providers.", |counts| &counts.attempts),
    ("lookup_attempt_failures", "Requests to providers without a usable answer.", |counts| {
        &counts.failures
    }),
    ("lookup_cached", "Calls answered from the cache.", |counts| &counts.cached),
    ("lookup_loaded", "Answers of providers read from the disk.", |counts| &counts.loaded),
    ("lookup_reused", "Queries answered from a known answer.", |counts| &counts.reused),
    ("lookup_records", "Records of answers to queries.", |counts| &counts.records),
    ("lookup_memory_found", "Look-ups for the memory that found data.", |counts| {
        &counts.remembered
    }),
    ("lookup_memory_empty", "Look-ups for the memory that found no data, or too much.", |counts| {
        &counts.remembered_none
    }),
    ("lookup_memory_failures", "Look-ups for the memory that failed.", |counts| {
        &counts.refresh_failures
    }),
    ("lookup_memory_loads", "Loads of all values of a query into memory.", |counts| &counts.loads),
    ("lookup_memory_load_failures", "Such loads that failed.", |counts| &counts.load_failures),
];

/// Adds the metrics.
pub(crate) fn expose(shared: &LookupShared, page: &mut MetricsPage<'_>) -> fmt::Result {
    for (name, help, count) in COUNTS {
        page.counters(name, help)?.sum(&[], [count(&shared.counts)].into_iter())?;
    }
    let help = "Queries answered at once with the answer of an earlier one.";
    page.counters("lookup_shared", help)?.value(&[], shared.shared.load(Relaxed))?;
    let (running, bytes) = shared.table.occupancy();
    let level = |level: usize| i64::try_from(level).unwrap_or(i64::MAX);
    page.gauges("lookup_running", "Queries that run.")?.value(&[], level(running))?;
    page.gauges("lookup_answer_bytes", "Bytes of answers that are kept for clients.")?
        .value(&[], level(bytes))?;
    if let Some(disk) = &shared.disk {
        let DiskFigures { entries, bytes, failure, .. } = disk.tier().figures();
        page.gauges("lookup_disk_entries", "Answers of providers on the disk.")?
            .value(&[], level(entries))?;
        page.gauges("lookup_disk_bytes", "Bytes of the disk's files.")?
            .value(&[], i64::try_from(bytes).unwrap_or(i64::MAX))?;
        page.gauges("lookup_disk_failing", "1 while the disk takes no writes, else 0.")?
            .value(&[], i64::from(failure.is_some()))?;
    }
    let (values, bytes, dropped) = shared.memories.occupancy();
    let help = "Look-ups for the memory that were not begun because too many waited.";
    page.counters("lookup_memory_dropped", help)?.value(&[], dropped)?;
    page.gauges("lookup_memory_values", "Values in the memory.")?.value(&[], level(values))?;
    page.gauges("lookup_memory_bytes", "Bytes of the memory.")?
        .value(&[], i64::try_from(bytes).unwrap_or(i64::MAX))?;
    let lanes = lanes(shared);
    let levels: [LaneLevel; 4] = [
        ("lookup_provider_calls", "Calls that run.", |lane| i64::from(lane.running)),
        ("lookup_provider_limit", "Calls that may run at a time.", |lane| i64::from(lane.limit)),
        ("lookup_provider_waiting", "Calls that wait.", |lane| {
            i64::try_from(lane.waiting).unwrap_or(i64::MAX)
        }),
        ("lookup_provider_up", "0 while the provider is left alone, else 1.", |lane| {
            i64::from(!lane.is_left_alone)
        }),
    ];
    for (name, help, value) in levels {
        let mut gauges = page.gauges(name, help)?;
        for lane in &lanes {
            gauges.value(
                &[("provider", &lane.provider), ("instance", &lane.instance)],
                value(lane),
            )?;
        }
    }
    Ok(())
}

/// A level of a lane: name, help and source.
type LaneLevel = (&'static str, &'static str, fn(&LookupLaneView) -> i64);

/// An instance of a provider, and what calls of it do, as of a second ago.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LookupLane")]
struct LookupLaneView {
    provider: String,
    instance: String,
    /// Calls that run.
    running: u32,
    /// The most that may run: of the map, or as found out.
    limit: u32,
    /// Calls that wait, for their turn or to be made again.
    waiting: usize,
    /// Whether the provider failed again and again, and is left alone for a while.
    is_left_alone: bool,
    /// Attempts so far.
    attempts: u64,
    /// Those of calls that had been made before.
    retries: u64,
}

fn lanes(shared: &LookupShared) -> Vec<LookupLaneView> {
    let lanes = shared.lanes.lock().unwrap_or_else(PoisonError::into_inner);
    let lane = |(provider, instance, status): &LookupLaneReport| {
        let provider = &shared.maps.map.providers[*provider];
        LookupLaneView {
            provider: provider.name.clone(),
            instance: provider.instances[*instance].0.clone(),
            running: status.in_flight,
            limit: status.limit,
            waiting: status.waiting,
            is_left_alone: status.is_left_alone,
            attempts: status.attempts,
            retries: status.retries,
        }
    };
    lanes.iter().map(lane).collect()
}

/// Look-ups. Counters start with the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lookup")]
struct LookupView {
    listen: String,
    /// Queries that run.
    running: usize,
    /// Bytes of answers that are kept for clients.
    answer_bytes: usize,
    /// Queries answered at once with the answer of an earlier one; `counts` has the others.
    shared: u64,
    #[schemars(schema_with = "counts_of_queries")]
    counts: CountsByLabel,
    /// In the order of the maps.
    lanes: Vec<LookupLaneView>,
}

fn counts_of_queries(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&COUNTS.map(|(name, _, _)| label(name)))
}

/// The name of a metric without that of the service.
fn label(name: &'static str) -> &'static str {
    name.strip_prefix("lookup_").unwrap_or(name)
}

/// What the API shows.
pub(crate) struct LookupApi {
    pub listen: SocketAddr,
    pub shared: Arc<LookupShared>,
}

fn routes() -> Vec<Route<LookupApi>> {
    vec![Route {
        method: Method::Get,
        path: "/v1/lookup",
        answer: lookup,
        operation: Operation::new("lookup", "lookup", "Look-ups: queries, and calls of providers.")
            .error(ErrorCode::NotConfigured, "The configuration has no `[lookup]`.")
            .json::<LookupView>(200, "Look-ups."),
    }]
}

pub(crate) fn api(lookup: LookupApi) -> Api {
    Api::new(lookup, routes())
}

/// The API without the service: says how to configure it.
pub(crate) fn unconfigured() -> Api {
    let message = "look-ups are off: add [lookup] to the configuration file and restart";
    Api::unconfigured(routes(), message)
}

fn lookup(lookup: &LookupApi, _: &ApiCall) -> ReplyResult {
    let LookupApi { listen, shared } = lookup;
    let (running, answer_bytes) = shared.table.occupancy();
    let counts = COUNTS.map(|(name, _, count)| (label(name), count(&shared.counts).value()));
    Ok(Reply::json(&LookupView {
        listen: listen.to_string(),
        running,
        answer_bytes,
        shared: shared.shared.load(Relaxed),
        counts: counts.into(),
        lanes: lanes(shared),
    }))
}

//! Metrics and admin API of the live floor.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use live_core::protocol::LiveErrorCode;
use runtime::admin::{
    Api, ApiCall, CountsByLabel, ErrorCode, Method, Operation, Reply, ReplyResult, Route,
    counts_schema,
};
use runtime::metrics::{Counter, Gauge, MetricsPage, PerShard};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::counters::LiveCounts;
use crate::feed::publisher::PublisherProgress;

/// A counter of the shards: name, help and source.
type ShardCount = (&'static str, &'static str, fn(&LiveCounts) -> &Counter);

const COUNTS: [ShardCount; 9] = [
    ("live_commands", "Commands of clients.", |counts| &counts.commands),
    ("live_published", "Messages of clients that were accepted for publishing.", |counts| {
        &counts.published
    }),
    ("live_delivered", "Messages handed to sockets, counted by subscriber.", |counts| {
        &counts.delivered
    }),
    ("live_sent_bytes", "Bytes handed to sockets.", |counts| &counts.sent_bytes),
    ("live_skipped", "Messages that conflating subscribers missed.", |counts| &counts.skipped),
    (
        "live_slow_closes",
        "Strict subscribers that were disconnected because they read too slowly.",
        |counts| &counts.slow_closes,
    ),
    ("live_violations", "Connections of clients that broke the protocol.", |counts| {
        &counts.violations
    }),
    ("live_replayed", "Messages read from the log for subscribers that resumed.", |counts| {
        &counts.replayed
    }),
    ("live_resumed_from_log", "Subscriptions that resumed from the log.", |counts| {
        &counts.resumed_from_log
    }),
];

/// A level of the shards: name, help and source.
type ShardLevel = (&'static str, &'static str, fn(&LiveCounts) -> &Gauge);

const LEVELS: [ShardLevel; 4] = [
    ("live_sockets", "Open connections over WebSocket.", |counts| &counts.sockets),
    ("live_streams", "Open streams of server-sent events.", |counts| &counts.streams),
    ("live_views", "Different selections of messages.", |counts| &counts.views),
    ("live_ring_bytes", "Bytes of messages that the shards keep.", |counts| &counts.ring_bytes),
];

/// Adds the metrics of all shards.
pub(crate) fn expose(
    shards: &PerShard<LiveCounts>,
    progress: &PublisherProgress,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    for (name, help, level) in LEVELS {
        let sum = shards.iter().map(|shard| level(shard).value()).sum();
        page.gauges(name, help)?.value(&[], sum)?;
    }
    let mut subscriptions = page.gauges("live_subscriptions", "Subscriptions, by policy.")?;
    let strict = shards.iter().map(|shard| shard.strict.value()).sum();
    subscriptions.value(&[("policy", "strict")], strict)?;
    let conflating = shards.iter().map(|shard| shard.conflating.value()).sum();
    subscriptions.value(&[("policy", "conflate")], conflating)?;
    for (name, help, count) in COUNTS {
        page.counters(name, help)?.sum(&[], shards.iter().map(count))?;
    }
    let help = "Subscriptions that resumed from memory.";
    page.counters("live_resumed_from_ring", help)?
        .sum(&[], shards.iter().map(|shard| &shard.resumed_from_ring))?;
    let mut refusals = page.counters("live_refusals", "Commands and requests refused, by code.")?;
    for code in LiveErrorCode::ALL {
        let refused = shards.iter().map(|shard| &shard.refusals[code as usize]);
        refusals.sum(&[("code", code.label())], refused)?;
    }
    let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    page.counters("live_records", "Records read for the feed.")?
        .value(&[], read(&progress.records))?;
    page.counters("live_messages", "Messages made of them, each counted once.")?
        .value(&[], read(&progress.messages))?;
    let help = "Batches that a shard was too busy to take; its subscribers read the log instead.";
    page.counters("live_batches_missed", help)?.value(&[], read(&progress.missed))?;
    page.gauges("live_lag_seconds", "How far broadcasting is behind the log.")?
        .seconds(&[], progress.lag())
}

/// What the API shows.
pub(crate) struct LiveApi {
    pub listen: SocketAddr,
    pub topics: Vec<String>,
    pub counts: PerShard<LiveCounts>,
    pub progress: Arc<PublisherProgress>,
}

fn routes() -> Vec<Route<LiveApi>> {
    vec![Route {
        method: Method::Get,
        path: "/v1/live",
        answer: live,
        operation: Operation::new(
            "live",
            "live",
            "The live floor: who listens, and what was sent.",
        )
        .error(ErrorCode::NotConfigured, "The configuration has no `[live]`.")
        .json::<LiveView>(200, "The live floor."),
    }]
}

/// The live floor, over all shards. Counters start with the process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Live")]
struct LiveView {
    listen: String,
    /// Topics to which clients may publish.
    topics: Vec<String>,
    /// Open connections over WebSocket.
    sockets: i64,
    /// Open streams of server-sent events.
    streams: i64,
    /// Subscriptions that get every message or are disconnected.
    subscriptions_strict: i64,
    /// Subscriptions that get the latest message of each key.
    subscriptions_conflating: i64,
    /// Different selections of messages.
    views: i64,
    /// Bytes of messages that the shards keep.
    ring_bytes: i64,
    /// Records read for the feed.
    records: u64,
    /// Messages made of them, each counted once.
    messages: u64,
    /// Messages handed to sockets, counted by subscriber.
    delivered: u64,
    sent_bytes: u64,
    /// Messages of clients that were accepted for publishing.
    published: u64,
    /// Messages that conflating subscribers missed.
    skipped: u64,
    /// Strict subscribers that were disconnected because they read too slowly.
    slow_closes: u64,
    /// Subscriptions that resumed from memory.
    resumed_from_ring: u64,
    /// Subscriptions that resumed from the log.
    resumed_from_log: u64,
    /// Messages read from the log for them.
    replayed: u64,
    /// How far broadcasting is behind the log.
    lag_ms: u64,
    /// Commands and requests refused, by code.
    #[schemars(schema_with = "refusals_schema")]
    refusals: CountsByLabel,
}

fn refusals_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&LiveErrorCode::ALL.map(LiveErrorCode::label))
}

pub(crate) fn api(live: LiveApi) -> Api {
    Api::new(live, routes())
}

/// The API without a live floor: says how to configure it.
pub(crate) fn unconfigured() -> Api {
    let message = "the live floor is off: add [live] to the configuration file and restart; it needs \
                   [record] too";
    Api::unconfigured(routes(), message)
}

fn live(live: &LiveApi, _: &ApiCall) -> ReplyResult {
    let LiveApi { listen, topics, counts, progress } = live;
    let sum = |count: fn(&LiveCounts) -> &Counter| {
        counts.iter().map(|shard| count(shard).value()).fold(0, u64::wrapping_add)
    };
    let level = |of: fn(&LiveCounts) -> &Gauge| counts.iter().map(|shard| of(shard).value()).sum();
    let refusals = LiveErrorCode::ALL.map(|code| {
        let refused = counts.iter().map(|shard| shard.refusals[code as usize].value());
        (code.label(), refused.fold(0, u64::wrapping_add))
    });
    Ok(Reply::json(&LiveView {
        listen: listen.to_string(),
        topics: topics.clone(),
        sockets: level(|shard| &shard.sockets),
        streams: level(|shard| &shard.streams),
        subscriptions_strict: level(|shard| &shard.strict),
        subscriptions_conflating: level(|shard| &shard.conflating),
        views: level(|shard| &shard.views),
        ring_bytes: level(|shard| &shard.ring_bytes),
        records: progress.records.load(Ordering::Relaxed),
        messages: progress.messages.load(Ordering::Relaxed),
        delivered: sum(|shard| &shard.delivered),
        sent_bytes: sum(|shard| &shard.sent_bytes),
        published: sum(|shard| &shard.published),
        skipped: sum(|shard| &shard.skipped),
        slow_closes: sum(|shard| &shard.slow_closes),
        resumed_from_ring: sum(|shard| &shard.resumed_from_ring),
        resumed_from_log: sum(|shard| &shard.resumed_from_log),
        replayed: sum(|shard| &shard.replayed),
        lag_ms: u64::try_from(progress.lag().as_millis()).unwrap_or(u64::MAX),
        refusals: refusals.into(),
    }))
}

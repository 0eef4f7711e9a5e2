//! The exchange as operators see and steer it, over the admin listener: its DSPs, one by one, and
//! what has become of notices.
//!
//! It shows what is counted and granted elsewhere. The API does not keep the exchange alive: once
//! it ends, what is asked of it is answered 503.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use exchange_core::delivery::{Counters, LaneView};
use exchange_core::guard::{GuardLimits, State, Status};
use exchange_core::record::CallOutcome;
use exchange_core::{NotAsked, ResponseFate};
use runtime::admin::{Api, Call, ErrorCode, Method, Reply, Route, rfc3339};
use runtime::config::masked_url;
use runtime::metrics::{Counter, Snapshot};
use serde_json::{Value, json};
use tracing::info;
use units::Ppm;

use crate::generation::Generation;
use crate::metrics::DspMetrics;
use crate::service::Exchange;

/// Errors of a DSP that are shown, the last ones.
const ERRORS_SHOWN: usize = 20;

/// Longest that the process waits for DSPs' names before it says that it is ready: a name that does
/// not resolve concerns one DSP.
const NAMES_AWAITED: Duration = Duration::from_secs(10);

/// Quantiles that are shown of latencies.
const QUANTILES: [(&str, Ppm); 4] = [
    ("p50", const { Ppm::new(500_000).expect("a share") }),
    ("p90", const { Ppm::new(900_000).expect("a share") }),
    ("p99", const { Ppm::new(990_000).expect("a share") }),
    ("p99_9", const { Ppm::new(999_000).expect("a share") }),
];

/// The longest latency that is told from longer ones, in microseconds.
const LATENCY_US_MAX: u64 = 1 << 24;

/// What the exchange answers.
pub static ROUTES: &[Route<Weak<Exchange>>] = &[
    Route { method: Method::Get, path: "/v1/dsps", answer: |of, _| with(of, dsps) },
    Route {
        method: Method::Get,
        path: "/v1/dsps/{id}",
        answer: |of, call| with(of, |exchange| dsp(exchange, call.parameter("id"))),
    },
    Route {
        method: Method::Put,
        path: "/v1/dsps/{id}/pause",
        answer: |of, call| with(of, |exchange| pause(exchange, call, true)),
    },
    Route {
        method: Method::Delete,
        path: "/v1/dsps/{id}/pause",
        answer: |of, call| with(of, |exchange| pause(exchange, call, false)),
    },
    Route { method: Method::Get, path: "/v1/notices", answer: |of, _| with(of, notices) },
];

/// Answers for `exchange` as long as it is there.
pub fn api(exchange: &Arc<Exchange>) -> Api {
    Api::new(Arc::downgrade(exchange), ROUTES)
}

/// A check of readiness: the names of all DSPs have been resolved once, or that has taken long
/// enough. What a reload adds later does not end it.
pub fn names_are_known(exchange: &Arc<Exchange>) -> impl Fn() -> bool + Send + Sync + 'static {
    let (exchange, started) = (Arc::downgrade(exchange), Instant::now());
    let known = AtomicBool::new(false);
    move || {
        let resolved = || {
            let generation = exchange.upgrade().map(|exchange| exchange.generation());
            generation.is_some_and(|generation| is_resolved(&generation))
        };
        let ready =
            known.load(Ordering::Relaxed) || started.elapsed() >= NAMES_AWAITED || resolved();
        known.fetch_or(ready, Ordering::Relaxed);
        ready
    }
}

fn is_resolved(generation: &Generation) -> bool {
    generation.dsps.iter().all(|dsp| !dsp.endpoint.addresses.current().is_empty())
}

fn with(exchange: &Weak<Exchange>, answer: impl FnOnce(&Exchange) -> Reply) -> Reply {
    match exchange.upgrade() {
        Some(exchange) => answer(&exchange),
        None => Reply::error(ErrorCode::Unavailable, "the exchange is coming to its end"),
    }
}

fn no_such_dsp(id: &str) -> Reply {
    Reply::error(ErrorCode::NotFound, &format!("no configured DSP has the id `{id}`"))
}

fn dsps(exchange: &Exchange) -> Reply {
    let generation = exchange.generation();
    let all = 0..generation.dsps.len();
    let dsps: Value = all.map(|index| view(exchange, &generation, index)).collect();
    Reply::json(&json!({ "generation": generation.number, "dsps": dsps }))
}

fn dsp(exchange: &Exchange, id: &str) -> Reply {
    let generation = exchange.generation();
    match generation.dsp_ids().position(|known| known == id) {
        Some(index) => Reply::json(&view(exchange, &generation, index)),
        None => no_such_dsp(id),
    }
}

fn pause(exchange: &Exchange, call: &Call, paused: bool) -> Reply {
    let dsp = call.parameter("id");
    if !exchange.pause(dsp, paused) {
        return no_such_dsp(dsp);
    }
    match paused {
        true => info!(dsp, "an operator paused a DSP"),
        false => info!(dsp, "an operator resumed a DSP"),
    }
    Reply::nothing()
}

/// One DSP, with what all shards count of it.
fn view(exchange: &Exchange, generation: &Generation, index: usize) -> Value {
    let config = &generation.config;
    let (id, (_, _, endpoint)) = (&*config.market.dsps[index].id, &config.endpoints[index]);
    let scheme = if endpoint.tls.is_some() { "https" } else { "http" };
    let status = exchange.guard_status(id);
    let shards: Vec<&DspMetrics> = generation.dsps[index].metrics.iter().collect();
    let mut view = json!({
        "id": id,
        "url": masked_url(&format!("{scheme}://{}{}", endpoint.authority, endpoint.path.expose())),
        "connections": {
            "open": shards.iter().map(|shard| shard.open.value()).sum::<i64>(),
            "opened": sum(&shards, |shard| &shard.opened),
        },
        "latency_us": latency(&shards),
        "calls": by_label(CallOutcome::ALL.map(|outcome| {
            (outcome.label(), sum(&shards, |shard| &shard.outcomes[outcome as usize]))
        })),
        "responses": by_label(ResponseFate::ALL.map(|fate| {
            (fate.label(), sum(&shards, |shard| &shard.responses[fate as usize]))
        })),
        "surplus_bids": sum(&shards, |shard| &shard.surplus_bids),
        "not_asked": by_label(NotAsked::ALL.map(|reason| {
            (reason.label(), sum(&shards, |shard| &shard.not_asked[reason as usize]))
        })),
        "retries": sum(&shards, |shard| &shard.retries),
        "late_answers": sum(&shards, |shard| &shard.drained),
        "last_errors": last_errors(&shards),
    });
    guard(&mut view, &config.guards[index], status);
    view
}

/// What it may be asked.
fn guard(view: &mut Value, limits: &GuardLimits, status: Option<Status>) {
    let state = status.map(|status| status.state);
    let allowance = match state {
        Some(State::Throttled { allowance }) => Some(allowance.get()),
        Some(State::Closed | State::Paused) | None => None,
    };
    view["paused"] = (state == Some(State::Paused)).into();
    view["breaker"] = json!({
        "state": match state {
            Some(State::Closed) | None => "closed",
            Some(State::Throttled { .. }) => "throttled",
            Some(State::Paused) => "paused",
        },
        "allowance_per_s": allowance,
        "error_share_max_ppm": limits.breaker.map(|breaker| breaker.error_share_max.get()),
        "good": status.map_or(0, |status| status.good),
        "bad": status.map_or(0, |status| status.bad),
    });
    view["qps"] = json!({
        "limit": limits.rate.map(|rate| rate.qps.get()),
        "burst": limits.rate.map(|rate| rate.burst.get()),
        "tokens_free": status.and_then(|status| status.level),
        "tokens_out": status.map_or(0, |status| status.outstanding),
    });
    view["in_flight"] = json!({
        "now": status.map_or(0, |status| status.in_flight),
        "max": limits.in_flight_max.map(std::num::NonZeroU32::get),
    });
}

fn sum(shards: &[&DspMetrics], counter: impl Fn(&DspMetrics) -> &Counter) -> u64 {
    shards.iter().fold(0, |sum, shard| sum.wrapping_add(counter(shard).value()))
}

/// Counts by label, in the order of the labels.
fn by_label<const N: usize>(counts: [(&str, u64); N]) -> Value {
    counts.map(|(label, count)| (label.to_owned(), Value::from(count))).into_iter().collect()
}

/// Quantiles in microseconds; `null` before the first answer.
fn latency(shards: &[&DspMetrics]) -> Value {
    let mut merged = Snapshot::default();
    shards.iter().for_each(|shard| merged.merge(&shard.latency.snapshot()));
    let mut view = json!({ "count": merged.count() });
    for (name, share) in QUANTILES {
        view[name] = merged.quantile_us(share).map(|us| us.min(LATENCY_US_MAX)).into();
    }
    view
}

/// The last errors of all shards, the latest first.
fn last_errors(shards: &[&DspMetrics]) -> Value {
    let mut errors: Vec<_> = shards.iter().flat_map(|shard| shard.errors.recent()).collect();
    errors.sort_by(|(one, _), (other, _)| other.cmp(one));
    let shown = errors.into_iter().take(ERRORS_SHOWN);
    shown.map(|(at, error)| json!({ "at": rfc3339(at), "error": error })).collect()
}

fn notices(exchange: &Exchange) -> Reply {
    let view = exchange.notices();
    let lanes = view.iter().flat_map(|view| &view.lanes);
    Reply::json(&json!({
        "fired_by_us": view.is_some(),
        "counts": view.as_ref().map(|view| counts(&view.counters)),
        "dsps": lanes.map(lane).collect::<Value>(),
    }))
}

fn counts(counters: &Counters) -> Value {
    json!({
        "billing": {
            "delivered": counters.billing_delivered,
            "given_up": counters.billing_given_up,
            "owed": counters.billing_owed,
        },
        "best_effort": {
            "delivered": counters.best_effort_delivered,
            "failed": counters.best_effort_failed,
            "shed": counters.best_effort_shed,
            "waiting": counters.best_effort_waiting,
        },
        "beacons": {
            "accepted": counters.beacons_accepted,
            "duplicate": counters.beacons_duplicate,
            "expired": counters.beacons_expired,
            "busy": counters.beacons_busy,
            "unjournalled": counters.beacons_unjournalled,
        },
        "tries_failed": counters.tries_failed,
        "in_flight": counters.in_flight,
        "tokens_remembered": counters.remembered,
    })
}

fn lane(lane: &LaneView) -> Value {
    json!({
        "dsp": *lane.dsp,
        "billing_owed": lane.billing_owed,
        "best_effort_waiting": lane.best_effort_waiting,
        "in_flight": lane.in_flight,
        "failures": lane.failures,
        "probed": lane.probed,
    })
}

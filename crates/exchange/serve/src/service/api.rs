//! Admin API of the exchange: its DSPs and its notices.
//!
//! Shows what others count and grant. It does not keep the exchange alive: once that ends, requests
//! are answered 503.

use std::sync::{Arc, Weak};

use exchange_core::delivery::{DeliveryCounters, LaneView};
use exchange_core::guard::{BreakerState, GuardLimits, GuardStatus};
use exchange_core::record::CallOutcome;
use exchange_core::{NotAsked, ResponseFate};
use runtime::admin::{
    Api, ApiCall, CountsByLabel, ErrorCode, LatencyView, Method, Operation, Reply, ReplyResult,
    Route, counts_schema, rfc3339,
};
use runtime::config::masked_url;
use runtime::metrics::Counter;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use tracing::info;

use crate::generation::Generation;
use crate::metrics::DspMetrics;
use crate::service::exchange::Exchange;

/// Errors to show per DSP, the last ones.
const ERRORS_SHOWN: usize = 20;

fn routes() -> Vec<Route<Weak<Exchange>>> {
    let asked = |tag, id, summary| {
        let ending = "The process is shutting down.";
        Operation::new(tag, id, summary).error(ErrorCode::Unavailable, ending)
    };
    let of_one = |id, summary| {
        asked("dsps", id, summary).error(ErrorCode::NotFound, "No configured DSP has this id.")
    };
    vec![
        Route {
            method: Method::Get,
            path: "/v1/dsps",
            answer: dsps,
            operation: asked("dsps", "dsps", "All DSPs.").json::<DspList>(200, "All DSPs."),
        },
        Route {
            method: Method::Get,
            path: "/v1/dsps/{id}",
            answer: dsp,
            operation: of_one("dsp", "One DSP.").json::<DspView>(200, "The DSP."),
        },
        Route {
            method: Method::Put,
            path: "/v1/dsps/{id}/pause",
            answer: |exchange, call| pause(exchange, call, true),
            operation: of_one(
                "pause",
                "Stops asking a DSP, until it is asked again or the process ends.",
            )
            .nothing("It is paused; it may have been before."),
        },
        Route {
            method: Method::Delete,
            path: "/v1/dsps/{id}/pause",
            answer: |exchange, call| pause(exchange, call, false),
            operation: of_one("resume", "Asks a DSP again.")
                .nothing("It is asked; it may have been before."),
        },
        Route {
            method: Method::Get,
            path: "/v1/notices",
            answer: notices,
            operation: asked("notices", "notices", "What has become of notices.")
                .json::<NoticesView>(200, "Counts, and what is under way by DSP."),
        },
    ]
}

/// All DSPs, in the order of the configuration.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Dsps")]
struct DspList {
    generation: u64,
    dsps: Vec<DspView>,
}

/// One DSP, over all shards. Counters start with the process, or with the DSP's configuration.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Dsp")]
struct DspView {
    id: String,
    url: String,
    /// Whether an operator has paused it.
    paused: bool,
    breaker: BreakerView,
    qps: QpsView,
    in_flight: InFlightView,
    connections: ConnectionsView,
    /// From request to response.
    latency_us: LatencyView,
    /// Calls by outcome.
    #[schemars(schema_with = "calls_schema")]
    calls: CountsByLabel,
    /// Responses with a body, by content.
    #[schemars(schema_with = "responses_schema")]
    responses: CountsByLabel,
    /// Requests for which it was not called, by reason.
    #[schemars(schema_with = "not_asked_schema")]
    not_asked: CountsByLabel,
    retries: u64,
    /// Bids ignored because their response had too many.
    surplus_bids: u64,
    late_answers: u64,
    streams_reset: u64,
    /// Most recent first, at most 20.
    last_errors: Vec<ErrorView>,
}

/// The breaker, which throttles a DSP with errors.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Breaker")]
struct BreakerView {
    #[schemars(extend("enum" = ["closed", "throttled", "paused"]))]
    state: &'static str,
    /// Calls per second while it is throttled.
    allowance_per_s: Option<u32>,
    /// The share of errors that throttles it, in ppm; null for never.
    error_share_max_ppm: Option<u32>,
    /// Good results in the window.
    good: u64,
    /// Bad results in the window.
    bad: u64,
}

/// Calls per second.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Qps")]
struct QpsView {
    /// Null for no limit.
    limit: Option<u32>,
    /// Burst: calls that may be made at once.
    burst: Option<u32>,
    /// Free tokens that no shard holds; null if calls need no token.
    tokens_free: Option<u64>,
    /// Tokens that shards hold or have just used.
    tokens_out: u64,
}

/// Calls in flight, including late ones whose response is still being read.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InFlight")]
struct InFlightView {
    now: u64,
    /// Null for no limit.
    max: Option<u32>,
}

/// Connections to a DSP.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Connections")]
struct ConnectionsView {
    open: i64,
    opened: u64,
}

/// An error of a DSP.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DspError")]
struct ErrorView {
    #[schemars(extend("format" = "date-time"))]
    at: String,
    error: String,
}

/// Notices and beacons.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Notices")]
struct NoticesView {
    /// Whether `[exchange.notices]` is on.
    fired_by_us: bool,
    counts: Option<NoticeCounts>,
    dsps: Vec<LaneCounts>,
}

/// Notices: totals since the start, and current numbers.
#[derive(Serialize, JsonSchema)]
struct NoticeCounts {
    billing: BillingCounts,
    best_effort: BestEffortCounts,
    beacons: BeaconCounts,
    tries_failed: u64,
    in_flight: usize,
    tokens_remembered: usize,
}

/// Billing notices.
#[derive(Serialize, JsonSchema)]
struct BillingCounts {
    delivered: u64,
    given_up: u64,
    owed: usize,
}

/// Win and loss notices.
#[derive(Serialize, JsonSchema)]
struct BestEffortCounts {
    delivered: u64,
    failed: u64,
    shed: u64,
    waiting: usize,
}

/// Calls of our beacons.
#[derive(Serialize, JsonSchema)]
struct BeaconCounts {
    accepted: u64,
    duplicate: u64,
    expired: u64,
    busy: u64,
    unjournalled: u64,
}

/// Notices to one DSP.
#[derive(Serialize, JsonSchema)]
struct LaneCounts {
    dsp: String,
    billing_owed: usize,
    best_effort_waiting: usize,
    in_flight: usize,
    /// Failures since its last success.
    failures: u32,
    /// Whether it gets only probes.
    probed: bool,
}

fn calls_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&CallOutcome::ALL.map(CallOutcome::label))
}

fn responses_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&ResponseFate::ALL.map(ResponseFate::label))
}

fn not_asked_schema(_: &mut SchemaGenerator) -> Schema {
    counts_schema(&NotAsked::ALL.map(NotAsked::label))
}

/// Answers for `exchange` while it exists.
pub fn api(exchange: &Arc<Exchange>) -> Api {
    Api::new(Arc::downgrade(exchange), routes())
}

fn alive(exchange: &Weak<Exchange>) -> Result<Arc<Exchange>, Reply> {
    let message = "the exchange is coming to its end";
    exchange.upgrade().ok_or_else(|| Reply::error(ErrorCode::Unavailable, message))
}

fn no_such_dsp(id: &str) -> Reply {
    Reply::error(ErrorCode::NotFound, &format!("no configured DSP has the id `{id}`"))
}

fn dsps(exchange: &Weak<Exchange>, _: &ApiCall) -> ReplyResult {
    let exchange = alive(exchange)?;
    let generation = exchange.generation();
    let all = 0..generation.dsps.len();
    let dsps = all.map(|index| view(&exchange, &generation, index)).collect();
    Ok(Reply::json(&DspList { generation: generation.number, dsps }))
}

fn dsp(exchange: &Weak<Exchange>, call: &ApiCall) -> ReplyResult {
    let (exchange, id) = (alive(exchange)?, call.parameter("id"));
    let generation = exchange.generation();
    let index = generation.dsp_ids().position(|known| known == id);
    let index = index.ok_or_else(|| no_such_dsp(id))?;
    Ok(Reply::json(&view(&exchange, &generation, index)))
}

fn pause(exchange: &Weak<Exchange>, call: &ApiCall, paused: bool) -> ReplyResult {
    let dsp = call.parameter("id");
    if !alive(exchange)?.pause(dsp, paused) {
        return Err(no_such_dsp(dsp));
    }
    match paused {
        true => info!(dsp, "an operator paused a DSP"),
        false => info!(dsp, "an operator resumed a DSP"),
    }
    Ok(Reply::nothing())
}

/// One DSP, counted over all shards.
fn view(exchange: &Exchange, generation: &Generation, index: usize) -> DspView {
    let config = &generation.config;
    let (id, endpoint) = (&*config.market.dsps[index].id, &config.endpoints[index].options);
    let scheme = if endpoint.tls.is_some() { "https" } else { "http" };
    let status = exchange.guard_status(id);
    let limits = &config.guards[index];
    let shards: Vec<&DspMetrics> = generation.dsps[index].metrics.iter().collect();
    DspView {
        id: id.to_owned(),
        url: masked_url(&format!("{scheme}://{}{}", endpoint.authority, endpoint.path.expose())),
        paused: status.map(|status| status.state) == Some(BreakerState::Paused),
        breaker: breaker(limits, status),
        qps: QpsView {
            limit: limits.rate.map(|rate| rate.qps.get()),
            burst: limits.rate.map(|rate| rate.burst.get()),
            tokens_free: status.and_then(|status| status.level),
            tokens_out: status.map_or(0, |status| status.outstanding),
        },
        in_flight: InFlightView {
            now: status.map_or(0, |status| status.in_flight),
            max: limits.in_flight_max.map(std::num::NonZeroU32::get),
        },
        connections: ConnectionsView {
            open: shards.iter().map(|shard| shard.open.value()).sum::<i64>(),
            opened: sum(&shards, |shard| &shard.opened),
        },
        latency_us: LatencyView::of(shards.iter().map(|shard| shard.latency.snapshot())),
        calls: by_label(CallOutcome::ALL.map(|outcome| {
            (outcome.label(), sum(&shards, |shard| &shard.outcomes[outcome as usize]))
        })),
        responses: by_label(
            ResponseFate::ALL
                .map(|fate| (fate.label(), sum(&shards, |shard| &shard.responses[fate as usize]))),
        ),
        not_asked: by_label(NotAsked::ALL.map(|reason| {
            (reason.label(), sum(&shards, |shard| &shard.not_asked[reason as usize]))
        })),
        retries: sum(&shards, |shard| &shard.retries),
        surplus_bids: sum(&shards, |shard| &shard.surplus_bids),
        late_answers: sum(&shards, |shard| &shard.drained),
        streams_reset: sum(&shards, |shard| &shard.streams_reset),
        last_errors: last_errors(&shards),
    }
}

fn breaker(limits: &GuardLimits, status: Option<GuardStatus>) -> BreakerView {
    let (state, allowance_per_s) = match status.map(|status| status.state) {
        Some(BreakerState::Closed) | None => ("closed", None),
        Some(BreakerState::Throttled { allowance }) => ("throttled", Some(allowance.get())),
        Some(BreakerState::Paused) => ("paused", None),
    };
    BreakerView {
        state,
        allowance_per_s,
        error_share_max_ppm: limits.breaker.map(|breaker| breaker.error_share_max.get()),
        good: status.map_or(0, |status| status.good),
        bad: status.map_or(0, |status| status.bad),
    }
}

fn sum(shards: &[&DspMetrics], counter: impl Fn(&DspMetrics) -> &Counter) -> u64 {
    shards.iter().fold(0, |sum, shard| sum.wrapping_add(counter(shard).value()))
}

fn by_label(counts: impl IntoIterator<Item = (&'static str, u64)>) -> CountsByLabel {
    counts.into_iter().collect()
}

/// The last errors of all shards, latest first.
fn last_errors(shards: &[&DspMetrics]) -> Vec<ErrorView> {
    let mut errors: Vec<_> = shards.iter().flat_map(|shard| shard.errors.recent()).collect();
    errors.sort_by(|(one, _), (other, _)| other.cmp(one));
    let shown = errors.into_iter().take(ERRORS_SHOWN);
    shown.map(|(at, error)| ErrorView { at: rfc3339(at), error }).collect()
}

fn notices(exchange: &Weak<Exchange>, _: &ApiCall) -> ReplyResult {
    let view = alive(exchange)?.notices();
    let lanes = view.iter().flat_map(|view| &view.lanes);
    Ok(Reply::json(&NoticesView {
        fired_by_us: view.is_some(),
        counts: view.as_ref().map(|view| counts(&view.counters)),
        dsps: lanes.map(lane).collect(),
    }))
}

fn counts(counters: &DeliveryCounters) -> NoticeCounts {
    NoticeCounts {
        billing: BillingCounts {
            delivered: counters.billing_delivered,
            given_up: counters.billing_given_up,
            owed: counters.billing_owed,
        },
        best_effort: BestEffortCounts {
            delivered: counters.best_effort_delivered,
            failed: counters.best_effort_failed,
            shed: counters.best_effort_shed,
            waiting: counters.best_effort_waiting,
        },
        beacons: BeaconCounts {
            accepted: counters.beacons_accepted,
            duplicate: counters.beacons_duplicate,
            expired: counters.beacons_expired,
            busy: counters.beacons_busy,
            unjournalled: counters.beacons_unjournalled,
        },
        tries_failed: counters.tries_failed,
        in_flight: counters.in_flight,
        tokens_remembered: counters.remembered,
    }
}

fn lane(lane: &LaneView) -> LaneCounts {
    LaneCounts {
        dsp: lane.dsp.to_string(),
        billing_owed: lane.billing_owed,
        best_effort_waiting: lane.best_effort_waiting,
        in_flight: lane.in_flight,
        failures: lane.failures,
        probed: lane.probed,
    }
}

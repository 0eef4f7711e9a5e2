//! Every metric of the exchange: its name, its labels, who counts it.
//!
//! One set per shard, written by that shard alone. Labels come from configuration and fixed lists,
//! never from a client.

mod budget;
mod record;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use exchange_core::guard::{BreakerState, GuardStatus};
use exchange_core::record::CallOutcome;
use exchange_core::{BeaconTokenError, Fate, NotAsked, NotSent, ResponseFate, Unmarked};
use openrtb::InvalidReason;
use openrtb::codes::NoBidReason;
use runtime::metrics::{Counter, CounterArray, Gauge, Histogram, MetricsPage, PerShard};

use crate::config::DIRECT_DSP;
use crate::exchange::generation::{DspInForce, Generation};
use crate::guards::Guards;
use crate::notices::NoticeMonitor;
use crate::recording::RecordLanes;

pub use budget::BudgetMetrics;

/// Metrics of one shard.
#[derive(Debug, Default)]
pub struct ExchangeMetrics {
    /// Answers with at least one sale.
    pub filled: Counter,
    /// Auctions that moved no money because the request said `test`.
    pub tests: Counter,
    /// Impressions offered in auctions.
    pub impressions: Counter,
    /// Request fields dropped for their type.
    pub mistyped: Counter,
    /// Impressions not on sale because their floor's currency has no rate.
    pub unpriced: Counter,
    /// Impressions sold.
    pub sold: Counter,
    /// Direct campaigns left out, by impression, because too many matched.
    pub direct_left_out: Counter,
    /// Answers without a sale, by reason.
    pub no_bids: [Counter; NoBidReason::ALL.len()],
    /// Refused bodies, by reason.
    pub invalid: [Counter; InvalidReason::ALL.len()],
    /// Answers without an auction: 404, 405, 413, 415, and bodies that broke off or are no gzip.
    pub turned_away: Counter,
    /// Auctions abandoned because the caller left.
    pub abandoned: Counter,
    /// Panics of DSP connections; each closes only that connection.
    pub reactor_panics: Counter,
    /// Failed TLS handshakes of callers.
    pub handshakes_failed: Counter,
    /// Notices refused because the dispatcher's queue was full.
    pub notices_refused: Counter,
    /// Beacons whose DSP gets no notice.
    pub beacons_without_notice: Counter,
    /// Upstream's price for billed bids, per impression, in nanos of the exchange's currency.
    pub upstream_nanos: Counter,
    /// Billed bids with an upstream price.
    pub upstream_told: Counter,
    /// Billed bids whose upstream price cannot be read.
    pub upstream_unreadable: Counter,
    /// Beacons of other nodes, passed on and answered.
    pub beacons_passed_on: Counter,
    /// Beacons whose node was busy or unreachable, or at whose URL another server answered.
    pub beacons_not_passed_on: Counter,
    /// Beacons of nodes that are not listed.
    pub beacons_foreign: Counter,
    /// Refused beacons, by reason.
    pub beacons_refused: [Counter; BeaconTokenError::ALL.len()],
    /// From arrival until the body is complete and the shard handles it.
    pub receive: Histogram,
    /// Until the request is parsed and validated.
    pub parse: Histogram,
    /// Until the DSPs to ask are chosen.
    pub ask: Histogram,
    /// Until the close: writes to DSPs, and direct campaigns' bids.
    pub collect: Histogram,
    /// From the close to the answer's bytes.
    pub clear: Histogram,
    /// From the clearing to the answer: writing it and its notices.
    pub answer: Histogram,
    /// From arrival to the answer's bytes.
    pub total: Histogram,
    /// How late an answer's bytes were after arrival + `tmax`; in time, nothing is recorded.
    pub overshoot: Histogram,
    /// Bids by fate.
    pub fates: CounterArray<{ 1 + Fate::ALL.len() }>,
    /// Budgets of the shard.
    pub budget: BudgetMetrics,
}

/// Metrics of one DSP on one shard.
#[derive(Debug, Default)]
pub struct DspMetrics {
    /// Calls by outcome.
    pub outcomes: [Counter; 1 + CallOutcome::ALL.len()],
    /// Bodies of 200 answers, by content; unreadable ones are [`CallOutcome::Malformed`].
    pub responses: [Counter; 1 + ResponseFate::ALL.len()],
    /// Bids ignored because their response had more than [`exchange_core::BIDS_MAX`].
    pub surplus_bids: Counter,
    /// Requests not sent to the DSP, by reason.
    pub not_asked: [Counter; 1 + NotAsked::ALL.len()],
    /// Calls repeated after the DSP closed an idle connection.
    pub retries: Counter,
    /// Answers drained after their auction closed.
    pub drained: Counter,
    /// Connections opened.
    pub opened: Counter,
    /// Open connections, busy or idle.
    pub open: Gauge,
    /// From the request's first byte to the answer's last, late answers included.
    pub latency: Histogram,
    /// Notices not sent, by reason.
    pub unsent: [Counter; NotSent::ALL.len()],
    /// Ads returned without our beacon, by reason.
    pub unmarked: [Counter; Unmarked::ALL.len()],
    /// The last errors.
    pub errors: RecentErrors,
}

/// A DSP's last errors; keeps at most ten a second.
#[derive(Debug, Default)]
pub struct RecentErrors {
    /// Unix milliseconds of the last error kept.
    noted_ms: AtomicU64,
    errors: Mutex<VecDeque<(SystemTime, String)>>,
}

impl RecentErrors {
    const KEPT: usize = 8;
    const EVERY_MS: u64 = 100;
    const BYTES_MAX: usize = 256;

    /// Keeps the error, unless one just came: a failing DSP must cost no more than a healthy one.
    pub(crate) fn note(&self, error: impl FnOnce() -> String) {
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        if now_ms.saturating_sub(self.noted_ms.load(Ordering::Relaxed)) < Self::EVERY_MS {
            return;
        }
        self.noted_ms.store(now_ms, Ordering::Relaxed);
        let mut text = error();
        text.truncate(text.floor_char_boundary(Self::BYTES_MAX));
        let mut errors = self.errors.lock().expect("nothing panics while it holds the errors");
        if errors.len() == Self::KEPT {
            errors.pop_front();
        }
        errors.push_back((now, text));
    }

    pub fn recent(&self) -> Vec<(SystemTime, String)> {
        let errors = self.errors.lock().expect("nothing panics while it holds the errors");
        errors.iter().cloned().collect()
    }
}

/// Metrics of one seat on one shard.
#[derive(Debug, Default)]
pub struct SeatMetrics {
    /// Impressions won.
    pub wins: Counter,
    /// Price of those impressions, in nanos of the exchange's currency.
    pub revenue_nanos: Counter,
}

impl ExchangeMetrics {
    pub(crate) fn count_no_bid(&self, reason: NoBidReason) {
        self.no_bids[reason as usize].increment();
    }
}

#[derive(Clone, Debug)]
pub struct MetricsSources {
    pub guards: Guards,
    pub dispatcher: Option<NoticeMonitor>,
    pub record: Option<RecordLanes>,
}

pub fn expose(
    generation: &Generation,
    shards: &PerShard<ExchangeMetrics>,
    beside: &MetricsSources,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    expose_auctions(shards, page)?;
    expose_phases(shards, page)?;
    let mut fates = page.counters("exchange_bids", "Bids by fate and loss code.")?;
    for fate in Fate::ALL {
        let code = fate.code().to_string();
        let labels = [("fate", fate.label()), ("code", code.as_str())];
        fates.sum(&labels, shards.iter().map(|shard| &shard.fates[fate as usize]))?;
    }
    expose_dsps(generation, page)?;
    expose_guards(generation, &beside.guards, page)?;
    expose_notices(generation, shards, beside, page)?;
    if let Some(lanes) = &beside.record {
        record::expose(lanes, page)?;
    }
    budget::expose(shards, page)?;
    expose_seats(generation, page)
}

fn expose_guards(
    generation: &Generation,
    guards: &Guards,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let ids = generation.config.market.dsps.iter().map(|dsp| &*dsp.id);
    let of = |(id, dsp): (_, &DspInForce)| Some((id, guards.status(dsp.guard)?));
    let known: Vec<(&str, GuardStatus)> = ids.zip(&generation.dsps).filter_map(of).collect();
    let help = "State of a DSP's breaker: 0 closed, 1 throttled, 2 paused.";
    let mut states = page.gauges("exchange_dsp_breaker_state", help)?;
    for (id, status) in &known {
        let state = match status.state {
            BreakerState::Closed => 0,
            BreakerState::Throttled { .. } => 1,
            BreakerState::Paused => 2,
        };
        states.value(&[("dsp", *id)], state)?;
    }
    let mut in_flight = page.gauges("exchange_dsp_in_flight", "Calls in flight, by DSP.")?;
    for (id, status) in &known {
        let calls = i64::try_from(status.in_flight).unwrap_or(i64::MAX);
        in_flight.value(&[("dsp", *id)], calls)?;
    }
    Ok(())
}

fn expose_notices(
    generation: &Generation,
    shards: &PerShard<ExchangeMetrics>,
    beside: &MetricsSources,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let counted =
        beside.dispatcher.as_ref().map(|dispatcher| dispatcher.view().counters).unwrap_or_default();
    let mut notices = page.counters("exchange_notices", "Notices to DSPs, by outcome.")?;
    for (kind, outcome, count) in [
        ("billing", "delivered", counted.billing_delivered),
        ("billing", "given_up", counted.billing_given_up),
        ("best_effort", "delivered", counted.best_effort_delivered),
        ("best_effort", "failed", counted.best_effort_failed),
        ("best_effort", "shed", counted.best_effort_shed),
    ] {
        notices.value(&[("kind", kind), ("outcome", outcome)], count)?;
    }
    let refused = shards.iter().map(|shard| &shard.notices_refused);
    notices.sum(&[("kind", "any"), ("outcome", "queue_full")], refused)?;
    let help = "Failed attempts to send a notice, which may be repeated.";
    page.counters("exchange_notice_tries_failed", help)?.value(&[], counted.tries_failed)?;
    let mut waiting = page.gauges("exchange_notices_waiting", "Notices not yet delivered.")?;
    let level = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    waiting.value(&[("kind", "billing")], level(counted.billing_owed))?;
    waiting.value(&[("kind", "best_effort")], level(counted.best_effort_waiting))?;
    let mut beacons = page.counters("exchange_beacons", "Calls of beacons, by outcome.")?;
    for (outcome, count) in [
        ("accepted", counted.beacons_accepted),
        ("duplicate", counted.beacons_duplicate),
        ("busy", counted.beacons_busy),
        ("unjournalled", counted.beacons_unjournalled),
    ] {
        beacons.value(&[("outcome", outcome)], count)?;
    }
    let without_notice = shards.iter().map(|shard| &shard.beacons_without_notice);
    beacons.sum(&[("outcome", "no_notice")], without_notice)?;
    let passed_on = shards.iter().map(|shard| &shard.beacons_passed_on);
    beacons.sum(&[("outcome", "passed_on")], passed_on)?;
    let not_passed_on = shards.iter().map(|shard| &shard.beacons_not_passed_on);
    beacons.sum(&[("outcome", "not_passed_on")], not_passed_on)?;
    let foreign = shards.iter().map(|shard| &shard.beacons_foreign);
    beacons.sum(&[("outcome", "unknown_node")], foreign)?;
    for error in BeaconTokenError::ALL {
        let refused = shards.iter().map(|shard| shard.beacons_refused[error as usize].value());
        // Some expire between their opening and the dispatcher.
        let since = if error == BeaconTokenError::Expired { counted.beacons_expired } else { 0 };
        beacons.value(&[("outcome", error.label())], refused.sum::<u64>() + since)?;
    }
    let help = "Bids with a `burl` that an upstream billed, by whether it reported a price.";
    let mut prices = page.counters("exchange_upstream_prices", help)?;
    prices.sum(&[("outcome", "told")], shards.iter().map(|shard| &shard.upstream_told))?;
    let unreadable = shards.iter().map(|shard| &shard.upstream_unreadable);
    prices.sum(&[("outcome", "unreadable")], unreadable)?;
    let help = "Payments that upstream auctions reported, in the exchange's currency.";
    let mut paid = page.counters("exchange_upstream_payments", help)?;
    paid.sum_of_nanos(&[], shards.iter().map(|shard| &shard.upstream_nanos))?;
    let dsps = || {
        let ids = generation.config.market.dsps.iter().map(|dsp| &*dsp.id);
        ids.zip(generation.dsps.iter().map(|dsp| &dsp.metrics))
    };
    let help = "Notices that bids request and that are not sent, by reason.";
    let mut unsent = page.counters("exchange_notices_unsent", help)?;
    for (id, shards) in dsps() {
        for why in NotSent::ALL {
            let counters = shards.iter().map(|dsp| &dsp.unsent[why as usize]);
            unsent.sum(&[("dsp", id), ("reason", why.label())], counters)?;
        }
    }
    let help =
        "Ads returned without our beacon, by reason. Only `insecure` ones are billed: at once.";
    let mut unmarked = page.counters("exchange_ads_unmarked", help)?;
    let direct = generation.direct.iter().map(|direct| (DIRECT_DSP, &direct.metrics));
    for (id, shards) in dsps().chain(direct) {
        for why in Unmarked::ALL {
            let counters = shards.iter().map(|dsp| &dsp.unmarked[why as usize]);
            unmarked.sum(&[("dsp", id), ("reason", why.label())], counters)?;
        }
    }
    Ok(())
}

fn expose_auctions(shards: &PerShard<ExchangeMetrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
    let mut auctions = page.counters("exchange_auctions", "Answers to bid requests by outcome.")?;
    auctions.sum(&[("outcome", "filled")], shards.iter().map(|shard| &shard.filled))?;
    for (index, reason) in NoBidReason::ALL.iter().enumerate() {
        let counters = shards.iter().map(|shard| &shard.no_bids[index]);
        auctions.sum(&[("outcome", reason.label())], counters)?;
    }
    auctions.sum(&[("outcome", "abandoned")], shards.iter().map(|shard| &shard.abandoned))?;
    auctions.sum(&[("outcome", "turned_away")], shards.iter().map(|shard| &shard.turned_away))?;
    let mut invalid = page.counters("exchange_invalid_requests", "Refused bodies by reason.")?;
    for (index, reason) in InvalidReason::ALL.iter().enumerate() {
        let counters = shards.iter().map(|shard| &shard.invalid[index]);
        invalid.sum(&[("reason", reason.label())], counters)?;
    }
    let help = "Request fields whose type is not OpenRTB's, which DSPs do not receive.";
    page.counters("exchange_request_fields_dropped", help)?
        .sum(&[], shards.iter().map(|shard| &shard.mistyped))?;
    let help = "DSP connections closed because their code panicked.";
    page.counters("exchange_reactor_panics", help)?
        .sum(&[], shards.iter().map(|shard| &shard.reactor_panics))?;
    page.counters("exchange_handshakes_failed", "TLS handshakes of callers that failed.")?
        .sum(&[], shards.iter().map(|shard| &shard.handshakes_failed))?;
    page.counters("exchange_test_auctions", "Auctions with `test`, which move no money.")?
        .sum(&[], shards.iter().map(|shard| &shard.tests))?;
    let mut impressions =
        page.counters("exchange_impressions", "Impressions auctioned and sold.")?;
    impressions.sum(&[("state", "offered")], shards.iter().map(|shard| &shard.impressions))?;
    impressions.sum(&[("state", "no_rate")], shards.iter().map(|shard| &shard.unpriced))?;
    impressions.sum(&[("state", "sold")], shards.iter().map(|shard| &shard.sold))?;
    let help = "Matches of campaigns and impressions beyond exchange.direct.matches_max.";
    page.counters("exchange_direct_matches_left_out", help)?
        .sum(&[], shards.iter().map(|shard| &shard.direct_left_out))
}

fn expose_phases(shards: &PerShard<ExchangeMetrics>, page: &mut MetricsPage<'_>) -> fmt::Result {
    let mut phases =
        page.histograms("exchange_phase_seconds", "Time in each phase of an auction.")?;
    phases.sum(&[("phase", "receive")], shards.iter().map(|shard| &shard.receive))?;
    phases.sum(&[("phase", "parse")], shards.iter().map(|shard| &shard.parse))?;
    phases.sum(&[("phase", "ask")], shards.iter().map(|shard| &shard.ask))?;
    phases.sum(&[("phase", "collect")], shards.iter().map(|shard| &shard.collect))?;
    phases.sum(&[("phase", "clear")], shards.iter().map(|shard| &shard.clear))?;
    phases.sum(&[("phase", "answer")], shards.iter().map(|shard| &shard.answer))?;
    phases.sum(&[("phase", "total")], shards.iter().map(|shard| &shard.total))?;
    let help = "Time by which answers missed arrival + tmax; only misses are recorded.";
    page.histograms("exchange_overshoot_seconds", help)?
        .sum(&[], shards.iter().map(|shard| &shard.overshoot))
}

fn expose_dsps(generation: &Generation, page: &mut MetricsPage<'_>) -> fmt::Result {
    let dsps = || {
        let ids = generation.config.market.dsps.iter().map(|dsp| &*dsp.id);
        ids.zip(generation.dsps.iter().map(|dsp| &dsp.metrics))
    };
    let mut calls = page.counters("exchange_dsp_calls", "Calls to DSPs by outcome.")?;
    for (id, shards) in dsps() {
        for outcome in CallOutcome::ALL {
            let labels = [("dsp", id), ("outcome", outcome.label())];
            calls.sum(&labels, shards.iter().map(|dsp| &dsp.outcomes[outcome as usize]))?;
        }
    }
    let mut responses =
        page.counters("exchange_dsp_responses", "Responses with a body, by content.")?;
    for (id, shards) in dsps() {
        for fate in ResponseFate::ALL {
            let labels = [("dsp", id), ("content", fate.label())];
            responses.sum(&labels, shards.iter().map(|dsp| &dsp.responses[fate as usize]))?;
        }
    }
    let help = "Bids ignored because their response had more bids than the limit.";
    let mut surplus = page.counters("exchange_dsp_surplus_bids", help)?;
    for (id, shards) in dsps() {
        surplus.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.surplus_bids))?;
    }
    let help = "Requests for which a DSP was not asked, by reason.";
    let mut not_asked = page.counters("exchange_dsp_not_asked", help)?;
    for (id, shards) in dsps() {
        for reason in NotAsked::ALL {
            let labels = [("dsp", id), ("reason", reason.label())];
            not_asked.sum(&labels, shards.iter().map(|dsp| &dsp.not_asked[reason as usize]))?;
        }
    }
    let help = "Calls repeated because the DSP had closed an idle connection.";
    let mut retries = page.counters("exchange_dsp_retries", help)?;
    for (id, shards) in dsps() {
        retries.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.retries))?;
    }
    let help = "Responses that arrived after their auction had closed; read and discarded.";
    let mut drained = page.counters("exchange_dsp_late_answers", help)?;
    for (id, shards) in dsps() {
        drained.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.drained))?;
    }
    let mut opened = page.counters("exchange_dsp_connections_opened", "Connections opened.")?;
    for (id, shards) in dsps() {
        opened.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.opened))?;
    }
    let mut open = page.gauges("exchange_dsp_connections", "Connections open.")?;
    for (id, shards) in dsps() {
        open.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.open))?;
    }
    let mut latency =
        page.histograms("exchange_dsp_latency_seconds", "Time from request to response, by DSP.")?;
    for (id, shards) in dsps() {
        latency.sum(&[("dsp", id)], shards.iter().map(|dsp| &dsp.latency))?;
    }
    Ok(())
}

fn expose_seats(generation: &Generation, page: &mut MetricsPage<'_>) -> fmt::Result {
    let seats = || {
        let direct = generation.direct.iter().map(|direct| &direct.seats);
        let counted = generation.dsps.iter().map(|dsp| &dsp.seats).chain(direct);
        generation.config.market.dsps.iter().zip(counted).flat_map(|(rules, counted)| {
            let named = rules.seats.iter().zip(counted);
            named.map(move |(seat, shards)| (&*rules.id, &**seat, shards))
        })
    };
    let mut wins = page.counters("exchange_seat_wins", "Impressions won, by seat.")?;
    for (dsp, seat, shards) in seats() {
        wins.sum(&[("dsp", dsp), ("seat", seat)], shards.iter().map(|seat| &seat.wins))?;
    }
    let help = "Amounts that seats owe, in the exchange's currency.";
    let mut revenue = page.counters("exchange_seat_revenue", help)?;
    for (dsp, seat, shards) in seats() {
        let owed = shards.iter().map(|seat| &seat.revenue_nanos);
        revenue.sum_of_nanos(&[("dsp", dsp), ("seat", seat)], owed)?;
    }
    Ok(())
}

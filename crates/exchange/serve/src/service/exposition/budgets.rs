//! Metrics of budgets: reservations, refused winners and the funnel of direct campaigns.

use std::fmt;
use std::sync::atomic::Ordering;

use pacer_core::funnel::FunnelStep;
use pacer_core::refusal::SpendRefusal;
use pacer_core::shard::TokenRejection;
use runtime::metrics::{MetricsPage, PerShard};

use crate::budgets::remote::{RemotePacer, RemotePacerStatus};
use crate::metrics::{ExchangeMetrics, RESERVATION_OUTCOMES, RESERVATION_PROBLEMS};

pub(super) fn expose(
    shards: &PerShard<ExchangeMetrics>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let all = || shards.iter().map(|shard| &shard.budget);
    let help = "Winners whose account did not authorize the price, by reason.";
    let mut refused = page.counters("exchange_wins_refused", help)?;
    for refusal in SpendRefusal::ALL {
        let counters = all().map(|budget| &budget.refused[refusal as usize]);
        refused.sum(&[("reason", refusal.label())], counters)?;
    }
    let help = "Impressions offered to campaigns, and for all campaigns together the impressions that reached each step.";
    let mut funnel = page.counters("exchange_direct_impressions", help)?;
    for (at, step) in FunnelStep::ALL.into_iter().enumerate() {
        funnel.sum(&[("step", step.label())], all().map(|budget| &budget.funnel[at]))?;
    }
    let help = "Reservations by outcome; those that are neither won nor released expire.";
    let mut outcomes = page.counters("exchange_reservations", help)?;
    for (at, (label, _)) in RESERVATION_OUTCOMES.into_iter().enumerate() {
        outcomes.sum(&[("outcome", label)], all().map(|budget| &budget.outcomes[at]))?;
    }
    let help = "Rejected reservation tokens, by reason.";
    let mut rejected = page.counters("exchange_reservations_rejected", help)?;
    for (at, rejection) in TokenRejection::ALL.into_iter().enumerate() {
        let counters = all().map(|budget| &budget.rejected[at]);
        rejected.sum(&[("reason", rejection.label())], counters)?;
    }
    let help = "Sales without a beacon of ours that could not be booked and count in no budget.";
    let mut unbooked = page.counters("exchange_sales_unbooked", help)?;
    unbooked.sum(&[], all().map(|budget| &budget.unbooked))?;
    let help = "Reservations that a shard refused because it was full, and messages of the ledger \
                about campaigns that it rejected, usually for the same reason.";
    let mut problems = page.counters("exchange_shard_budget_full", help)?;
    for (at, (label, _)) in RESERVATION_PROBLEMS.into_iter().enumerate() {
        problems.sum(&[("of", label)], all().map(|budget| &budget.problems[at]))?;
    }
    Ok(())
}

/// Metrics of the connections to a remote pacer.
pub(super) fn expose_remote(
    pacer: &RemotePacer,
    shards: &PerShard<ExchangeMetrics>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let RemotePacerStatus { connected, clients, late, shed } = pacer.status();
    let level = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let help =
        "Shards by their connection to the pacer: those without one sell nothing for its seats.";
    let mut connections = page.gauges("exchange_pacer_connections", help)?;
    connections.value(&[("state", "connected")], level(connected))?;
    connections.value(&[("state", "disconnected")], level(clients - connected))?;
    let help = "Time for the decisions of the pacer, per clearing that asked for any.";
    page.histograms("exchange_pacer_seconds", help)?
        .sum(&[], shards.iter().map(|shard| &shard.budget.round_trip))?;
    let help = "Winners without a usable decision: it came too late and was returned, or too many waited to be sent.";
    let mut lost = page.counters("exchange_pacer_undecided", help)?;
    lost.value(&[("reason", "late")], late)?;
    lost.value(&[("reason", "shed")], shed)?;
    let help = "Settlements by the pacer's result: those refused are in no budget.";
    let mut settled = page.counters("exchange_pacer_settlements", help)?;
    settled.value(&[("result", "booked")], pacer.counts.booked.value())?;
    settled.value(&[("result", "refused")], pacer.counts.refused.value())?;
    let help =
        "Records of the durable lane that may hold settlements which the pacer has not booked yet.";
    let behind = pacer.counts.behind.load(Ordering::Relaxed);
    page.gauges("exchange_pacer_records_behind", help)?
        .value(&[], i64::try_from(behind).unwrap_or(i64::MAX))
}

//! Metrics of the pacer on the wire.

use std::fmt;
use std::sync::Arc;

use pacer_core::funnel::SharedFunnels;
use pacer_wire::{DecisionCode, ProtocolError, SettlementCode};
use runtime::metrics::{MetricsPage, PerShard};

use crate::wire::bidders::Bidder;
use crate::wire::counters::PacerCounts;

/// Adds the metrics of all shards.
pub(super) fn expose(
    bidders: &[Arc<Bidder>],
    shards: &PerShard<PacerCounts>,
    funnels: &SharedFunnels,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let named = || bidders.iter().map(|bidder| (&*bidder.config.id, &bidder.counts));
    let mut connections = page.gauges("pacer_connections", "Open connections.")?;
    for (client, counts) in named() {
        let open = counts.iter().map(|shard| shard.connections.value()).sum();
        connections.value(&[("client", client)], open)?;
    }
    let mut batches = page.counters("pacer_batches", "Batches of bid requests.")?;
    for (client, counts) in named() {
        batches.sum(&[("client", client)], counts.iter().map(|shard| &shard.batches))?;
    }
    let help = "Bid requests by decision: `authorised`, or why no candidate may spend.";
    let mut decisions = page.counters("pacer_decisions", help)?;
    for (client, counts) in named() {
        for code in DecisionCode::ALL {
            let labels = [("client", client), ("decision", code.label())];
            decisions.sum(&labels, counts.iter().map(|shard| &shard.decisions[code as usize]))?;
        }
    }
    let help = "Settlements by result.";
    let mut settlements = page.counters("pacer_settlements", help)?;
    for (client, counts) in named() {
        for code in SettlementCode::ALL {
            let labels = [("client", client), ("result", code.label())];
            settlements
                .sum(&labels, counts.iter().map(|shard| &shard.settlements[code as usize]))?;
        }
    }
    let mut billed = page.counters("pacer_billed", "Cost of booked wins, in any currency.")?;
    for (client, counts) in named() {
        let nanos = counts.iter().map(|shard| shard.billed_nanos.value());
        let nanos = nanos.fold(0, u64::wrapping_add);
        billed.nanos(&[("client", client)], nanos)?;
    }
    let help = "Times that a client was given no credit, because nothing can be made durable.";
    let mut stalls = page.counters("pacer_credit_stalls", help)?;
    for (client, counts) in named() {
        stalls.sum(&[("client", client)], counts.iter().map(|shard| &shard.credit_stalls))?;
    }
    let help = "Connections that ended because of an error, by code.";
    let mut errors = page.counters("pacer_errors", help)?;
    for code in ProtocolError::ALL {
        let ended = shards.iter().map(|shard| &shard.errors[code as usize]);
        errors.sum(&[("code", code.label())], ended)?;
    }
    let help = "Settlements that wait for room in the record.";
    let waiting = shards.iter().map(|shard| shard.settlements_waiting.value()).sum();
    page.gauges("pacer_settlements_waiting", help)?.value(&[], waiting)?;
    let help =
        "Bid requests that are in no campaign's funnel: there were too many campaigns at once.";
    page.counters("pacer_requests_uncounted", help)?.value(&[], funnels.dropped())?;
    let help = "From the receipt of a batch to the end of the write with its decisions.";
    page.histograms("pacer_batch_seconds", help)?.sum(&[], shards.iter().map(|shard| &shard.batch))
}

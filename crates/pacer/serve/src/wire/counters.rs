//! What the pacer counts: by shard, and by client within it.

use std::fmt;
use std::sync::Arc;

use pacer_wire::{DecisionCode, ProtocolError, SettlementCode};
use runtime::metrics::{Counter, CounterArray, Gauge, Histogram, MetricsPage, PerShard};

/// Counters of one shard.
#[derive(Debug)]
pub(crate) struct PacerCounts {
    /// By client, in the order of the configuration.
    pub clients: Vec<ClientCounts>,
    /// From the receipt of a batch to the end of the write with its decisions.
    pub batch: Histogram,
    /// Connections that ended because of an error, by code.
    pub errors: CounterArray<ERRORS>,
    /// Clients that were not let in.
    pub denied: Counter,
    /// Records of settlements that found no room, or a failing disk, and wait.
    pub settlements_waiting: Gauge,
}

/// One more than the highest code.
const ERRORS: usize = ProtocolError::TooMany as usize + 1;

/// A client's counters on a shard.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    pub connections: Gauge,
    pub batches: Counter,
    pub decisions: CounterArray<{ DecisionCode::ALL.len() }>,
    pub settlements: CounterArray<{ SettlementCode::ALL.len() }>,
    /// Times that a credit of 0 was sent.
    pub credit_stalls: Counter,
    /// Billed in wins that were booked.
    pub billed_nanos: Counter,
}

impl PacerCounts {
    pub fn new(clients: usize) -> Self {
        Self {
            clients: (0..clients).map(|_| ClientCounts::default()).collect(),
            batch: Histogram::default(),
            errors: CounterArray::default(),
            denied: Counter::default(),
            settlements_waiting: Gauge::default(),
        }
    }
}

/// Adds the metrics of all shards.
pub(crate) fn expose(
    clients: &[Arc<str>],
    shards: &PerShard<PacerCounts>,
    page: &mut MetricsPage<'_>,
) -> fmt::Result {
    let of = |at: usize| shards.iter().map(move |shard| &shard.clients[at]);
    let named = || clients.iter().map(|id| &**id).enumerate();
    let mut connections = page.gauges("pacer_connections", "Open connections.")?;
    for (at, client) in named() {
        let open = of(at).map(|counts| counts.connections.value()).sum();
        connections.value(&[("client", client)], open)?;
    }
    let mut batches = page.counters("pacer_batches", "Batches of bid requests.")?;
    for (at, client) in named() {
        batches.sum(&[("client", client)], of(at).map(|counts| &counts.batches))?;
    }
    let help = "Bid requests by decision: `authorised`, or why no candidate may spend.";
    let mut decisions = page.counters("pacer_decisions", help)?;
    for (at, client) in named() {
        for code in DecisionCode::ALL {
            let labels = [("client", client), ("decision", code.label())];
            decisions.sum(&labels, of(at).map(|counts| &counts.decisions[code as usize]))?;
        }
    }
    let help = "Settlements by result.";
    let mut settlements = page.counters("pacer_settlements", help)?;
    for (at, client) in named() {
        for code in SettlementCode::ALL {
            let labels = [("client", client), ("result", code.label())];
            settlements.sum(&labels, of(at).map(|counts| &counts.settlements[code as usize]))?;
        }
    }
    let mut billed = page.counters("pacer_billed", "Cost of booked wins, in any currency.")?;
    for (at, client) in named() {
        let nanos = of(at).map(|counts| counts.billed_nanos.value()).fold(0, u64::wrapping_add);
        billed.nanos(&[("client", client)], nanos)?;
    }
    let help = "Times that a client was given no credit, because nothing can be made durable.";
    let mut stalls = page.counters("pacer_credit_stalls", help)?;
    for (at, client) in named() {
        stalls.sum(&[("client", client)], of(at).map(|counts| &counts.credit_stalls))?;
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
    let help = "From the receipt of a batch to the end of the write with its decisions.";
    page.histograms("pacer_batch_seconds", help)?.sum(&[], shards.iter().map(|shard| &shard.batch))
}

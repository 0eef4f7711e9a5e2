//! What the pacer counts: by shard, and by client within it.

use pacer_wire::{DecisionCode, ProtocolError, SettlementCode};
use runtime::metrics::{Counter, CounterArray, Gauge, Histogram};

/// Counters of one shard.
#[derive(Debug, Default)]
pub(crate) struct PacerCounts {
    /// From the receipt of a batch to the end of the write with its decisions.
    pub batch: Histogram,
    /// Connections that ended because of an error, by code.
    pub errors: CounterArray<ERRORS>,
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

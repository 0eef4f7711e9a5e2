//! What the live floor counts, by shard.

use live_core::protocol::LiveErrorCode;
use runtime::metrics::{Counter, CounterArray, Gauge};

/// Counters of one shard.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    /// Open connections over WebSocket.
    pub sockets: Gauge,
    /// Open streams of server-sent events.
    pub streams: Gauge,
    /// Subscriptions that get every message or are disconnected.
    pub strict: Gauge,
    /// Subscriptions that get the latest message of each key.
    pub conflating: Gauge,
    /// Different selections.
    pub views: Gauge,
    /// Bytes of messages in the ring.
    pub ring_bytes: Gauge,
    /// Commands of clients.
    pub commands: Counter,
    /// Commands and requests that were refused, by code.
    pub refusals: CounterArray<{ LiveErrorCode::ALL.len() }>,
    /// Messages of clients that were accepted for publishing.
    pub published: Counter,
    /// Messages handed to sockets, counted by subscriber.
    pub delivered: Counter,
    /// Bytes handed to sockets.
    pub sent_bytes: Counter,
    /// Messages that conflating subscribers missed.
    pub skipped: Counter,
    /// Strict subscribers that were disconnected because they read too slowly.
    pub slow_closes: Counter,
    /// Connections that were closed because the client broke the protocol.
    pub violations: Counter,
    /// Subscriptions that resumed from the ring.
    pub resumed_from_ring: Counter,
    /// Subscriptions that resumed from the log.
    pub resumed_from_log: Counter,
    /// Messages read from the log for subscribers that resumed.
    pub replayed: Counter,
}

//! A DSP as the connections of one shard see it.
//!
//! Knows neither sockets nor connections.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use runtime::metrics::Padded;
use tokio::time::Instant;
use tracing::{debug, warn};
use units::Ppm;

use super::endpoint::Endpoint;
use super::health::{AddressHealths, Backoff, ConnectAttempt};
use crate::metrics::DspMetrics;

/// Limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most connections from one shard to one DSP, and most calls that wait for one.
    pub connections_max: usize,
    /// Most calls in flight on a connection that carries several.
    pub streams_max: usize,
    /// Most connections opening at once, plus one for every four open.
    pub opening_max: usize,
    /// Share of a shard's time for handshakes with all DSPs.
    pub handshake_share: Ppm,
    /// Longest attempt to connect.
    pub connect_timeout: Duration,
    /// Idle connections close after this long.
    pub idle_timeout: Duration,
    /// How long after its auction a late answer may arrive before its connection closes.
    pub drain_timeout: Duration,
    /// Pauses of failing addresses.
    pub backoff: Backoff,
    /// Most tiny reads of one answer before its connection closes.
    pub small_reads_max: u32,
}

/// A pool and its connections share it.
#[derive(Debug)]
pub(super) struct DspPeer {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) limits: Cell<PoolLimits>,
    pub(super) metrics: Arc<Padded<DspMetrics>>,
    pub(super) health: RefCell<AddressHealths>,
}

impl DspPeer {
    /// The next address, round robin by `turn`, that is not paused.
    ///
    /// # Errors
    /// None is known, or all are paused.
    pub(super) fn next_address(&self, turn: u64, now: Instant) -> Result<SocketAddr, CallOutcome> {
        let addresses = self.endpoint.addresses.current();
        if addresses.is_empty() {
            return Err(CallOutcome::Unresolved);
        }
        let health = self.health.borrow();
        let turn = usize::try_from(turn).unwrap_or(0) % addresses.len();
        let (after, before) = addresses.split_at(turn);
        let mut in_turn = before.iter().chain(after);
        let may_be_tried = |address: &&SocketAddr| health.allows(**address, now);
        in_turn.find(may_be_tried).copied().ok_or(CallOutcome::Unreachable)
    }

    pub(super) fn refused(&self, attempt: ConnectAttempt, error: &io::Error) {
        let backoff = self.limits.get().backoff;
        let pause = self.health.borrow_mut().refused(attempt, Instant::now(), backoff);
        log_pause(attempt.address, pause, &error.to_string());
    }

    /// A connection was used, and ended without an answer.
    pub(super) fn ended_unanswered(&self, attempt: ConnectAttempt) {
        let backoff = self.limits.get().backoff;
        let pause = self.health.borrow_mut().ended_unanswered(attempt, Instant::now(), backoff);
        log_pause(attempt.address, pause, "connections end without an answer");
    }
}

fn log_pause(address: SocketAddr, pause: Option<u32>, error: &str) {
    let Some(count) = pause else { return };
    if count == 1 {
        warn!(%address, error, "DSP cannot be reached; retrying with backoff");
    } else {
        debug!(%address, error, failures = count, "DSP still cannot be reached");
    }
}

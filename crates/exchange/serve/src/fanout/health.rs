//! Health of a DSP's addresses, which decides where a connection may be opened.
//!
//! Knows no sockets. An address that refuses connections, or whose connections end in a row without
//! an answer, is paused, each time for twice as long. Then one connection is on trial until it
//! carries an answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// An attempt to connect, and the connection that it opens.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectAttempt {
    pub(super) address: SocketAddr,
    pub(super) began: Instant,
}

/// Health by address; healthy ones have no entry.
#[derive(Debug, Default)]
pub(super) struct AddressHealths(HashMap<SocketAddr, AddressHealth>);

#[derive(Clone, Copy, Debug, Default)]
struct AddressHealth {
    /// Connections in a row that ended without an answer.
    unanswered: u32,
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    count: u32,
    until: Instant,
    /// Whether a connection after the pause is open.
    on_trial: bool,
}

/// Pauses of failing addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Most connections in a row without an answer before a pause.
    pub unanswered_max: u32,
    /// The first pause; each further one doubles.
    pub min: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl AddressHealths {
    pub(super) fn allows(&self, address: SocketAddr, now: Instant) -> bool {
        let pause = self.0.get(&address).and_then(|health| health.pause);
        pause.is_none_or(|pause| pause.until <= now && !pause.on_trial)
    }

    /// A connection is being opened.
    pub(super) fn tried(&mut self, address: SocketAddr) {
        if let Some(pause) = self.pause_mut(address) {
            pause.on_trial = true;
        }
    }

    /// A complete answer. One on a connection from before a pause does not end the pause.
    pub(super) fn answered(&mut self, attempt: ConnectAttempt) {
        if self.0.is_empty() {
            return;
        }
        let Some(health) = self.0.get_mut(&attempt.address) else { return };
        health.unanswered = 0;
        if health.pause.is_none_or(|pause| pause.until <= attempt.began) {
            self.0.remove(&attempt.address);
        }
    }

    /// A connection was used and ended without an answer. Returns the pause's number, if it starts
    /// one.
    pub(super) fn ended_unanswered(
        &mut self,
        attempt: ConnectAttempt,
        now: Instant,
        backoff: Backoff,
    ) -> Option<u32> {
        let health = self.0.entry(attempt.address).or_default();
        health.unanswered = health.unanswered.saturating_add(1);
        // A trial fails at once.
        if health.pause.is_none() && health.unanswered <= backoff.unanswered_max {
            return None;
        }
        self.refused(attempt, now, backoff)
    }

    /// A connection ended unused.
    pub(super) fn unused(&mut self, attempt: ConnectAttempt) {
        let pause = self.pause_mut(attempt.address);
        if let Some(pause) = pause.filter(|pause| pause.until <= attempt.began) {
            pause.on_trial = false;
        }
    }

    /// Forgets addresses that left the DSP's name.
    pub(super) fn keep(&mut self, known: &[SocketAddr]) {
        self.0.retain(|address, _| known.contains(address));
    }

    /// An attempt failed. Returns the pause's number, if it starts one.
    pub(super) fn refused(
        &mut self,
        attempt: ConnectAttempt,
        now: Instant,
        backoff: Backoff,
    ) -> Option<u32> {
        let health = self.0.entry(attempt.address).or_default();
        // Concurrent attempts fail together and count once.
        if health.pause.is_some_and(|pause| attempt.began < pause.until) {
            return None;
        }
        let count = health.pause.map_or(0, |pause| pause.count).saturating_add(1);
        let doubled = backoff.min.saturating_mul(1 << (count - 1).min(16));
        let until = now + doubled.min(backoff.max);
        health.pause = Some(Pause { count, until, on_trial: false });
        Some(count)
    }

    fn pause_mut(&mut self, address: SocketAddr) -> Option<&mut Pause> {
        self.0.get_mut(&address)?.pause.as_mut()
    }
}

#[cfg(test)]
mod tests;

//! Which of a DSP's addresses a connection may be opened to, after what came of the last ones.
//!
//! Knows no sockets. An address at which nothing can be opened, or where connections end one after
//! the other without a whole answer, is left alone for a while that doubles; then one connection is
//! on trial, and no other is opened before it has borne an answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// What came of connections, by address; those at which all is well are not in it.
#[derive(Debug, Default)]
pub(super) struct AddressHealths(HashMap<SocketAddr, AddressHealth>);

#[derive(Clone, Copy, Debug, Default)]
struct AddressHealth {
    /// Connections that ended in a row without an answer.
    barren: u32,
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    /// How many there were in a row.
    count: u32,
    until: Instant,
    /// A connection that began after it is under way.
    on_trial: bool,
}

/// When an address is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Connections in a row that may end without an answer.
    pub barren_max: u32,
    /// The first pause; it doubles with each further one.
    pub min: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl AddressHealths {
    /// Whether a connection may be opened now.
    pub(super) fn allows(&self, address: SocketAddr, now: Instant) -> bool {
        let pause = self.0.get(&address).and_then(|standing| standing.pause);
        pause.is_none_or(|pause| pause.until <= now && !pause.on_trial)
    }

    /// A connection is being opened.
    pub(super) fn tried(&mut self, address: SocketAddr) {
        if let Some(pause) = self.pause_mut(address) {
            pause.on_trial = true;
        }
    }

    /// A whole answer has come on a connection that began to be opened at `began`. One of before a
    /// pause says nothing of what can be opened now.
    pub(super) fn answered(&mut self, address: SocketAddr, began: Instant) {
        if self.0.is_empty() {
            return;
        }
        let Some(standing) = self.0.get_mut(&address) else { return };
        standing.barren = 0;
        if standing.pause.is_none_or(|pause| pause.until <= began) {
            self.0.remove(&address);
        }
    }

    /// A connection that began to be opened at `began` was used, and has ended without an answer.
    pub(super) fn barren(
        &mut self,
        address: SocketAddr,
        (began, now): (Instant, Instant),
        backoff: Backoff,
    ) -> Option<u32> {
        let standing = self.0.entry(address).or_default();
        standing.barren = standing.barren.saturating_add(1);
        // One on trial is not borne.
        if standing.pause.is_none() && standing.barren <= backoff.barren_max {
            return None;
        }
        self.refused(address, (began, now), backoff)
    }

    /// A connection that began to be opened at `began` has ended unused.
    pub(super) fn unused(&mut self, address: SocketAddr, began: Instant) {
        if let Some(pause) = self.pause_mut(address).filter(|pause| pause.until <= began) {
            pause.on_trial = false;
        }
    }

    /// Names move: addresses that have gone are not remembered.
    pub(super) fn keep(&mut self, known: &[SocketAddr]) {
        self.0.retain(|address, _| known.contains(address));
    }

    /// No connection could be opened by an attempt that began at `began`; which pause in a row it
    /// starts, if it does.
    pub(super) fn refused(
        &mut self,
        address: SocketAddr,
        (began, now): (Instant, Instant),
        backoff: Backoff,
    ) -> Option<u32> {
        let standing = self.0.entry(address).or_default();
        // What was under way together fails together: that is one failure, not many.
        if standing.pause.is_some_and(|pause| began < pause.until) {
            return None;
        }
        let count = standing.pause.map_or(0, |pause| pause.count).saturating_add(1);
        let doubled = backoff.min.saturating_mul(1 << (count - 1).min(16));
        let until = now + doubled.min(backoff.max);
        standing.pause = Some(Pause { count, until, on_trial: false });
        Some(count)
    }

    fn pause_mut(&mut self, address: SocketAddr) -> Option<&mut Pause> {
        self.0.get_mut(&address)?.pause.as_mut()
    }
}

#[cfg(test)]
mod tests;

//! Limits a shard's time for TLS handshakes with DSPs.
//!
//! A handshake costs a good part of an auction, and a cold start needs hundreds. Without a limit
//! auctions wait, and then need still more connections. Knows no sockets.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use units::Ppm;

/// Work that may start at once; also covers a timer's rounding.
const BURST: Duration = Duration::from_millis(2);
/// Assumed cost of a handshake until one is measured.
const COST_AT_FIRST: Duration = Duration::from_micros(300);

#[derive(Debug)]
pub(in crate::fanout) struct Handshakes {
    queue: Semaphore,
    account: Cell<HandshakeAllowance>,
}

#[derive(Clone, Copy, Debug)]
struct HandshakeAllowance {
    /// Work begun that is not earned yet.
    owed: Duration,
    at: Instant,
    /// Moving average cost of a handshake.
    cost: Duration,
}

/// A handshake that may begin, with the time reserved for it.
#[derive(Debug)]
#[must_use = "its cost must be charged"]
pub(in crate::fanout) struct Turn(Duration);

impl Handshakes {
    pub(in crate::fanout) fn new(now: Instant) -> Self {
        let account = HandshakeAllowance { owed: Duration::ZERO, at: now, cost: COST_AT_FIRST };
        Self { queue: Semaphore::new(1), account: Cell::new(account) }
    }

    /// Waits until one more may begin, so that all take at most `share` of the time.
    pub(in crate::fanout) async fn turn(&self, share: Ppm) -> Turn {
        let _first = self.queue.acquire().await.expect("it is never closed");
        loop {
            match self.begin(Instant::now(), share) {
                Ok(turn) => return turn,
                Err(wait) => sleep(wait).await,
            }
        }
    }

    /// Begins one more, or returns how long to wait.
    fn begin(&self, now: Instant, share: Ppm) -> Result<Turn, Duration> {
        let HandshakeAllowance { owed, at, cost } = self.account.get();
        let owed = owed.saturating_sub(earned(now.saturating_duration_since(at), share));
        if owed > BURST {
            self.account.set(HandshakeAllowance { owed, at: now, cost });
            return Err(time_to_earn(owed - BURST, share));
        }
        self.account.set(HandshakeAllowance { owed: owed + cost, at: now, cost });
        Ok(Turn(cost))
    }

    /// Ends a handshake that took `took` of the shard's time.
    pub(in crate::fanout) fn end(&self, turn: Turn, took: Duration) {
        self.cancel(turn, took);
        let account = self.account.get();
        let cost = (account.cost * 7 + took) / 8;
        self.account.set(HandshakeAllowance { cost, ..account });
    }

    /// Ends a failed handshake: its time is charged, but not averaged.
    pub(in crate::fanout) fn cancel(&self, Turn(reserved): Turn, took: Duration) {
        let account = self.account.get();
        let owed = (account.owed + took).saturating_sub(reserved);
        self.account.set(HandshakeAllowance { owed, ..account });
    }
}

fn earned(elapsed: Duration, share: Ppm) -> Duration {
    // Far less than a second's worth is owed.
    elapsed.min(Duration::from_secs(1_000)) * share.get() / Ppm::ONE.get()
}

fn time_to_earn(work: Duration, share: Ppm) -> Duration {
    work * Ppm::ONE.get() / share.get().max(1)
}

#[cfg(test)]
mod tests;

//! How much of a shard's time goes into TLS handshakes with DSPs.
//!
//! One costs as much as a good part of an auction, and a cold start wants hundreds: unbounded they
//! leave auctions no time, which then wait, and want more connections still. Those that are wanted
//! wait in turn until their time is earned. Knows no sockets.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use units::Ppm;

/// Work of handshakes that may be done at once; also bridges what a timer rounds up.
const BURST: Duration = Duration::from_millis(2);
/// What a handshake costs until one has been measured.
const COST_AT_FIRST: Duration = Duration::from_micros(300);

/// The handshakes of one shard.
#[derive(Debug)]
pub(super) struct Handshakes {
    first_in_turn: Semaphore,
    account: Cell<HandshakeAllowance>,
}

#[derive(Clone, Copy, Debug)]
struct HandshakeAllowance {
    /// Work begun that time has not earned yet.
    owed: Duration,
    /// When that was.
    at: Instant,
    /// What a handshake costs, lately.
    cost: Duration,
}

/// A handshake that may begin, and what was set aside for it.
#[derive(Debug)]
#[must_use = "what it cost is to be told"]
pub(super) struct Turn(Duration);

impl Handshakes {
    pub(super) fn new(now: Instant) -> Self {
        let account = HandshakeAllowance { owed: Duration::ZERO, at: now, cost: COST_AT_FIRST };
        Self { first_in_turn: Semaphore::new(1), account: Cell::new(account) }
    }

    /// Waits until one more may begin, so that all together take at most `share` of the time.
    pub(super) async fn turn(&self, share: Ppm) -> Turn {
        let _first = self.first_in_turn.acquire().await.expect("it is never closed");
        loop {
            match self.begin(Instant::now(), share) {
                Ok(turn) => return turn,
                Err(wait) => sleep(wait).await,
            }
        }
    }

    /// One more begins, or may after a wait.
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

    /// The handshake has taken so much of the shard's time.
    pub(super) fn end(&self, Turn(set_aside): Turn, took: Duration) {
        let HandshakeAllowance { owed, at, cost } = self.account.get();
        let owed = (owed + took).saturating_sub(set_aside);
        self.account.set(HandshakeAllowance { owed, at, cost: (cost * 7 + took) / 8 });
    }

    /// The handshake came to nothing, after so much of the shard's time: it says nothing of what one
    /// costs.
    pub(super) fn forgo(&self, Turn(set_aside): Turn, took: Duration) {
        let HandshakeAllowance { owed, at, cost } = self.account.get();
        self.account.set(HandshakeAllowance {
            owed: (owed + took).saturating_sub(set_aside),
            at,
            cost,
        });
    }
}

fn earned(elapsed: Duration, share: Ppm) -> Duration {
    // What is owed is far less than a second's worth.
    elapsed.min(Duration::from_secs(1_000)) * share.get() / Ppm::ONE.get()
}

fn time_to_earn(work: Duration, share: Ppm) -> Duration {
    work * Ppm::ONE.get() / share.get().max(1)
}

#[cfg(test)]
mod tests;

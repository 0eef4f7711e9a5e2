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
mod tests {
    use super::*;

    const QUARTER: Ppm = Ppm::new(250_000).unwrap();

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Begins as many as may begin each millisecond of a second, all of `cost`.
    fn begun_in_a_second(cost: Duration) -> u32 {
        let start = Instant::now();
        let handshakes = Handshakes::new(start);
        let mut begun = 0;
        for at in 0..1_000 {
            while let Ok(turn) = handshakes.begin(start + ms(at), QUARTER) {
                handshakes.end(turn, cost);
                begun += 1;
            }
        }
        begun
    }

    #[test]
    fn they_take_their_share_whatever_one_costs() {
        for cost_us in [50, 400, 5_000] {
            let took =
                Duration::from_micros(cost_us) * begun_in_a_second(Duration::from_micros(cost_us));
            // A burst, and the last one, may be on top.
            let most = ms(250) + BURST + Duration::from_micros(cost_us);
            assert!((ms(245)..=most).contains(&took), "{cost_us} µs: {took:?}");
        }
    }

    #[test]
    fn what_is_under_way_counts_before_it_ends() {
        let start = Instant::now();
        let handshakes = Handshakes::new(start);
        let begun = std::iter::from_fn(|| handshakes.begin(start, QUARTER).ok()).count();
        assert_eq!(begun, 7, "2 ms of 0.3 ms each, and one that passes it");
        let wait = handshakes.begin(start, QUARTER).unwrap_err();
        assert_eq!(wait, Duration::from_micros(400), "0.1 ms at a quarter");
        assert!(handshakes.begin(start + wait, QUARTER).is_ok());
    }

    /// A DSP that never answers must not make handshakes look cheap, nor a costly failure be free.
    #[test]
    fn what_fails_is_charged_and_says_nothing_of_the_cost() {
        let start = Instant::now();
        let handshakes = Handshakes::new(start);
        for _ in 0..100 {
            handshakes.forgo(handshakes.begin(start, QUARTER).unwrap(), Duration::ZERO);
        }
        assert_eq!(handshakes.account.get().cost, COST_AT_FIRST);
        handshakes.forgo(handshakes.begin(start, QUARTER).unwrap(), ms(10));
        assert_eq!(handshakes.begin(start, QUARTER).unwrap_err(), ms(32), "8 ms at a quarter");
    }

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_order() {
        let handshakes = Handshakes::new(Instant::now());
        let come = std::cell::RefCell::new(Vec::new());
        let one = async |number: u32| {
            let turn = handshakes.turn(QUARTER).await;
            handshakes.end(turn, ms(3));
            come.borrow_mut().push(number);
        };
        tokio::join!(one(1), one(2), one(3), one(4));
        assert_eq!(*come.borrow(), [1, 2, 3, 4]);
    }
}

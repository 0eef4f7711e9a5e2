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
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { barren_max: 2, min: Duration::from_millis(50), max: Duration::from_millis(150) };

    fn address() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 80))
    }

    /// Standings, and times by milliseconds.
    fn setup() -> (AddressHealths, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (AddressHealths::default(), move |ms| start + Duration::from_millis(ms))
    }

    #[test]
    fn pauses_double_up_to_the_most_and_end_with_an_answer() {
        let (mut standings, at) = setup();
        let steps = [
            // began, refused, which pause, until
            (0, 10, Some(1), 60),
            (5, 20, None, 60), // It was under way with the first.
            (60, 70, Some(2), 170),
            (170, 170, Some(3), 320), // Not 200 ms: that is beyond the most.
            (320, 330, Some(4), 480),
        ];
        for (began, refused, pause, until) in steps {
            let paused = standings.refused(address(), (at(began), at(refused)), BACKOFF);
            assert_eq!(paused, pause, "{began}");
            assert!(!standings.allows(address(), at(until - 1)), "{began}");
            assert!(standings.allows(address(), at(until)), "{began}");
        }
        standings.answered(address(), at(319));
        assert!(!standings.allows(address(), at(479)), "an old connection, on which it goes on");
        standings.answered(address(), at(480));
        assert!(standings.allows(address(), at(331)));
        assert_eq!(standings.refused(address(), (at(481), at(481)), BACKOFF), Some(1));
    }

    #[test]
    fn after_a_pause_one_is_tried_at_a_time() {
        let (mut standings, at) = setup();
        standings.tried(address());
        assert!(standings.allows(address(), at(0)), "nothing is amiss");
        standings.refused(address(), (at(0), at(0)), BACKOFF);
        standings.tried(address());
        assert!(!standings.allows(address(), at(60)));
        standings.unused(address(), at(10)); // Of before the pause: it was not on trial.
        assert!(!standings.allows(address(), at(60)));
        standings.unused(address(), at(55));
        assert!(standings.allows(address(), at(60)));
        standings.tried(address());
        assert_eq!(standings.refused(address(), (at(60), at(61)), BACKOFF), Some(2));
        assert!(standings.allows(address(), at(161)));
    }

    #[test]
    fn some_connections_without_an_answer_are_borne() {
        let (mut standings, at) = setup();
        let ends = |standings: &mut AddressHealths, ms| {
            standings.barren(address(), (at(0), at(ms)), BACKOFF)
        };
        assert_eq!(ends(&mut standings, 1), None);
        assert_eq!(ends(&mut standings, 2), None);
        standings.answered(address(), at(0));
        assert_eq!(ends(&mut standings, 3), None);
        assert_eq!(ends(&mut standings, 4), None);
        assert!(standings.allows(address(), at(4)));
        assert_eq!(ends(&mut standings, 5), Some(1));
        assert!(!standings.allows(address(), at(54)));
        assert_eq!(ends(&mut standings, 60), None, "it began with those before the pause");
        assert!(standings.allows(address(), at(60)));
    }

    #[test]
    fn a_trial_without_an_answer_ends_in_another_pause() {
        let (mut standings, at) = setup();
        standings.refused(address(), (at(0), at(0)), BACKOFF);
        standings.tried(address());
        assert_eq!(standings.barren(address(), (at(50), at(60)), BACKOFF), Some(2));
        assert!(standings.allows(address(), at(160)));
    }

    #[test]
    fn addresses_that_have_gone_are_forgotten() {
        let (mut standings, at) = setup();
        standings.refused(address(), (at(0), at(0)), BACKOFF);
        standings.keep(&[address()]);
        assert!(!standings.allows(address(), at(0)));
        standings.keep(&[]);
        assert!(standings.allows(address(), at(0)));
    }
}

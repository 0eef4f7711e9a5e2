//! When each request is meant to leave. Pure: time since the start is an argument.
//!
//! In an open loop the intended times are fixed beforehand, whatever the target does, and
//! latency counts from them: a target that stalls is charged for every request that should have
//! left meanwhile ("coordinated omission", G. Tene, 2013).

use std::time::Duration;

use super::{Length, Mode};

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Since the start.
    pub(super) intended: Duration,
    /// False during the warm-up.
    pub(super) measured: bool,
}

/// What a connection is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Send(Ticket),
    /// Nothing is due yet.
    Wait,
    /// Nothing will be due any more.
    Done,
}

/// The requests of one run.
#[derive(Debug)]
pub(super) struct Schedule {
    mode: Mode,
    warm_up: Duration,
    length: Length,
    /// How long after its intended time a request is given up unsent.
    patience: Duration,
    /// Open loop: the number of the next request.
    next: u64,
    /// Measured requests handed out or given up.
    measured: u64,
    /// Measured requests given up.
    unsent: u64,
    stopped: bool,
}

impl Schedule {
    pub(super) const fn new(
        mode: Mode,
        warm_up: Duration,
        length: Length,
        patience: Duration,
    ) -> Self {
        Self { mode, warm_up, length, patience, next: 0, measured: 0, unsent: 0, stopped: false }
    }

    /// Ends the run early: nothing more is handed out.
    pub(super) const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Measured requests that could not be sent for want of a connection.
    pub(super) const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Measured requests handed out so far.
    pub(super) const fn sent(&self) -> u64 {
        self.measured - self.unsent
    }

    /// The next request at `now`, if one is due.
    pub(super) fn take(&mut self, now: Duration) -> Take {
        loop {
            if self.is_done(now) {
                return Take::Done;
            }
            let intended = self.next_intended(now);
            let measured = intended >= self.warm_up;
            if intended > now {
                return Take::Wait;
            }
            self.next += 1;
            self.measured += u64::from(measured);
            if now - intended <= self.patience {
                return Take::Send(Ticket { intended, measured });
            }
            self.unsent += u64::from(measured);
        }
    }

    /// Whether [`Schedule::take`] would say that it is done.
    pub(super) fn is_done(&self, now: Duration) -> bool {
        let intended = self.next_intended(now);
        self.stopped || (intended >= self.warm_up && self.is_complete(intended))
    }

    /// How many requests are due at `now`, none of which is taken by asking.
    pub(super) fn due(&self, now: Duration) -> u64 {
        match self.mode {
            Mode::Closed { .. } => 0,
            Mode::Open { rate_per_s } => {
                let due = now.as_nanos() * u128::from(rate_per_s) / NANOS_PER_S + 1;
                u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.next)
            }
        }
    }

    fn next_intended(&self, now: Duration) -> Duration {
        match self.mode {
            Mode::Closed { .. } => now,
            Mode::Open { rate_per_s } => {
                let nanos = u128::from(self.next) * NANOS_PER_S / u128::from(rate_per_s);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    fn is_complete(&self, intended: Duration) -> bool {
        match self.length {
            Length::For(length) => intended >= self.warm_up + length,
            Length::Count(count) => self.measured >= count,
        }
    }
}

const NANOS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn send(intended_ms: u64, measured: bool) -> Take {
        Take::Send(Ticket { intended: ms(intended_ms), measured })
    }

    #[test]
    fn an_open_loop_keeps_its_times_however_late_it_is_asked() {
        let mode = Mode::Open { rate_per_s: 100 };
        let mut schedule = Schedule::new(mode, ms(20), Length::For(ms(50)), ms(30));
        assert_eq!(schedule.due(ms(0)), 1);
        assert_eq!(schedule.take(ms(0)), send(0, false));
        assert_eq!(schedule.take(ms(9)), Take::Wait);
        assert_eq!(schedule.due(ms(25)), 2);
        assert_eq!(schedule.take(ms(25)), send(10, false));
        assert_eq!(schedule.take(ms(25)), send(20, true));
        assert_eq!(schedule.take(ms(25)), Take::Wait);
        assert_eq!(schedule.due(ms(60)), 4);
        assert_eq!(schedule.take(ms(60)), send(30, true)); // Exactly as late as allowed.
        assert_eq!(schedule.take(ms(71)), send(50, true)); // 40 is 31 ms ago: given up.
        assert_eq!((schedule.sent(), schedule.unsent()), (3, 1));
        assert_eq!(schedule.take(ms(71)), send(60, true));
        assert_eq!(schedule.take(ms(71)), Take::Done); // 70 would be past the end.
    }

    #[test]
    fn a_closed_loop_sends_whenever_asked() {
        let mode = Mode::Closed { in_flight: 1 };
        let mut schedule = Schedule::new(mode, ms(10), Length::For(ms(10)), ms(1));
        assert_eq!(schedule.take(ms(9)), send(9, false));
        assert_eq!(schedule.take(ms(10)), send(10, true));
        assert_eq!(schedule.take(ms(19)), send(19, true));
        assert_eq!(schedule.take(ms(20)), Take::Done);
        assert_eq!((schedule.sent(), schedule.due(ms(20))), (2, 0));
    }

    #[test]
    fn a_count_leaves_the_warm_up_out() {
        for mode in [Mode::Closed { in_flight: 1 }, Mode::Open { rate_per_s: 1_000 }] {
            let mut schedule = Schedule::new(mode, ms(2), Length::Count(2), ms(100));
            let taken: Vec<_> = (0..5).map(|at| schedule.take(ms(at))).collect();
            let want = [send(0, false), send(1, false), send(2, true), send(3, true), Take::Done];
            assert_eq!(taken, want);
        }
    }

    #[test]
    fn a_stopped_schedule_is_done() {
        let mode = Mode::Closed { in_flight: 1 };
        let mut schedule = Schedule::new(mode, ms(0), Length::Count(9), ms(1));
        assert_eq!(schedule.take(ms(0)), send(0, true));
        schedule.stop();
        assert_eq!(schedule.take(ms(0)), Take::Done);
    }
}

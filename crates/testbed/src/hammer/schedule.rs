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
    /// Open loop: the number of the first measured request, and the number of all requests.
    first_measured: u64,
    total: u64,
    /// Open loop: the number of the next request.
    next: u64,
    /// Measured requests handed out or given up.
    measured: u64,
    /// Measured requests given up.
    unsent: u64,
    stopped: bool,
}

impl Schedule {
    pub(super) fn new(mode: Mode, warm_up: Duration, length: Length, patience: Duration) -> Self {
        let (first_measured, total) = match mode {
            Mode::Closed { .. } => (0, u64::MAX),
            Mode::Open { rate_per_s } => {
                let first = requests_before(warm_up, rate_per_s);
                let total = match length {
                    Length::For(length) => requests_before(warm_up + length, rate_per_s),
                    Length::Count(count) => first.saturating_add(count),
                };
                (first, total)
            }
        };
        let (next, measured, unsent, stopped) = (0, 0, 0, false);
        Self {
            mode,
            warm_up,
            length,
            patience,
            first_measured,
            total,
            next,
            measured,
            unsent,
            stopped,
        }
    }

    /// Ends the run: nothing more is handed out, and what is due at `now` counts as unsent.
    pub(super) fn stop(&mut self, now: Duration) {
        let end = self.next + self.due(now);
        let given_up = end.saturating_sub(self.next.max(self.first_measured));
        self.next = end;
        self.measured += given_up;
        self.unsent += given_up;
        self.stopped = true;
    }

    /// When the last request is meant to leave, at the latest; `None` if that depends on the target.
    pub(super) fn end(&self) -> Option<Duration> {
        match (self.mode, self.length) {
            (_, Length::For(length)) => Some(self.warm_up + length),
            (Mode::Open { rate_per_s }, Length::Count(_)) => {
                Some(intended_at(self.total, rate_per_s))
            }
            (Mode::Closed { .. }, Length::Count(_)) => None,
        }
    }

    /// Measured requests that were given up because no connection was free.
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
        let is_complete = match (self.mode, self.length) {
            (Mode::Open { .. }, _) => self.next >= self.total,
            (Mode::Closed { .. }, Length::For(length)) => now >= self.warm_up + length,
            (Mode::Closed { .. }, Length::Count(count)) => {
                now >= self.warm_up && self.measured >= count
            }
        };
        self.stopped || is_complete
    }

    /// How many requests are due at `now`, none of which is taken by asking.
    pub(super) fn due(&self, now: Duration) -> u64 {
        match self.mode {
            Mode::Open { rate_per_s } if !self.stopped => {
                let due = now.as_nanos() * u128::from(rate_per_s) / NANOS_PER_S + 1;
                // No request follows the last one, however much time passes.
                let due = u64::try_from(due).unwrap_or(u64::MAX).min(self.total);
                due.saturating_sub(self.next)
            }
            _ => 0,
        }
    }

    fn next_intended(&self, now: Duration) -> Duration {
        match self.mode {
            Mode::Closed { .. } => now,
            Mode::Open { rate_per_s } => intended_at(self.next, rate_per_s),
        }
    }
}

/// When request `number` of an open loop is meant to leave.
fn intended_at(number: u64, rate_per_s: u32) -> Duration {
    let nanos = u128::from(number) * NANOS_PER_S / u128::from(rate_per_s);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How many requests of an open loop are meant to leave before `time`.
fn requests_before(time: Duration, rate_per_s: u32) -> u64 {
    let requests = (time.as_nanos() * u128::from(rate_per_s)).div_ceil(NANOS_PER_S);
    u64::try_from(requests).unwrap_or(u64::MAX)
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
        schedule.stop(ms(0));
        assert_eq!(schedule.take(ms(0)), Take::Done);
        assert_eq!((schedule.sent(), schedule.unsent()), (1, 0));
    }

    #[test]
    fn what_is_due_when_a_schedule_stops_counts_as_unsent() {
        let mode = Mode::Open { rate_per_s: 1_000 };
        let mut schedule = Schedule::new(mode, ms(3), Length::Count(100), ms(100));
        assert_eq!(schedule.take(ms(0)), send(0, false));
        schedule.stop(ms(10)); // Due are 1 and 2 of the warm-up, and 3 to 10.
        assert_eq!((schedule.sent(), schedule.unsent(), schedule.due(ms(20))), (0, 8, 0));
        assert_eq!(schedule.take(ms(20)), Take::Done);
    }

    #[test]
    fn nothing_is_due_after_the_last_request() {
        for (length, total) in [(Length::For(ms(50)), 50), (Length::Count(50), 50)] {
            let mode = Mode::Open { rate_per_s: 1_000 };
            let mut schedule = Schedule::new(mode, ms(20), length, ms(30));
            assert_eq!(schedule.end(), Some(ms(70)));
            // Behind all along: asked for the first time long after the end.
            assert_eq!(schedule.due(ms(95)), 20 + total);
            assert_eq!(schedule.take(ms(95)), send(65, true));
            assert_eq!(schedule.due(ms(95)), 4);
            assert_eq!(schedule.take(ms(200)), Take::Done);
            assert_eq!((schedule.due(ms(200)), schedule.is_done(ms(200))), (0, true));
            assert_eq!((schedule.sent(), schedule.unsent()), (1, total - 1));
        }
    }
}

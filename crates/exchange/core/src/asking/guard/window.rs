//! Good and bad results over a sliding window of slots. Knows no threshold.

use std::time::Duration;

use units::Tick;

const SLOTS: usize = 50;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutcomeCounts {
    pub(super) good: u64,
    pub(super) bad: u64,
}

impl OutcomeCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.good += other.good;
        self.bad += other.bad;
    }

    pub(super) fn total(self) -> u64 {
        self.good + self.bad
    }
}

#[derive(Clone, Debug)]
pub(super) struct CallWindow {
    slot_nanos: u64,
    slots: [OutcomeCounts; SLOTS],
    sum: OutcomeCounts,
    /// The slot being filled, counted from the origin of time.
    current: u64,
}

impl CallWindow {
    pub(super) fn new(length: Duration, now: Tick) -> Self {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let slot_nanos = (nanos / SLOTS as u64).max(1);
        Self {
            slot_nanos,
            slots: [OutcomeCounts::default(); SLOTS],
            sum: OutcomeCounts::default(),
            current: now.nanos() / slot_nanos,
        }
    }

    pub(super) fn advance(&mut self, now: Tick) {
        let target = (now.nanos() / self.slot_nanos).max(self.current);
        let steps = (target - self.current).min(SLOTS as u64);
        for step in 1..=steps {
            let slot = self.slot(self.current + step);
            let old = std::mem::take(&mut self.slots[slot]);
            self.sum.good -= old.good;
            self.sum.bad -= old.bad;
        }
        self.current = target;
    }

    pub(super) fn count(&mut self, counts: OutcomeCounts) {
        let slot = self.slot(self.current);
        self.slots[slot].add(counts);
        self.sum.add(counts);
    }

    pub(super) fn sum(&self) -> OutcomeCounts {
        self.sum
    }

    pub(super) fn clear(&mut self) {
        self.slots = [OutcomeCounts::default(); SLOTS];
        self.sum = OutcomeCounts::default();
    }

    fn slot(&self, number: u64) -> usize {
        usize::try_from(number % SLOTS as u64).expect("a slot's number is small")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Tick {
        Tick::ZERO.after(Duration::from_millis(ms))
    }

    #[test]
    fn counts_leave_with_their_slot() {
        let mut window = CallWindow::new(Duration::from_secs(10), at_ms(0));
        let steps = [
            // at ms, good, bad, sum
            (0, 1, 0, (1, 0)),
            (150, 0, 2, (1, 2)),
            (200, 4, 0, (5, 2)),
            (9_999, 0, 0, (5, 2)),
            (10_000, 0, 0, (4, 0)),
            (9_000, 1, 0, (5, 0)), // Time that runs backward stands still.
            (10_200, 0, 0, (1, 0)),
            (100_000, 0, 3, (0, 3)),
        ];
        for (at, good, bad, want) in steps {
            window.advance(at_ms(at));
            window.count(OutcomeCounts { good, bad });
            assert_eq!((window.sum().good, window.sum().bad), want, "at {at} ms");
        }
        window.clear();
        assert_eq!(window.sum().total(), 0);
    }
}

//! A hashed timing wheel: hands items back once their tick has come. Knows ticks only; what a
//! tick lasts, and what time it is, is the caller's.

/// Slots of the wheel; an item further away stays in its slot for another round.
const SLOTS: usize = 512;

/// Items waiting for a tick. Memory is bounded by the number of items put in.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<(u64, T)>>,
    /// The first tick not yet delivered.
    tick: u64,
    waiting: usize,
}

impl<T> Wheel<T> {
    /// An empty wheel at tick 0.
    pub(crate) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Vec::new()).collect(), tick: 0, waiting: 0 }
    }

    /// Whether nothing waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Puts an item in for tick `due`, or for the next one to be delivered if `due` is past.
    pub(crate) fn insert(&mut self, due: u64, item: T) {
        let due = due.max(self.tick);
        self.slots[slot_of(due)].push((due, item));
        self.waiting += 1;
    }

    /// Moves every item due by tick `now` to the end of `due`.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<T>) {
        if now < self.tick {
            return;
        }
        if self.waiting > 0 {
            let already = due.len();
            // Past one whole round, every slot has been seen.
            let last = now.min(self.tick + (SLOTS as u64 - 1));
            for tick in self.tick..=last {
                let ripe = self.slots[slot_of(tick)].extract_if(.., |(at, _)| *at <= now);
                due.extend(ripe.map(|(_, item)| item));
            }
            self.waiting -= due.len() - already;
        }
        self.tick = now + 1;
    }
}

fn slot_of(tick: u64) -> usize {
    usize::try_from(tick % SLOTS as u64).expect("a remainder is below the slots")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advanced(wheel: &mut Wheel<u64>, now: u64) -> Vec<u64> {
        let mut due = Vec::new();
        wheel.advance(now, &mut due);
        due
    }

    #[test]
    fn items_come_back_at_their_tick_and_not_before() {
        let mut wheel = Wheel::new();
        let slots = SLOTS as u64;
        for due in [3, slots - 1, slots, slots + 3, 10 * slots + 3] {
            wheel.insert(due, due);
        }
        assert!(advanced(&mut wheel, 2).is_empty());
        assert_eq!(advanced(&mut wheel, 3), [3]);
        assert!(advanced(&mut wheel, 3).is_empty()); // A clock that stands still.
        assert_eq!(advanced(&mut wheel, slots - 1), [slots - 1]);
        assert_eq!(advanced(&mut wheel, slots), [slots]);
        assert_eq!(advanced(&mut wheel, 2 * slots), [slots + 3]);
        assert!(!wheel.is_empty());
        assert!(advanced(&mut wheel, 10 * slots + 2).is_empty());
        assert_eq!(advanced(&mut wheel, 10 * slots + 3), [10 * slots + 3]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_past_tick_is_due_at_the_next_advance() {
        let mut wheel = Wheel::new();
        assert!(advanced(&mut wheel, 100).is_empty());
        wheel.insert(5, 5);
        assert!(advanced(&mut wheel, 100).is_empty());
        assert_eq!(advanced(&mut wheel, 101), [5]);
    }

    #[test]
    fn a_long_leap_loses_nothing() {
        let mut wheel = Wheel::new();
        for due in 0..5_000 {
            wheel.insert(due, due);
        }
        let mut all = advanced(&mut wheel, 1_000_000);
        all.sort_unstable();
        assert_eq!(all, (0..5_000).collect::<Vec<_>>());
        assert!(wheel.is_empty());
    }
}

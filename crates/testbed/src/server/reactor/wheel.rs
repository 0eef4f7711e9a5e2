//! A hashed timing wheel: returns items once their tick is reached. Knows only ticks; the caller
//! knows time.

/// Slots of the wheel; an item further away stays for another round.
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

    /// Adds an item for tick `due`, or for the next tick if `due` is past.
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
            // After one round, every slot has been visited.
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
mod tests;

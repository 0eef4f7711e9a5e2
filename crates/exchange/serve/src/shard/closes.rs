//! When the auctions of a shard close: one whose time is up goes before one that begins.
//!
//! After a burst of requests, each would otherwise ask its DSPs before any close is looked at.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use tokio::task::yield_now;
use tokio::time::Instant;

/// The closes of auctions that wait for answers.
#[derive(Debug, Default)]
pub(crate) struct PendingCloses {
    /// With a number, because several may be due at the same time.
    closes: RefCell<BTreeSet<(Instant, u64)>>,
    added: Cell<u64>,
}

impl PendingCloses {
    /// An auction closes at `at`, unless the guard is dropped before.
    pub(crate) fn add(&self, at: Instant) -> PendingClose<'_> {
        let number = self.added.get();
        self.added.set(number + 1);
        let close = (at, number);
        self.closes.borrow_mut().insert(close);
        PendingClose { of: self, close }
    }

    /// Lets auctions run whose close is due.
    pub(crate) async fn give_way(&self) {
        let first = self.closes.borrow().first().copied();
        if first.is_some_and(|(at, _)| at <= Instant::now()) {
            // Resumes after timers were looked at, and behind the tasks that they wake.
            yield_now().await;
        }
    }
}

/// An auction's close, until it closes.
#[derive(Debug)]
pub(crate) struct PendingClose<'c> {
    of: &'c PendingCloses,
    close: (Instant, u64),
}

impl Drop for PendingClose<'_> {
    fn drop(&mut self) {
        self.of.closes.borrow_mut().remove(&self.close);
    }
}

#[cfg(test)]
mod tests;

//! The book with the slots through which shards hand their counts over. Shards never wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FunnelBatch, FunnelBook, FunnelSpan, FunnelWindow};
use crate::messages::CampaignIndex;
use crate::strategy::CampaignFlight;

/// Campaigns to fold before others may take the lock; takes less than a millisecond.
const FOLDED_AT_ONCE: usize = 500;

/// Where a shard leaves its counts about once a second; clones share it.
#[derive(Clone, Debug)]
pub struct FunnelSlot(Arc<Mutex<FunnelBatch>>);

impl Default for FunnelSlot {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(FunnelBatch::new())))
    }
}

impl FunnelSlot {
    /// Calls `hand_over` with an empty batch, unless the last one was not taken yet. Returns whether
    /// it did.
    pub fn offer(&self, hand_over: impl FnOnce(&mut FunnelBatch)) -> bool {
        let Ok(mut batch) = self.0.try_lock() else { return false };
        let is_taken = batch.is_empty();
        if is_taken {
            hand_over(&mut batch);
        }
        is_taken
    }
}

/// The funnels of all shards of a service; clones share them.
#[derive(Clone, Debug)]
pub struct SharedFunnels(Arc<SharedState>);

#[derive(Debug)]
struct SharedState {
    slots: Vec<FunnelSlot>,
    book: Mutex<FunnelBook>,
    /// Counts that found no row on their shard, and are in no funnel.
    dropped: AtomicU64,
}

impl SharedFunnels {
    /// Of `shards` shards, from a time in milliseconds since 1970.
    pub fn new(shards: usize, now_unix_ms: u64) -> Self {
        let slots = (0..shards).map(|_| FunnelSlot::default()).collect();
        let book = Mutex::new(FunnelBook::new(now_unix_ms));
        Self(Arc::new(SharedState { slots, book, dropped: AtomicU64::new(0) }))
    }

    /// By shard.
    pub fn slots(&self) -> &[FunnelSlot] {
        &self.0.slots
    }

    fn book(&self) -> MutexGuard<'_, FunnelBook> {
        // Counts only explain; those cut short by a panic are good enough.
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the shards' counts. Call it about twice a second. Calls `pause` where others may take
    /// the lock.
    pub fn take(&self, now_unix_ms: u64, pause: impl Fn()) {
        self.book().advance(now_unix_ms);
        while self.book().fold_some(FOLDED_AT_ONCE) {
            pause();
        }
        for slot in &self.0.slots {
            let mut batch = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.dropped.fetch_add(batch.dropped, Ordering::Relaxed);
            self.book().take(&mut batch);
        }
    }

    /// Sets the campaigns that may bid from now on, unless `is_outdated` once the book is locked.
    pub fn follow(
        &self,
        campaigns: impl Iterator<Item = CampaignIndex>,
        now_unix_ms: u64,
        is_outdated: impl FnOnce() -> bool,
    ) {
        let mut book = self.book();
        if !is_outdated() {
            book.advance(now_unix_ms);
            book.follow(campaigns);
        }
    }

    /// The last hour and the last day of a campaign with this flight.
    pub fn windows(&self, slot: CampaignIndex, flight: CampaignFlight) -> [FunnelWindow; 2] {
        let book = self.book();
        [FunnelSpan::Hour, FunnelSpan::Day].map(|span| book.window(slot, flight, span))
    }

    /// Counts that are in no funnel: a shard had too many campaigns at once.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn a_shard_hands_over_once_its_counts_were_taken() {
        let funnels = SharedFunnels::new(1, NOW);
        funnels.follow([CampaignIndex(4)].into_iter(), NOW, || false);
        funnels.follow([].into_iter(), NOW, || true);
        let offer = |impressions| funnels.slots()[0].offer(|batch| batch.offered = impressions);
        assert!(offer(5));
        assert!(!offer(7), "the first ones are there still");
        funnels.take(NOW + 1_000, || ());
        assert!(offer(2));
        funnels.take(NOW + 2_000, || ());
        let flight = CampaignFlight { start_ms: 0, end_ms: u64::MAX };
        let [hour, _] = funnels.windows(CampaignIndex(4), flight);
        assert_eq!(hour.offered, 7);
    }
}

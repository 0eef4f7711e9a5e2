//! Funnel counts and copied requests of a shard, for the thread that explains campaigns.
//!
//! Nothing here allocates during auctions, or waits for a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pacer_core::funnel::{FunnelBuffer, FunnelSlot, FunnelStep};
use units::Tick;

use crate::metrics::BudgetMetrics;

/// How often a shard hands over counts.
const HANDOVER_INTERVAL: Duration = Duration::from_secs(1);
/// How often a request is copied.
const COPY_INTERVAL: Duration = Duration::from_millis(250);
/// Most copies per handover, and the largest; longer requests are not copied.
const COPIES_MAX: usize = 4;
const COPY_BYTES_MAX: usize = 16 * 1024;

/// Copies of requests since the last handover.
#[derive(Debug)]
pub(crate) struct CopiedRequests {
    copies: Vec<Vec<u8>>,
    copied: usize,
}

impl CopiedRequests {
    fn new() -> Self {
        let copies = (0..COPIES_MAX).map(|_| Vec::with_capacity(COPY_BYTES_MAX)).collect();
        Self { copies, copied: 0 }
    }

    pub fn copies(&self) -> &[Vec<u8>] {
        &self.copies[..self.copied]
    }

    /// Empties it for reuse, and erases the copies.
    pub fn clear(&mut self) {
        for copy in &mut self.copies[..self.copied] {
            copy.fill(0);
            copy.clear();
        }
        self.copied = 0;
    }
}

/// Where a shard leaves its handovers; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct HandoverSlot {
    counts: FunnelSlot,
    copies: Arc<Mutex<CopiedRequests>>,
}

impl HandoverSlot {
    pub fn new(counts: FunnelSlot) -> Self {
        Self { counts, copies: Arc::new(Mutex::new(CopiedRequests::new())) }
    }

    /// Locks the copies; the shard skips them meanwhile.
    pub fn open(&self) -> MutexGuard<'_, CopiedRequests> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct FunnelCounting {
    pub buffer: FunnelBuffer,
    copies: Vec<Vec<u8>>,
    copied: usize,
    is_copy_due: bool,
    copy_at: Tick,
    hand_over_at: Tick,
    slot: HandoverSlot,
    /// Totals last added to metrics.
    totals: [u64; FunnelStep::ALL.len()],
}

impl FunnelCounting {
    pub fn new(to: HandoverSlot) -> Self {
        let CopiedRequests { copies, copied, .. } = CopiedRequests::new();
        Self {
            buffer: FunnelBuffer::default(),
            copies,
            copied,
            is_copy_due: true,
            copy_at: Tick::ZERO,
            hand_over_at: Tick::ZERO,
            slot: to,
            totals: [0; FunnelStep::ALL.len()],
        }
    }

    /// Copies a request's body if one is due.
    pub fn copy(&mut self, body: &[u8]) {
        if !self.is_copy_due || body.len() > COPY_BYTES_MAX {
            return;
        }
        let Some(copy) = self.copies.get_mut(self.copied) else { return };
        copy.clear();
        copy.extend_from_slice(body);
        self.copied += 1;
        self.is_copy_due = false;
    }

    /// Hands over about once a second if the last handover was taken, and updates metrics.
    pub fn turn(&mut self, now: Tick, metrics: &BudgetMetrics) {
        if self.copy_at <= now {
            self.copy_at = now.after(COPY_INTERVAL);
            self.is_copy_due = true;
        }
        if now < self.hand_over_at {
            return;
        }
        for (step, counter) in FunnelStep::ALL.into_iter().zip(&metrics.funnel) {
            let total = self.buffer.totals()[step as usize];
            counter.add(total - std::mem::replace(&mut self.totals[step as usize], total));
        }
        if !self.slot.counts.offer(|batch| self.buffer.hand_over(batch)) {
            return;
        }
        if let Ok(mut handover) = self.slot.copies.try_lock()
            && handover.copied == 0
        {
            let CopiedRequests { copies, copied } = &mut *handover;
            std::mem::swap(copies, &mut self.copies);
            *copied = std::mem::take(&mut self.copied);
        }
        self.hand_over_at = now.after(HANDOVER_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_empty_and_keeps_its_room() {
        let mut handover = CopiedRequests::new();
        handover.copies[0].extend_from_slice(b"of a user");
        handover.copied = 1;
        handover.clear();
        assert!(handover.copies().is_empty() && handover.copies.iter().all(Vec::is_empty));
        assert!(handover.copies.iter().all(|copy| copy.capacity() >= COPY_BYTES_MAX));
    }
}

//! The shard's side: rows of campaigns with events since the last hand-over.
//!
//! Counting does not allocate: a row without room is dropped and counted, and room doubles.

use units::Nanos;

use super::{FunnelCounts, FunnelRow, FunnelStep, Shortfall};
use crate::messages::CampaignIndex;

/// Initial capacity of a batch, in rows of 88 bytes.
pub const ROWS_MIN: usize = 512;

/// Maximum capacity of a batch: campaigns of one shard with events in a second.
pub const ROWS_MAX: usize = 1 << 17;

/// A shard's counts since the last hand-over.
#[derive(Clone, Debug, Default)]
pub struct FunnelBatch {
    /// At most one per campaign.
    pub rows: Vec<FunnelRow>,
    /// Impressions offered to campaigns.
    pub offered: u64,
    /// Counts without room for their row.
    pub dropped: u64,
}

impl FunnelBatch {
    /// With room for [`ROWS_MIN`] rows.
    pub fn new() -> Self {
        Self { rows: Vec::with_capacity(ROWS_MIN), ..Self::default() }
    }

    /// Whether it has no counts.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.offered == 0 && self.dropped == 0
    }

    /// Empties it and keeps its capacity.
    pub fn clear(&mut self) {
        self.rows.clear();
        (self.offered, self.dropped) = (0, 0);
    }
}

/// One shard's counters.
#[derive(Debug)]
pub struct FunnelBuffer {
    batch: FunnelBatch,
    room: usize,
    totals: [u64; FunnelStep::ALL.len()],
}

impl Default for FunnelBuffer {
    fn default() -> Self {
        let totals = [0; FunnelStep::ALL.len()];
        Self { batch: FunnelBatch::new(), room: ROWS_MIN, totals }
    }
}

impl FunnelBuffer {
    /// Counts impressions offered to campaigns.
    pub fn offer(&mut self, impressions: u32) {
        self.batch.offered += u64::from(impressions);
        self.totals[FunnelStep::Offered as usize] += u64::from(impressions);
    }

    /// Counts one impression. `place` caches the index of the campaign's row; any value works.
    pub fn count(&mut self, slot: CampaignIndex, place: &mut u32, step: FunnelStep) {
        self.totals[step as usize] += 1;
        if let Some(row) = self.row(slot, place) {
            row.counts.count(step, 1);
        }
    }

    /// Adds counts of one campaign.
    pub fn add(&mut self, slot: CampaignIndex, place: &mut u32, counts: &FunnelCounts) {
        for step in FunnelStep::ALL {
            self.totals[step as usize] += u64::from(counts.get(step));
        }
        if let Some(row) = self.row(slot, place) {
            row.counts.add(counts);
        }
    }

    /// Counts a bid below its floor. Calls `shortfall` for the first one of a batch.
    pub fn fall_short(
        &mut self,
        slot: CampaignIndex,
        place: &mut u32,
        shortfall: impl FnOnce() -> Shortfall,
    ) {
        self.totals[FunnelStep::BelowFloor as usize] += 1;
        if let Some(row) = self.row(slot, place) {
            row.counts.count(FunnelStep::BelowFloor, 1);
            row.shortfall.get_or_insert_with(shortfall);
        }
    }

    /// Counts a billed impression.
    pub fn bill(&mut self, slot: CampaignIndex, place: &mut u32, price: Nanos) {
        self.totals[FunnelStep::Billed as usize] += 1;
        if let Some(row) = self.row(slot, place) {
            row.counts.bill(price);
        }
    }

    fn row(&mut self, slot: CampaignIndex, place: &mut u32) -> Option<&mut FunnelRow> {
        let rows = &mut self.batch.rows;
        let found = usize::try_from(*place).expect("an index has 32 bits");
        if rows.get(found).is_some_and(|row| row.slot == slot) {
            return rows.get_mut(found);
        }
        if rows.len() == rows.capacity() {
            self.batch.dropped += 1;
            return None;
        }
        *place = u32::try_from(rows.len()).expect("rows are few");
        rows.push(FunnelRow { slot, counts: FunnelCounts::default(), shortfall: None });
        rows.last_mut()
    }

    /// Swaps the counts for `empty`. It may allocate: call it off the auctions' path.
    pub fn hand_over(&mut self, empty: &mut FunnelBatch) {
        assert!(empty.is_empty(), "a batch is handed over once the one before it was taken");
        if self.batch.dropped > 0 {
            self.room = (2 * self.batch.rows.capacity()).clamp(self.room, ROWS_MAX);
        }
        // Two batches alternate, and both need the capacity.
        empty.rows.reserve_exact(self.room);
        std::mem::swap(&mut self.batch, empty);
    }

    /// Impressions by step since the start, of all campaigns, in the order of [`FunnelStep::ALL`].
    pub const fn totals(&self) -> &[u64; FunnelStep::ALL.len()] {
        &self.totals
    }
}

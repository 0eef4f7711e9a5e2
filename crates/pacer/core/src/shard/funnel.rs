//! Funnels of the campaigns that bidders name. The hot path counts beside a campaign's pace, in memory
//! that it has read anyway; the counts move to the buffer with the campaign's next report.

use units::Nanos;

use crate::funnel::{FunnelBatch, FunnelBuffer, FunnelCounts, FunnelStep};
use crate::messages::{CampaignIndex, index};
use crate::refusal::SpendRefusal;

/// Counts of a campaign's requests since its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FreshCounts {
    pub requests: u32,
    pub bids: u32,
    /// Requests while it was paused or out of flight.
    unoffered: u32,
    hours: u32,
    budget: u32,
    pace: u32,
    ledger: u32,
    below_floor: u32,
}

impl FreshCounts {
    pub const NONE: Self = Self {
        requests: 0,
        bids: 0,
        unoffered: 0,
        hours: 0,
        budget: 0,
        pace: 0,
        ledger: 0,
        below_floor: 0,
    };

    /// Counts a request. While the ledger takes no reports, counts stop at their maximum.
    #[inline]
    pub fn request(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// Counts a bid for a request that is counted.
    #[inline]
    pub fn bid(&mut self) {
        self.bids = self.bids.saturating_add(1);
    }

    /// Counts the refusal of a request that is counted.
    #[inline]
    pub fn withhold(&mut self, refusal: SpendRefusal) {
        let count = match FunnelStep::withheld(refusal) {
            Some(FunnelStep::Hours) => &mut self.hours,
            Some(FunnelStep::Budget) => &mut self.budget,
            Some(FunnelStep::Pace) => &mut self.pace,
            Some(_) => &mut self.ledger,
            None => &mut self.unoffered,
        };
        *count = count.saturating_add(1);
    }

    /// Counts a request, which is counted, whose minimum is above the offer.
    #[inline]
    pub fn fall_short(&mut self) {
        self.below_floor = self.below_floor.saturating_add(1);
    }

    fn steps(&self) -> FunnelCounts {
        let mut counts = FunnelCounts::default();
        for (step, more) in [
            (FunnelStep::Matched, self.requests.saturating_sub(self.unoffered)),
            (FunnelStep::Hours, self.hours),
            (FunnelStep::Budget, self.budget),
            (FunnelStep::Pace, self.pace),
            (FunnelStep::Ledger, self.ledger),
            (FunnelStep::BelowFloor, self.below_floor),
            (FunnelStep::Bid, self.bids),
        ] {
            counts.count(step, more);
        }
        counts
    }
}

/// What a shard counts of its campaigns' funnels.
#[derive(Debug, Default)]
pub struct ShardFunnel {
    buffer: FunnelBuffer,
    /// By campaign: where the buffer has its row.
    places: Vec<u32>,
}

impl ShardFunnel {
    /// Counts bid requests, of which each campaign might have had one.
    pub fn offer(&mut self, requests: u32) {
        self.buffer.offer(requests);
    }

    /// Counts a win and its bill.
    pub fn bill(&mut self, slot: CampaignIndex, cost: Nanos) {
        let (buffer, place) = self.place(slot);
        buffer.count(slot, place, FunnelStep::Won);
        buffer.bill(slot, place, cost);
    }

    /// Counts a bid that lost.
    pub fn lose(&mut self, slot: CampaignIndex) {
        let (buffer, place) = self.place(slot);
        buffer.count(slot, place, FunnelStep::Outbid);
    }

    /// Swaps the counts for `empty`. It may allocate.
    pub fn hand_over(&mut self, empty: &mut FunnelBatch) {
        self.buffer.hand_over(empty);
    }

    pub(super) fn report(&mut self, slot: CampaignIndex, fresh: &FreshCounts) {
        let (buffer, place) = self.place(slot);
        buffer.add(slot, place, &fresh.steps());
    }

    fn place(&mut self, slot: CampaignIndex) -> (&mut FunnelBuffer, &mut u32) {
        let at = index(slot.0);
        if self.places.len() <= at {
            self.places.resize(at + 1, 0);
        }
        (&mut self.buffer, &mut self.places[at])
    }
}

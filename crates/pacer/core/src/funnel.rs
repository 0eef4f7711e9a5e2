//! A campaign's funnel: of the impressions offered to it, how many it matched, bid for, won and was
//! billed for, and where it lost the others.
//!
//! A shard counts in a [`FunnelBuffer`] and hands over its rows about once a second; a
//! [`FunnelBook`] keeps the last hour and the last day. Owns the steps and the sums; has no clock,
//! and knows campaigns only by number. It explains results: nobody is charged by these figures.

mod book;
mod buffer;
mod packed;
mod shared;
#[cfg(test)]
mod tests;

use strum::{IntoStaticStr, VariantArray};
use units::{Cpm, Nanos};

use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;

pub use book::{FunnelBook, FunnelSpan, FunnelWindow, PAST_BYTES_MAX};
pub use buffer::{FunnelBatch, FunnelBuffer, ROWS_MAX, ROWS_MIN};
pub use shared::{FunnelSlot, SharedFunnels};

/// A counted step of an impression. A matched impression ends in exactly one of
/// [`Hours`](Self::Hours) to [`BelowFloor`](Self::BelowFloor), in a bid, or below other direct
/// campaigns; a bid ends in one of [`Outbid`](Self::Outbid) to [`Won`](Self::Won), or its auction
/// is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum FunnelStep {
    /// Offered while the campaign could have bid. Added to a campaign's own row when it closes.
    Offered,
    /// Its targeting matched, and one of its creatives fits.
    Matched,
    /// Matched outside its daypart.
    Hours,
    /// Its own or its account's limit is used up.
    Budget,
    /// Its strategy skipped the impression.
    Pace,
    /// The shard has no grant: not yet, or none is possible.
    Ledger,
    /// Its bid would be below the floor.
    BelowFloor,
    /// It bid.
    Bid,
    /// Another bid won.
    Outbid,
    /// The bid failed a check of the auction.
    Rejected,
    /// The bid would have won, but its account refused it.
    Refused,
    /// Returned beside the winner: the caller's auction decides.
    Returned,
    /// It won.
    Won,
    /// It was billed.
    Billed,
}

units::labelled!(FunnelStep);

impl FunnelStep {
    /// The last step of an impression that matched without a bid. None if it was not offered.
    pub const fn withheld(refusal: SpendRefusal) -> Option<Self> {
        match refusal {
            SpendRefusal::Paused | SpendRefusal::OutOfFlight => None,
            SpendRefusal::OutOfDaypart => Some(Self::Hours),
            SpendRefusal::BudgetExhausted
            | SpendRefusal::DayExhausted
            | SpendRefusal::HourExhausted => Some(Self::Budget),
            SpendRefusal::Throttled | SpendRefusal::BelowMinimum => Some(Self::Pace),
            SpendRefusal::Unknown | SpendRefusal::LedgerUnavailable => Some(Self::Ledger),
        }
    }
}

/// Counts by step, and the billed amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunnelCounts {
    steps: [u32; FunnelStep::ALL.len()],
    /// Billed amount, in the account's currency.
    pub spent: Nanos,
}

impl FunnelCounts {
    /// Number of impressions at a step, at most `u32::MAX`.
    pub const fn get(&self, step: FunnelStep) -> u32 {
        self.steps[step as usize]
    }

    /// Adds to a step's count.
    pub fn count(&mut self, step: FunnelStep, more: u32) {
        let own = &mut self.steps[step as usize];
        *own = own.saturating_add(more);
    }

    /// Counts a billed impression.
    pub fn bill(&mut self, price: Nanos) {
        self.count(FunnelStep::Billed, 1);
        self.spent = Nanos::new(self.spent.get().saturating_add(price.get()));
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        for step in FunnelStep::ALL {
            self.count(step, other.get(step));
        }
        self.spent = Nanos::new(self.spent.get().saturating_add(other.spent.get()));
    }

    /// Bids without a result: their auctions were abandoned, or go on.
    pub fn abandoned(&self) -> u32 {
        use FunnelStep::{Bid, Outbid, Refused, Rejected, Returned, Won};
        let ended = [Outbid, Rejected, Refused, Returned, Won];
        ended.into_iter().fold(self.get(Bid), |left, step| left.saturating_sub(self.get(step)))
    }

    /// Impressions that it would have bid for, but better direct campaigns took its place.
    pub fn outranked(&self) -> u32 {
        use FunnelStep::{BelowFloor, Bid, Budget, Hours, Ledger, Matched, Pace};
        let ended = [Hours, Budget, Pace, Ledger, BelowFloor, Bid];
        ended.into_iter().fold(self.get(Matched), |left, step| left.saturating_sub(self.get(step)))
    }
}

/// A bid below its floor, in the account's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// The bid that the campaign would have made.
    pub bid: Cpm,
    /// The floor.
    pub floor: Cpm,
}

/// A shard's counts of a campaign since the last hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunnelRow {
    /// The campaign.
    pub slot: CampaignIndex,
    /// Its counts.
    pub counts: FunnelCounts,
    /// The first bid below its floor. None if there was none.
    pub shortfall: Option<Shortfall>,
}

//! The funnel of a campaign: of the impressions that were offered to it, how many it matched, bid for, won
//! and was billed for, and where it lost the others.
//!
//! A shard counts in a [`FunnelBuffer`] and hands its rows over about once a second; a [`FunnelBook`] keeps
//! the last hour and the last day of them. Owns the steps and the sums; knows no clock, and no campaign but
//! by its number. Nothing here is money that anybody is charged: it explains, and decides nothing.

mod book;
mod buffer;
mod packed;
#[cfg(test)]
mod tests;

use strum::{IntoStaticStr, VariantArray};
use units::{Cpm, Nanos};

use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;

pub use book::{FunnelBook, FunnelSpan, FunnelWindow, PAST_BYTES_MAX};
pub use buffer::{FunnelBatch, FunnelBuffer, ROWS_MAX, ROWS_MIN};

/// What is counted of an impression. An impression that a campaign matched ends in exactly one of
/// [`Hours`](Self::Hours) to [`BelowFloor`](Self::BelowFloor), in a bid, or behind other campaigns of the
/// house; a bid ends in one of [`Outbid`](Self::Outbid) to [`Won`](Self::Won), or its auction is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum FunnelStep {
    /// Offered while the campaign could have bid. Counted for all campaigns together, and added to the
    /// row of a campaign only when it is closed.
    Offered,
    /// Its targeting takes it, and one of its creatives fits.
    Matched,
    /// Matched outside of its hours.
    Hours,
    /// A limit, its own or its account's, is used up.
    Budget,
    /// Its strategy passed it by.
    Pace,
    /// Nothing was granted to the shard: not yet, or nothing can be.
    Ledger,
    /// What it would have bid is below the floor.
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
    /// Where an impression ends that was matched and not bid for. `None` if the campaign is not live: such
    /// an impression was not offered to it.
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

/// Counts by step, with the money that was billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunnelCounts {
    steps: [u32; FunnelStep::ALL.len()],
    /// What was billed, in the account's currency.
    pub spent: Nanos,
}

impl FunnelCounts {
    /// How many impressions came so far; at most `u32::MAX` are counted.
    pub const fn get(&self, step: FunnelStep) -> u32 {
        self.steps[step as usize]
    }

    /// Counts so many more.
    pub fn count(&mut self, step: FunnelStep, more: u32) {
        let own = &mut self.steps[step as usize];
        *own = own.saturating_add(more);
    }

    /// Counts what was billed.
    pub fn bill(&mut self, price: Nanos) {
        self.count(FunnelStep::Billed, 1);
        self.spent = Nanos::new(self.spent.get().saturating_add(price.get()));
    }

    /// Adds what others have counted.
    pub fn add(&mut self, other: &Self) {
        for step in FunnelStep::ALL {
            self.count(step, other.get(step));
        }
        self.spent = Nanos::new(self.spent.get().saturating_add(other.spent.get()));
    }

    /// Bids of which nothing came: their auctions were abandoned, or go on.
    pub fn abandoned(&self) -> u32 {
        use FunnelStep::{Bid, Outbid, Refused, Rejected, Returned, Won};
        let ended = [Outbid, Rejected, Refused, Returned, Won];
        ended.into_iter().fold(self.get(Bid), |left, step| left.saturating_sub(self.get(step)))
    }

    /// Impressions that it would have bid for, where better bids of the house took its place.
    pub fn outranked(&self) -> u32 {
        use FunnelStep::{BelowFloor, Bid, Budget, Hours, Ledger, Matched, Pace};
        let ended = [Hours, Budget, Pace, Ledger, BelowFloor, Bid];
        ended.into_iter().fold(self.get(Matched), |left, step| left.saturating_sub(self.get(step)))
    }
}

/// A bid that was below its floor, in the account's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// What the campaign would have bid.
    pub bid: Cpm,
    /// What it had to reach.
    pub floor: Cpm,
}

/// What a shard has counted of a campaign since it handed over last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunnelRow {
    /// Whose.
    pub slot: CampaignIndex,
    /// What was counted.
    pub counts: FunnelCounts,
    /// The first bid below its floor, if there was one.
    pub shortfall: Option<Shortfall>,
}

//! House campaigns: what accounts of our own bid in an auction, beside the DSPs.
//!
//! To the auction the house is one more DSP, whose seats are the accounts: its bids are written as a
//! bid response and judged as any DSP's. Here is decided which campaigns come to an impression, with
//! which creative and under which deal; what a campaign may spend and how it is paced is decided
//! behind [`Desk`], and who wins is not decided here.
//!
//! A [`Catalogue`] is immutable and shared; what an auction needs to search it is in a [`Room`] of
//! its shard. Once that is warm nothing is allocated.

mod bidding;
mod catalogue;
mod creative;
mod index;
mod interner;
mod matching;
mod offers;
mod probe;
mod room;
mod targeting;
mod terms;

use std::sync::Arc;

use pacer_core::funnel::Shortfall;
use pacer_core::messages::Slot;
use pacer_core::refusal::Refusal;
use units::{Cpm, Currency, Multiplier};

pub use catalogue::Catalogue;
pub use creative::{Creative, CreativeProblem, CreativeSpec, MARKUP_BYTES_MAX};
pub use interner::Interner;
pub use offers::ACCOUNTS_MAX;
pub use probe::{Criterion, Probe, ProbeCounts};
pub use room::Room;
pub use targeting::{CampaignTargeting, KeyValues, Listed, Page};

/// A campaign of an account.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What it is called; `cid` of its bids.
    pub id: Arc<str>,
    /// By which its money is known. No two campaigns have the same.
    pub slot: Slot,
    /// The account; `seat` of its bids.
    pub account: Arc<str>,
    /// Of the account, and so of its price.
    pub currency: Currency,
    /// What it bids, for what, and what it shows.
    pub rules: Arc<Rules>,
}

/// The exchange's part of a campaign's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What it bids.
    pub price: Price,
    /// For what. An [`Interner`] has campaigns that are alike in it share it.
    pub targeting: Arc<CampaignTargeting>,
    /// What it shows: one that fits, by chance, where several do.
    pub creatives: Vec<Creative>,
}

impl Rules {
    /// Whether any creative is of a format and size that the targeting wants: else it never bids.
    pub fn can_show(&self) -> bool {
        self.creatives.iter().any(|creative| self.targeting.takes(creative))
    }
}

/// What a campaign bids, in the currency of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// What an impression is worth to it: its strategy says how much of that it bids.
    Value(Cpm),
    /// Just this, as often as its strategy lets it.
    Fixed(Cpm),
}

impl Price {
    /// The amount, whatever it means.
    pub const fn amount(self) -> Cpm {
        match self {
            Self::Value(amount) | Self::Fixed(amount) => amount,
        }
    }
}

/// Bounds of what the house does in one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most matches that are gone through: pairs of an impression and a campaign that the indexes have
    /// found for it.
    pub matches_max: usize,
    /// Most bids for one impression, at most [`ACCOUNTS_MAX`]: each is of another account.
    pub bids_max: usize,
}

/// Who paces campaigns.
pub trait Desk {
    /// A campaign has come to an impression that it may bid for: counts it as seen, and says what is
    /// bid, in the account's currency. `shown` is how many impressions are paid for if it wins. Called
    /// at most once for a campaign and an impression.
    ///
    /// # Errors
    ///
    /// Why nothing is bid.
    fn decide(&mut self, slot: Slot, price: Price, shown: Multiplier) -> Result<Cpm, Refusal>;

    /// What was decided is below every floor that it could be bid over: the campaign does not bid for the
    /// impression. `shortfall` says what it would have bid, and the least of those floors.
    fn fall_short(&mut self, _slot: Slot, _shortfall: impl FnOnce() -> Shortfall) {}
}

/// A bid of the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HouseBid {
    /// The impression, by position.
    pub imp: usize,
    /// The campaign, by position in the catalogue.
    pub campaign: usize,
    /// The same, by the number that its money is known by.
    pub slot: Slot,
    /// What the desk has said, in the account's currency; the bid itself, in the auction's, is worth
    /// at most this.
    pub price: Cpm,
}

/// The answer of the house to one auction.
#[derive(Clone, Debug, Default)]
pub struct HouseAnswer {
    /// A bid response; empty where there is no bid.
    pub body: String,
    /// Its bids, in the order in which they stand in the response.
    pub bids: Vec<HouseBid>,
    /// Matches beyond [`Limits::matches_max`], which nobody has looked at.
    pub left_out: u64,
}

impl HouseAnswer {
    /// Empties it, for the next auction.
    pub fn clear(&mut self) {
        self.body.clear();
        self.bids.clear();
        self.left_out = 0;
    }
}

#[cfg(test)]
mod tests;

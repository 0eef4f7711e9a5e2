//! What campaigns bid with: the bounds, who paces them, and the bid response.

use pacer_core::funnel::Shortfall;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use units::{Cpm, Multiplier};

use super::campaign::CampaignPrice;

/// Bounds of what the house does in one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiddingLimits {
    /// Most matches that are gone through: pairs of an impression and a campaign that the indexes have
    /// found for it.
    pub matches_max: usize,
    /// Most bids for one impression, at most [`ACCOUNTS_MAX`](super::ACCOUNTS_MAX): each is of another account.
    pub bids_max: usize,
}

/// Who paces campaigns.
pub trait CampaignBidder {
    /// A campaign has come to an impression that it may bid for: counts it as seen, and says what is
    /// bid, in the account's currency. `shown` is how many impressions are paid for if it wins. Called
    /// at most once for a campaign and an impression.
    ///
    /// # Errors
    ///
    /// Why nothing is bid.
    fn decide(
        &mut self,
        slot: CampaignIndex,
        price: CampaignPrice,
        shown: Multiplier,
    ) -> Result<Cpm, SpendRefusal>;

    /// What was decided is below every floor that it could be bid over: the campaign does not bid for the
    /// impression. `shortfall` says what it would have bid, and the least of those floors.
    fn fall_short(&mut self, _slot: CampaignIndex, _shortfall: impl FnOnce() -> Shortfall) {}
}

/// A bid of the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectBid {
    /// The impression, by position.
    pub imp: usize,
    /// The campaign, by position in the catalogue.
    pub campaign: usize,
    /// The same, by the number that its money is known by.
    pub slot: CampaignIndex,
    /// What the desk has said, in the account's currency; the bid itself, in the auction's, is worth
    /// at most this.
    pub price: Cpm,
}

/// The answer of the house to one auction.
#[derive(Clone, Debug, Default)]
pub struct DirectAnswer {
    /// A bid response; empty where there is no bid.
    pub body: String,
    /// Its bids, in the order in which they stand in the response.
    pub bids: Vec<DirectBid>,
    /// Matches beyond [`BiddingLimits::matches_max`], which nobody has looked at.
    pub left_out: u64,
}

impl DirectAnswer {
    /// Empties it, for the next auction.
    pub fn clear(&mut self) {
        self.body.clear();
        self.bids.clear();
        self.left_out = 0;
    }
}

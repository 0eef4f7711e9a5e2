//! Interfaces of campaigns: to pacing, limits and the bid response.

use pacer_core::funnel::Shortfall;
use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use units::{Cpm, Multiplier};

use super::campaign::CampaignPrice;
use crate::asking::eligibility::BidderCall;
use crate::auction::Auction;

/// Limits on direct campaigns in one auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiddingLimits {
    /// Limit of matches considered: pairs of an impression and a campaign found by the indexes.
    pub matches_max: usize,
    /// Bids per impression, each from another account; at most
    /// [`ACCOUNTS_MAX`](super::ACCOUNTS_MAX).
    pub bids_max: usize,
}

/// A call of the direct campaigns for bids.
#[derive(Clone, Copy, Debug)]
pub struct DirectCall<'c> {
    /// The auction.
    pub auction: &'c Auction<'c>,
    /// The impressions on offer.
    pub ask: &'c BidderCall,
    /// Limits of the search.
    pub limits: &'c BiddingLimits,
}

/// Decides what campaigns bid, and paces them.
pub trait CampaignBidder {
    /// Counts an impression as available to the campaign, and returns its bid in the account's
    /// currency. `shown` is how many impressions a win pays for. Called at most once per campaign
    /// and impression.
    ///
    /// # Errors
    /// Why the campaign does not bid.
    fn decide(
        &mut self,
        slot: CampaignIndex,
        price: CampaignPrice,
        shown: Multiplier,
    ) -> Result<Cpm, SpendRefusal>;

    /// The campaign does not bid for the impression, because its price is below every floor.
    /// `shortfall` returns that price and the lowest floor.
    fn report_shortfall(&mut self, _slot: CampaignIndex, _shortfall: impl FnOnce() -> Shortfall) {}
}

/// A bid of a direct campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectBid {
    /// The impression, by position.
    pub imp: usize,
    /// The campaign, by position in the catalogue.
    pub campaign: usize,
    /// The campaign's slot in the ledger.
    pub slot: CampaignIndex,
    /// The decided price, in the account's currency; the bid is worth at most this.
    pub price: Cpm,
}

/// The direct campaigns' answer in one auction.
#[derive(Clone, Debug, Default)]
pub struct DirectAnswer {
    /// The bid response. Empty if there are no bids.
    pub body: String,
    /// Its bids, in the response's order.
    pub bids: Vec<DirectBid>,
    /// Matches beyond [`BiddingLimits::matches_max`], which were not considered.
    pub left_out: u64,
}

impl DirectAnswer {
    /// Empties it.
    pub fn clear(&mut self) {
        self.body.clear();
        self.bids.clear();
        self.left_out = 0;
    }
}

//! The exchange's view of a campaign: price, targeting and creatives.

use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use units::{Cpm, Currency};

use super::creative::Creative;
use super::targeting::CampaignTargeting;

/// A campaign of an account.
#[derive(Clone, Debug)]
pub struct DirectCampaign {
    /// Its id; `cid` of its bids.
    pub id: Arc<str>,
    /// Its slot in the ledger, unique among campaigns.
    pub slot: CampaignIndex,
    /// The account; `seat` of its bids.
    pub account: Arc<str>,
    /// The account's currency, in which the campaign bids.
    pub currency: Currency,
    /// Price, targeting and creatives.
    pub rules: Arc<BiddingRules>,
}

/// The exchange's part of a campaign's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BiddingRules {
    /// The campaign's bid.
    pub price: CampaignPrice,
    /// Shared by campaigns with equal targeting, see [`Interner`](super::Interner).
    pub targeting: Arc<CampaignTargeting>,
    /// Creatives; those that fit an impression rotate.
    pub creatives: Vec<Creative>,
}

impl BiddingRules {
    /// Whether the targeting allows any creative's format and size. Otherwise it never bids.
    pub fn can_show(&self) -> bool {
        self.creatives.iter().any(|creative| self.targeting.allows(creative))
    }
}

/// A campaign's bid, in the currency of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CampaignPrice {
    /// The value of an impression, of which the strategy bids a share.
    Value(Cpm),
    /// A fixed price, bid as often as the strategy allows.
    Fixed(Cpm),
}

impl CampaignPrice {
    /// The amount.
    pub const fn amount(self) -> Cpm {
        match self {
            Self::Value(amount) | Self::Fixed(amount) => amount,
        }
    }
}

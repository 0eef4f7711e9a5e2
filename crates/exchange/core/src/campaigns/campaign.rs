//! A campaign, as the exchange knows it: what it bids, for what, and what it shows.

use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use units::{Cpm, Currency};

use super::creative::Creative;
use super::targeting::CampaignTargeting;

/// A campaign of an account.
#[derive(Clone, Debug)]
pub struct DirectCampaign {
    /// What it is called; `cid` of its bids.
    pub id: Arc<str>,
    /// By which its money is known. No two campaigns have the same.
    pub slot: CampaignIndex,
    /// The account; `seat` of its bids.
    pub account: Arc<str>,
    /// Of the account, and so of its price.
    pub currency: Currency,
    /// What it bids, for what, and what it shows.
    pub rules: Arc<BiddingRules>,
}

/// The exchange's part of a campaign's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BiddingRules {
    /// What it bids.
    pub price: CampaignPrice,
    /// For what. An [`Interner`](super::Interner) has campaigns that are alike in it share it.
    pub targeting: Arc<CampaignTargeting>,
    /// What it shows: one that fits, by chance, where several do.
    pub creatives: Vec<Creative>,
}

impl BiddingRules {
    /// Whether any creative is of a format and size that the targeting wants: else it never bids.
    pub fn can_show(&self) -> bool {
        self.creatives.iter().any(|creative| self.targeting.takes(creative))
    }
}

/// What a campaign bids, in the currency of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CampaignPrice {
    /// What an impression is worth to it: its strategy says how much of that it bids.
    Value(Cpm),
    /// Just this, as often as its strategy lets it.
    Fixed(Cpm),
}

impl CampaignPrice {
    /// The amount, whatever it means.
    pub const fn amount(self) -> Cpm {
        match self {
            Self::Value(amount) | Self::Fixed(amount) => amount,
        }
    }
}

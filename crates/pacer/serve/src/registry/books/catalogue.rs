//! What the registry tells the exchange: all accounts and campaigns as of one moment.
//!
//! A job of the builder makes it, so that changes that come close together are told as one.

use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use units::Currency;

/// All accounts and campaigns that are not removed, as of one moment.
#[derive(Clone, Debug)]
pub struct PublishedCatalogue<R> {
    /// Grows with each, from 1.
    pub number: u64,
    /// In order of their ids.
    pub accounts: Vec<PublishedAccount>,
    /// In order of their ids.
    pub campaigns: Vec<PublishedCampaign<R>>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedAccount {
    /// Its id.
    pub id: Arc<str>,
    /// Of its money.
    pub currency: Currency,
    /// Of what its seats spend, where it has or had any.
    pub slot: Option<CampaignIndex>,
    /// The DSP and the seat.
    pub seats: Vec<(String, String)>,
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct PublishedCampaign<R> {
    /// Its id.
    pub id: Arc<str>,
    /// As the ledger numbers it.
    pub slot: CampaignIndex,
    /// Grows with every change.
    pub version: u64,
    /// Its account's id.
    pub account: Arc<str>,
    /// The exchange's part.
    pub rules: R,
    /// Whether neither it nor its account is paused.
    pub is_open: bool,
}

//! The catalogue for the exchange. A job of the builder makes it, so that changes in quick
//! succession are published together.

use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use units::Currency;

/// All accounts and campaigns that are not removed, at one moment.
#[derive(Clone, Debug)]
pub struct PublishedCatalogue<R> {
    /// Counts catalogues from 1.
    pub number: u64,
    /// Ordered by id.
    pub accounts: Vec<PublishedAccount>,
    /// Ordered by id.
    pub campaigns: Vec<PublishedCampaign<R>>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedAccount {
    /// Its id.
    pub id: Arc<str>,
    /// Currency of its money.
    pub currency: Currency,
    /// Number of its seats in the ledger. None if it never had any.
    pub slot: Option<CampaignIndex>,
    /// DSP and seat.
    pub seats: Vec<(String, String)>,
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct PublishedCampaign<R> {
    /// Its id.
    pub id: Arc<str>,
    /// Its number in the ledger.
    pub slot: CampaignIndex,
    /// Grows with every change.
    pub version: u64,
    /// Its account's id.
    pub account: Arc<str>,
    /// The exchange's part.
    pub rules: R,
    /// Whether it counts what a sold lot delivers: bidders do not spend it.
    pub is_lot: bool,
    /// Whether neither it nor its account is paused.
    pub is_open: bool,
}

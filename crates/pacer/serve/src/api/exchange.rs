//! What the API asks of an exchange that spends budgets: it alone knows what becomes of requests.
//!
//! Owns the questions. Who answers is not known here.

use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::CampaignIndex;
use units::Currency;

/// An exchange, as the API asks it.
pub trait ExchangeView: Send + Sync {
    /// Why nothing can be won from any account, whatever is granted. None if nothing is in the way.
    fn obstacle(&self) -> Option<String>;

    /// Whether prices in `currency` can be compared with others.
    fn has_rate(&self, currency: Currency) -> bool;

    /// The last hour and the last day of a campaign, which is in flight from and until these times, in
    /// milliseconds since 1970. None if nobody counts.
    fn funnel(&self, slot: CampaignIndex, flight_unix_ms: (u64, u64)) -> Option<[FunnelWindow; 2]>;

    /// Which of its criteria recent requests fail. None if it does not bid. It may take milliseconds.
    fn mismatches(&self, slot: CampaignIndex) -> Option<Mismatches>;
}

/// A campaign's criteria, tried one at a time on a sample of the last hour's impressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// Impressions in the sample.
    pub impressions: u64,
    /// Of these, how many the campaign matches.
    pub matched: u64,
    /// The key of each criterion, and how many impressions fail it; the one that most fail first.
    pub failed: Vec<(&'static str, u64)>,
}

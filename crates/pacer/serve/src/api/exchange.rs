//! The API's interface to the exchange that spends budgets: only it knows the outcomes of requests.

use std::sync::{Arc, OnceLock};

use pacer_core::funnel::FunnelWindow;
use pacer_core::messages::CampaignIndex;
use pacer_core::strategy::CampaignFlight;
use units::Currency;

/// The exchange's answers to the API. Without an exchange, nothing is known and nothing in the way.
pub trait ExchangeView: Send + Sync {
    /// Why no account can win anything, whatever is granted. None if nothing is in the way.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Whether prices in `currency` can be compared with others.
    fn has_rate(&self, _currency: Currency) -> bool {
        true
    }

    /// Last hour and last day of a campaign, whose flight has this start and end in milliseconds
    /// since 1970. None if nothing is counted.
    fn funnel(&self, _slot: CampaignIndex, _flight: CampaignFlight) -> Option<[FunnelWindow; 2]> {
        None
    }

    /// Which of its criteria recent requests fail. None if it does not bid. May take milliseconds.
    fn mismatches(&self, _slot: CampaignIndex) -> Option<Mismatches> {
        None
    }
}

impl ExchangeView for () {}

/// The exchange that spends budgets, once set. Clones share it.
#[derive(Clone, Default)]
pub struct ExchangeSlot(Arc<OnceLock<Arc<dyn ExchangeView>>>);

impl ExchangeSlot {
    /// Sets the exchange that the API asks. Later calls have no effect.
    pub fn set(&self, exchange: Arc<dyn ExchangeView>) {
        let _ = self.0.set(exchange);
    }

    pub(super) fn get(&self) -> &dyn ExchangeView {
        self.0.get().map_or(&(), |exchange| &**exchange)
    }
}

/// A campaign's criteria, tried one at a time on a sample of the last hour's impressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// Impressions in the sample.
    pub impressions: u64,
    /// Of these, impressions that the campaign matches.
    pub matched: u64,
    /// Key of each criterion and the impressions that fail it, the most frequent first.
    pub failed: Vec<(&'static str, u64)>,
}

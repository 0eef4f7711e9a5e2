//! The API's interface to those who spend budgets: only they know the outcomes of requests.

use std::sync::{Arc, OnceLock};

use pacer_core::funnel::{FunnelWindow, SharedFunnels};
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

/// The exchange that spends budgets, once set, and the funnels of bidders. Clones share it.
#[derive(Clone, Default)]
pub struct ExchangeSlot(Arc<Spenders>);

#[derive(Default)]
struct Spenders {
    exchange: OnceLock<Arc<dyn ExchangeView>>,
    bidders: OnceLock<SharedFunnels>,
}

impl ExchangeSlot {
    /// Sets the exchange that the API asks. Later calls have no effect.
    pub fn set(&self, exchange: Arc<dyn ExchangeView>) {
        let _ = self.0.exchange.set(exchange);
    }

    /// Sets the funnels of bidders. Later calls have no effect.
    pub fn set_bidders(&self, funnels: SharedFunnels) {
        let _ = self.0.bidders.set(funnels);
    }

    pub(super) fn get(&self) -> &dyn ExchangeView {
        self.0.exchange.get().map_or(&(), |exchange| &**exchange)
    }

    /// Last hour and last day of a campaign, by the exchange and by bidders. None if nothing is
    /// counted.
    pub(super) fn funnel(
        &self,
        slot: CampaignIndex,
        flight: CampaignFlight,
    ) -> Option<[FunnelWindow; 2]> {
        let of_exchange = self.get().funnel(slot, flight);
        let of_bidders = self.0.bidders.get().map(|funnels| funnels.windows(slot, flight));
        let (Some([hour, day]), Some([bidders_hour, bidders_day])) = (of_exchange, of_bidders)
        else {
            return of_exchange.or(of_bidders);
        };
        Some([hour.joined(bidders_hour), day.joined(bidders_day)])
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

//! How a campaign bids now, in figures and words, as the API shows it.

use pacer_core::pacing::BiddingStatus;
use schemars::JsonSchema;
use serde::Serialize;
use units::{Amount, Cpm, Currency};

/// Decimal places: the smallest share of a strategy is a ten-thousandth.
const DIGITS: usize = 9;

/// How a campaign bids.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Bidding")]
pub(super) struct BiddingView {
    strategy: String,
    /// Multiplier of its value; 1 for a fixed price.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,9})?$"))]
    multiplier: String,
    /// Share of the matching requests on which it bids.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,9})?$"))]
    share: String,
    /// Its bid for 1000 impressions; null for a removed campaign.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,6})?$"))]
    bid: Option<String>,
    /// The same in words.
    words: String,
}

/// `amount` is the bid before any strategy.
pub(super) fn shown(
    bidding: &BiddingStatus,
    amount: Option<Cpm>,
    currency: Option<Currency>,
) -> BiddingView {
    let pace = bidding.pace;
    // A multiplier does not change a fixed price.
    let multiplier = if bidding.is_fixed_price { 1 << 32 } else { pace.multiplier() };
    let bid = amount.map(|amount| if bidding.is_fixed_price { amount } else { pace.price(amount) });
    BiddingView {
        strategy: bidding.strategy.to_owned(),
        multiplier: decimal(multiplier as f64 / 4_294_967_296.0),
        share: decimal(share(bidding)),
        bid: bid.map(|bid| bid.to_string()),
        words: words(bidding, bid, currency),
    }
}

fn share(bidding: &BiddingStatus) -> f64 {
    match bidding.pace.threshold() {
        u64::MAX => 1.0,
        threshold => threshold as f64 / 18_446_744_073_709_551_616.0,
    }
}

fn words(bidding: &BiddingStatus, bid: Option<Cpm>, currency: Option<Currency>) -> String {
    let (strategy, pace) = (bidding.strategy, bidding.pace);
    let bid = bid.map(|bid| match currency {
        Some(currency) => Amount::of_thousand(bid, currency).to_string(),
        None => bid.to_string(),
    });
    let what = match (bidding.is_fixed_price, bid) {
        (_, None) => "bids".to_owned(),
        (true, Some(bid)) => format!("bids its price, {bid} for 1000 impressions,"),
        (false, Some(bid)) => {
            let part = decimal(((pace.multiplier() as f64 / 4_294_967_296.0) * 1e4).round() / 1e4);
            format!("bids {part} of its value, {bid} for 1000 impressions,")
        }
    };
    match pace.threshold() {
        0 => format!("{strategy} bids for no request now"),
        u64::MAX => format!("{strategy} {what} for every request that fits"),
        _ => {
            let percent = decimal((share(bidding) * 1e4).round() / 1e2);
            format!("{strategy} {what} for {percent} % of the requests that fit")
        }
    }
}

fn decimal(number: f64) -> String {
    let text = format!("{number:.DIGITS$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

//! The most value that a budget could buy if all prices and values were known in advance.
//!
//! The fractional knapsack: impressions by value per price, the last one in part. No bidding wins
//! more, at second prices or, paying at least the price to beat, at first prices. Exact, in
//! integers. It must not know strategies.

use std::cmp::Ordering;

use pacer_core::strategy::{CampaignFlight, SpendTarget};
use units::Nanos;

use crate::stream::StreamAuction;

/// The purchase that is optimal in hindsight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// Its value in nanos. The last impression counts for the paid part, rounded up, so that this
    /// bounds every integral purchase.
    pub value_nanos: u128,
    /// Its cost: the budget, or all impressions for sale.
    pub spent: Nanos,
    /// Whole impressions bought.
    pub wins: u64,
}

/// The optimum of `auctions` within `budget`. Copies the auctions with a price above zero.
pub fn optimum(auctions: &[StreamAuction], budget: Nanos) -> Optimum {
    let mut best = Optimum { value_nanos: 0, spent: Nanos::ZERO, wins: 0 };
    // A price in micros per 1000 equals nanos per impression.
    let mut priced: Vec<PricedImpression> = Vec::with_capacity(auctions.len());
    for auction in auctions {
        let (price, value) = (auction.market_price.micros(), auction.value.micros());
        if value == 0 {
            continue;
        }
        if price == 0 {
            best.value_nanos += u128::from(value);
            best.wins += 1;
        } else {
            priced.push(PricedImpression { price, value });
        }
    }
    // Among equal ratios the order changes only the number of wins. The cheaper one comes first, so
    // that the result is deterministic.
    priced.sort_unstable_by(|a, b| a.by_ratio(b).then(a.cmp(b)));
    let mut left = budget.get();
    for PricedImpression { price, value } in priced {
        if price > left {
            let part = u128::from(value) * u128::from(left);
            best.value_nanos += part.div_ceil(u128::from(price));
            left = 0;
            break;
        }
        left -= price;
        best.value_nanos += u128::from(value);
        best.wins += 1;
    }
    best.spent = Nanos::new(budget.get() - left);
    best
}

/// Value in nanos of the best purchase hour by hour, with the target's budget of each hour plus the
/// rest of earlier hours: about the most that spend along the target allows.
pub fn hourly(auctions: &[StreamAuction], budget: Nanos, target: &SpendTarget) -> u128 {
    const HOUR_MS: u64 = 3_600_000;
    let CampaignFlight { start_ms, end_ms } = target.flight();
    let (mut value_nanos, mut spent, mut rest) = (0, 0, auctions);
    let mut now_ms = start_ms;
    while now_ms < end_ms && !rest.is_empty() {
        now_ms = now_ms.saturating_add(HOUR_MS).min(end_ms);
        let (hour, later) = rest.split_at(rest.partition_point(|it| it.time_ms < now_ms));
        let planned = part(budget, target.share(now_ms));
        let best = optimum(hour, Nanos::new(planned.saturating_sub(spent)));
        value_nanos += best.value_nanos;
        spent += best.spent.get();
        rest = later;
    }
    value_nanos
}

/// A share, 0 to 1, of a budget, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a budget is within it; for measuring"
)]
fn part(budget: Nanos, share: f64) -> u64 {
    if share >= 1.0 { budget.get() } else { (budget.get() as f64 * share) as u64 }
}

/// An impression for sale, in micros CPM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PricedImpression {
    price: u64,
    value: u64,
}

impl PricedImpression {
    /// Less if it has more value per price than `other`.
    fn by_ratio(&self, other: &Self) -> Ordering {
        // Compares products instead of ratios; prices and values are below 2^50.
        let own = u128::from(self.value) * u128::from(other.price);
        (u128::from(other.value) * u128::from(self.price)).cmp(&own)
    }
}

#[cfg(test)]
mod tests;

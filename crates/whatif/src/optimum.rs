//! The most that a budget could have won, had every price and value been known before.
//!
//! The relaxation of the knapsack: impressions are taken by what they are worth for their price,
//! the last of them in part. No way to bid wins more, at second prices or, paying at least the
//! price to beat, at first prices. Exact, in integers. Knows nothing of strategies.

use std::cmp::Ordering;

use pacer_core::strategy::{Flight, Target};
use units::Nanos;

use crate::stream::Auction;

/// What hindsight would have bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// What it is worth, in nanos: of the last impression only the part that is paid for, rounded
    /// up, so that it bounds every whole number.
    pub value_nanos: u128,
    /// What it costs: the budget, or all that there is to buy.
    pub spent: Nanos,
    /// How many impressions, the one in part not among them.
    pub wins: u64,
}

/// The optimum of `auctions` within `budget`. Holds a copy of those that cost something.
pub fn optimum(auctions: &[Auction], budget: Nanos) -> Optimum {
    let mut best = Optimum { value_nanos: 0, spent: Nanos::ZERO, wins: 0 };
    // A price in micros per 1000 is as many nanos for one.
    let mut priced: Vec<(u64, u64)> = Vec::with_capacity(auctions.len());
    for auction in auctions {
        let (price, value) = (auction.market_price.micros(), auction.value.micros());
        if value == 0 {
            continue;
        }
        if price == 0 {
            best.value_nanos += u128::from(value);
            best.wins += 1;
        } else {
            priced.push((price, value));
        }
    }
    // Which of two that are worth as much for their price comes first changes the number of wins
    // alone; the cheaper does, so that it is always the same.
    priced.sort_unstable_by(|a, b| worth_more(*a, *b).then(a.cmp(b)));
    let mut left = budget.get();
    for (price, value) in priced {
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

/// What hindsight would have bought hour by hour, with what `target` has for each and what the hours
/// before left: about the most that a spend along the target allows. In nanos.
pub fn hourly(auctions: &[Auction], budget: Nanos, target: &Target) -> u128 {
    const HOUR_MS: u64 = 3_600_000;
    let Flight { start_ms, end_ms } = target.flight();
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

/// A share of a budget, 0 to 1, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a budget is within it; for measuring"
)]
fn part(budget: Nanos, share: f64) -> u64 {
    if share >= 1.0 { budget.get() } else { (budget.get() as f64 * share) as u64 }
}

/// Less where the first (price, value) is worth more for its price.
fn worth_more((price_a, value_a): (u64, u64), (price_b, value_b): (u64, u64)) -> Ordering {
    // value_a / price_a against value_b / price_b; prices and values are below 2^50.
    let (a, b) =
        (u128::from(value_a) * u128::from(price_b), u128::from(value_b) * u128::from(price_a));
    b.cmp(&a)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Cpm;

    use super::*;

    fn auctions(pairs: &[(u64, u64)]) -> Vec<Auction> {
        let cpm = |micros| Cpm::new(micros).expect("a price");
        let auction = |&(price, value): &(u64, u64)| Auction {
            time_ms: 0,
            market_price: cpm(price),
            value: cpm(value),
        };
        pairs.iter().map(auction).collect()
    }

    #[track_caller]
    fn check(pairs: &[(u64, u64)], budget: u64, want: (u128, u64, u64)) {
        let got = optimum(&auctions(pairs), Nanos::new(budget));
        assert_eq!((got.value_nanos, got.spent.get(), got.wins), want);
    }

    #[test]
    fn takes_by_worth_and_the_last_in_part() {
        //    (price, value)                   budget  (value, spent, wins)
        check(&[], 10, (0, 0, 0));
        check(&[(10, 60), (20, 100), (30, 120)], 50, (240, 50, 2)); // the textbook's: 60 + 100 + 2/3 of 120
        check(&[(30, 120), (10, 60), (20, 100)], 60, (280, 60, 3));
        check(&[(10, 60)], 100, (60, 10, 1));
        check(&[(10, 60)], 0, (0, 0, 0));
        check(&[(0, 7), (10, 60), (0, 0)], 0, (7, 0, 1));
        check(&[(3, 10)], 1, (4, 1, 0)); // a third of 10, rounded up
        check(&[(2, 0)], 10, (0, 0, 0)); // what is worth nothing is not bought
        check(&[(4, 8), (2, 4), (1, 2)], 3, (6, 3, 2)); // alike: the cheaper first
    }

    #[test]
    fn money_that_an_hour_leaves_goes_to_the_next_hour() {
        const HOUR_MS: u64 = 3_600_000;
        let flight = Flight { start_ms: 0, end_ms: 3 * HOUR_MS };
        let target = Target::uniform(flight).expect("it has a length");
        let at = |hour: u64, pair| Auction { time_ms: hour * HOUR_MS, ..auctions(&[pair])[0] };
        let check = |pairs: &[(u64, (u64, u64))], budget, want| {
            let auctions: Vec<_> = pairs.iter().map(|(hour, pair)| at(*hour, *pair)).collect();
            assert_eq!(hourly(&auctions, Nanos::new(budget), &target), want, "{pairs:?}");
        };
        // Ten for each hour: of the first 60 it has a half, of the last nothing is left undone.
        check(&[(0, (20, 60)), (1, (10, 10)), (2, (10, 50))], 30, 90);
        // Nothing to buy in the first: the second has twenty.
        check(&[(1, (20, 60)), (2, (10, 50))], 30, 110);
        check(&[(2, (30, 90))], 30, 90);
        check(&[(0, (30, 90))], 30, 30);
        check(&[], 30, 0);
    }

    #[test]
    fn the_highest_prices_do_not_overflow() {
        let most = Cpm::MAX.micros();
        let pairs = vec![(most, most); 20_000];
        let got = optimum(&auctions(&pairs), Nanos::new(u64::MAX));
        assert_eq!(got.spent.get(), u64::MAX);
        assert_eq!(got.value_nanos, u128::from(u64::MAX));
    }

    /// The most value of whole impressions, over every choice of them.
    fn brute_force(pairs: &[(u64, u64)], budget: u64) -> u128 {
        let choices = 0u32..1 << pairs.len();
        let worth = choices.filter_map(|choice| {
            let chosen = || {
                let is_chosen = move |at: &usize| choice & (1 << at) != 0;
                (0..pairs.len()).filter(is_chosen).map(|at| pairs[at])
            };
            let price: u64 = chosen().map(|(price, _)| price).sum();
            (price <= budget).then(|| chosen().map(|(_, value)| u128::from(value)).sum())
        });
        worth.max().unwrap_or(0)
    }

    /// The relaxation by its dual: the least over every multiplier that is the worth of an
    /// impression (or nothing) of the budget's price and what impressions leave. In
    /// thousand-millionths.
    fn dual_bound(pairs: &[(u64, u64)], budget: u64) -> f64 {
        let ratio = |&(price, value): &(u64, u64)| value as f64 / price as f64;
        let multipliers = pairs.iter().filter(|pair| pair.0 > 0).map(ratio).chain([0.0]);
        let bounds = multipliers.map(|dual| {
            let leaves =
                |&(price, value): &(u64, u64)| (value as f64 - dual * price as f64).max(0.0);
            dual * budget as f64 + pairs.iter().map(leaves).sum::<f64>()
        });
        bounds.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn is_the_relaxation_of_every_choice(
            pairs in prop::collection::vec((0..30u64, 0..30u64), 0..11), budget in 0..200u64,
        ) {
            let got = optimum(&auctions(&pairs), Nanos::new(budget));
            let whole = brute_force(&pairs, budget);
            prop_assert!(got.value_nanos >= whole);
            // What the part adds is less than the largest impression.
            let largest = pairs.iter().map(|pair| u128::from(pair.1)).max().unwrap_or(0);
            prop_assert!(got.value_nanos <= whole + largest);
            prop_assert!(got.spent.get() <= budget);
            // By duality the relaxation is exactly this, rounded up.
            let dual = dual_bound(&pairs, budget);
            prop_assert!((got.value_nanos as f64 - dual) > -1e-6, "{} {dual}", got.value_nanos);
            prop_assert!((got.value_nanos as f64 - dual) < 1.0, "{} {dual}", got.value_nanos);
        }
    }
}

//! The optimum, compared with an exhaustive search.

use proptest::prelude::*;
use units::Cpm;

use super::*;

fn auctions(pairs: &[(u64, u64)]) -> Vec<StreamAuction> {
    let cpm = |micros| Cpm::new(micros).expect("a price");
    let auction = |&(price, value): &(u64, u64)| StreamAuction {
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
    let flight = CampaignFlight { start_ms: 0, end_ms: 3 * HOUR_MS };
    let target = SpendTarget::uniform(flight).expect("it has a length");
    let at = |hour: u64, pair| StreamAuction { time_ms: hour * HOUR_MS, ..auctions(&[pair])[0] };
    let check = |pairs: &[(u64, (u64, u64))], budget, want| {
        let auctions: Vec<_> = pairs.iter().map(|(hour, pair)| at(*hour, *pair)).collect();
        assert_eq!(hourly(&auctions, Nanos::new(budget), &target), want, "{pairs:?}");
    };
    // Ten per hour: the first buys half of its 60, the last leaves nothing.
    check(&[(0, (20, 60)), (1, (10, 10)), (2, (10, 50))], 30, 90);
    // Nothing to buy in the first hour: the second has twenty.
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

/// The most value of whole impressions, by exhaustive search.
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

/// The relaxation by its dual, in thousand-millionths: the minimum, over every multiplier that is
/// an impression's value per price (or zero), of the budget's cost plus the surplus of impressions.
fn dual_bound(pairs: &[(u64, u64)], budget: u64) -> f64 {
    let ratio = |&(price, value): &(u64, u64)| value as f64 / price as f64;
    let multipliers = pairs.iter().filter(|pair| pair.0 > 0).map(ratio).chain([0.0]);
    let bounds = multipliers.map(|dual| {
        let leaves = |&(price, value): &(u64, u64)| (value as f64 - dual * price as f64).max(0.0);
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
        // The fractional part adds less than the largest impression.
        let largest = pairs.iter().map(|pair| u128::from(pair.1)).max().unwrap_or(0);
        prop_assert!(got.value_nanos <= whole + largest);
        prop_assert!(got.spent.get() <= budget);
        // By duality the relaxation equals this, rounded up.
        let dual = dual_bound(&pairs, budget);
        prop_assert!((got.value_nanos as f64 - dual) > -1e-6, "{} {dual}", got.value_nanos);
        prop_assert!((got.value_nanos as f64 - dual) < 1.0, "{} {dual}", got.value_nanos);
    }
}

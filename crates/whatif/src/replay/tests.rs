//! Small budgets computed by hand and by a naive model; nothing is ever overspent.

use pacer_core::strategy::{Forecast, SlotDual};
use proptest::prelude::*;

use super::*;

const START: u64 = 1_000_000;

fn auction(after_ms: u64, value: u64, market_price: u64) -> StreamAuction {
    let cpm = |micros| Cpm::new(micros).expect("a price");
    StreamAuction { time_ms: START + after_ms, market_price: cpm(market_price), value: cpm(value) }
}

fn target(length_ms: u64) -> SpendTarget {
    SpendTarget::uniform(CampaignFlight { start_ms: START, end_ms: START + length_ms })
        .expect("it has a length")
}

fn options<'a>(
    settings: &'a StrategySettings,
    target: &'a SpendTarget,
    budget: u64,
) -> ReplayOptions<'a> {
    ReplayOptions {
        settings,
        target,
        budget: Nanos::new(budget),
        pricing: AuctionPricing::SecondPrice,
        slot_ms: 1_000,
        notice_delay_ms: 0,
    }
}

/// (after ms, value, price to beat)
const SMALL: [(u64, u64, u64); 8] = [
    (0, 10, 6),  // won
    (1, 4, 6),   // lost
    (2, 12, 12), // won: a bid of the price to beat wins
    (3, 8, 1),
    (4, 7, 3),
    (5, 0, 0), // nobody bids nothing
    (6, 4, 4),
    (7, 1, 1),
];

fn small() -> Vec<StreamAuction> {
    SMALL.iter().map(|&(after, value, price)| auction(after, value, price)).collect()
}

#[track_caller]
fn check(pricing: AuctionPricing, delay_ms: u64, want: (u128, u128, u64, u64, Option<u64>)) {
    let target = target(8);
    let settings = StrategySettings::Asap;
    let options =
        ReplayOptions { pricing, notice_delay_ms: delay_ms, ..options(&settings, &target, 25) };
    let run = replay(&small(), &options);
    let exhausted = run.exhausted_ms.map(|time_ms| time_ms - START);
    assert_eq!((run.billed_nanos, run.value_nanos, run.bids, run.wins, exhausted), want);
    assert_eq!(run.auctions, 8);
    // One slot: it ends with the flight.
    let ends: Vec<_> = run.samples.iter().map(|it| (it.time_ms - START, it.spent_nanos)).collect();
    assert_eq!(ends, [(8, want.0)]);
}

#[test]
fn a_small_budget_is_spent_as_by_hand() {
    // 6 + 12; of the remaining 7 all are bid for a value of 8, at 1; 3; not at 4, but at 1.
    check(AuctionPricing::SecondPrice, 0, (23, 38, 7, 5, Some(3)));
    // 10 + 12; then the remaining 3 are bid, and win at 3 a value of 8.
    check(AuctionPricing::FirstPrice, 0, (25, 30, 4, 3, Some(3)));
    // Prices stay reserved until their notice: nothing changes.
    check(AuctionPricing::SecondPrice, 3, (23, 38, 7, 5, Some(3)));
    check(AuctionPricing::SecondPrice, 1_000, (23, 38, 7, 5, Some(3)));
}

/// Most of the value is in few impressions, each worth more than the whole budget and cheaper than
/// it.
#[test]
fn a_bid_that_is_larger_than_what_is_left_is_lowered_to_it() {
    let auctions = [auction(0, 900, 5), auction(1, 2, 1), auction(2, 900, 21), auction(3, 900, 14)];
    let target = target(8);
    let settings = StrategySettings::Asap;
    let run = replay(&auctions, &options(&settings, &target, 25));
    // Of 25, 5 + 1; then 19 are bid, which lose at 21 and win at 14.
    assert_eq!((run.billed_nanos, run.value_nanos), (20, 1_802));
    assert_eq!((run.bids, run.wins, run.exhausted_ms), (4, 3, Some(START)));
}

#[test]
fn a_budget_that_is_spent_to_the_last_is_exhausted_by_the_next_auction() {
    let target = target(100_000);
    let settings = StrategySettings::Asap;
    let auctions = [auction(0, 6, 6), auction(10, 6, 6), auction(60_000, 6, 6)];
    let run = replay(&auctions, &options(&settings, &target, 12));
    assert_eq!((run.billed_nanos, run.exhausted_ms), (12, Some(START + 60_000)));
    // Without a further auction, nothing was missed.
    let run = replay(&auctions[..2], &options(&settings, &target, 12));
    assert_eq!((run.billed_nanos, run.exhausted_ms), (12, None));
}

#[test]
fn auctions_outside_of_the_flight_are_passed_by() {
    let target =
        SpendTarget::uniform(CampaignFlight { start_ms: START + 2, end_ms: START + 4 }).unwrap();
    let settings = StrategySettings::Asap;
    let run = replay(&small(), &options(&settings, &target, 100));
    assert_eq!((run.auctions, run.billed_nanos, run.wins), (2, 13, 2));
}

#[test]
fn slots_end_in_time_whether_or_not_auctions_come() {
    let target = target(100_000);
    let settings = StrategySettings::Asap;
    let options = ReplayOptions { slot_ms: 2_000, ..options(&settings, &target, 100) };
    let run = replay(&[auction(50_500, 10, 10)], &options);
    let times: Vec<_> = run.samples.iter().map(|sample| sample.time_ms - START).collect();
    assert_eq!(&times[..3], [2_000, 4_000, 6_000]);
    assert_eq!(times.last(), Some(&100_000));
    assert!(times.is_sorted_by(|a, b| a < b));
    // A slot's spend shows at its end, and no earlier.
    for sample in &run.samples {
        let after = sample.time_ms - START;
        assert_eq!(sample.spent_nanos, if after <= 50_500 { 0 } else { 10 }, "{after}");
        let share = after as f64 / 100_000.0;
        assert!((sample.planned_nanos - 100.0 * share).abs() < 1e-6, "{after}");
        assert_eq!(sample.multiplier, Some(1 << 32));
    }
}

#[test]
fn an_auction_when_a_slot_ends_is_the_next_ones() {
    let target = target(100_000);
    let settings = StrategySettings::Asap;
    let run = replay(&[auction(1_000, 10, 10)], &options(&settings, &target, 100));
    let spent: Vec<_> = run.samples.iter().map(|sample| sample.spent_nanos).collect();
    assert_eq!((run.samples[0].time_ms - START, spent[0], spent[1]), (1_000, 0, 10));
}

#[test]
fn a_strategy_knows_no_win_before_its_notice() {
    // An auction every 10 ms, always won at 1: a budget for half of them, spent evenly.
    let auctions: Vec<_> = (0..10_000).map(|at| auction(at * 10, 1, 1)).collect();
    let target = target(100_000);
    let settings = StrategySettings::Even;
    let run = |notice_delay_ms| {
        replay(&auctions, &ReplayOptions { notice_delay_ms, ..options(&settings, &target, 5_000) })
    };
    let spent_early = |run: &ReplayResult| {
        let mut early = run.samples.iter().filter(|sample| sample.time_ms <= START + 25_000);
        early.next_back().expect("there are slots").spent_nanos
    };
    let (prompt, blind) = (run(0), run(100_000));
    assert!(spent_early(&prompt) <= 1_400, "{}", spent_early(&prompt));
    // Without notices the strategy believes that it is behind.
    assert!(spent_early(&blind) >= 2_000, "{}", spent_early(&blind));
    assert!(blind.billed_nanos <= 5_000);
}

#[test]
fn what_is_bid_follows_the_strategy() {
    // At the initial multiplier, a tenth, nothing is won, so the multiplier must rise.
    let auctions: Vec<_> = (0..100_000).map(|at| auction(at, 1_000, 500)).collect();
    let target = target(100_000);
    let settings = StrategySettings::SlotDual(SlotDual { start: 0.1, ..SlotDual::default() });
    let run = replay(&auctions, &options(&settings, &target, 5_000_000));
    let first = run.samples[0];
    assert_eq!(first.spent_nanos, 0);
    let multiplier = first.multiplier.expect("it bids") as f64 / f64::from(u32::MAX);
    assert!((multiplier - 0.1).abs() < 0.001, "{multiplier}");
    assert!(run.billed_nanos > 4_000_000, "{}", run.billed_nanos);
}

/// ASAP without slots and notices.
fn naive(auctions: &[StreamAuction], budget: u64, pricing: AuctionPricing) -> (u64, u64) {
    let (mut left, mut wins) = (budget, 0);
    for auction in auctions {
        let (value, price) = (auction.value.micros(), auction.market_price.micros());
        let bid = value.min(left);
        if bid > 0 && bid >= price {
            left -= if pricing == AuctionPricing::FirstPrice { bid } else { price };
            wins += 1;
        }
    }
    (budget - left, wins)
}

fn stream() -> impl Strategy<Value = Vec<StreamAuction>> {
    let row = (0..3_000u64, 0..40u64, 0..40u64);
    prop::collection::vec(row, 1..200).prop_map(|rows| {
        let mut after_ms = 0;
        rows.into_iter()
            .map(|(gap, value, price)| {
                after_ms += gap;
                auction(after_ms, value, price)
            })
            .collect()
    })
}

fn pricing() -> impl Strategy<Value = AuctionPricing> {
    prop_oneof![Just(AuctionPricing::SecondPrice), Just(AuctionPricing::FirstPrice)]
}

proptest! {
    #[test]
    fn asap_is_as_the_naive_model(auctions in stream(), budget in 1..2_000u64, pricing in pricing()) {
        let target = target(1_000_000);
        let settings = StrategySettings::Asap;
        let run = replay(&auctions, &ReplayOptions { pricing, ..options(&settings, &target, budget) });
        let (spent, wins) = naive(&auctions, budget, pricing);
        prop_assert_eq!((run.billed_nanos, run.wins), (u128::from(spent), wins));
    }

    #[test]
    fn no_strategy_overspends(
        auctions in stream(), budget in 1..2_000u64, pricing in pricing(), notice_delay_ms in 0..100_000u64,
        which in 0..6usize, length_ms in 1..600_000u64, slot_ms in 1..20_000u64, parts in prop::collection::vec(0..3u32, 4),
    ) {
        let flight = CampaignFlight { start_ms: START, end_ms: START + length_ms };
        let given = Forecast::Given { part_ms: length_ms.div_ceil(4), weights: parts };
        let target = SpendTarget::new(flight, given).unwrap_or_else(|_| target(length_ms));
        let settings = StrategySettings::all()[which];
        let slot_ms = slot_ms.max(length_ms / 500).max(1);
        let run = replay(&auctions, &ReplayOptions {
            pricing, notice_delay_ms, slot_ms, ..options(&settings, &target, budget)
        });
        prop_assert!(run.billed_nanos <= u128::from(budget));
        prop_assert!(run.wins <= run.bids && run.bids <= run.auctions);
        prop_assert!(run.samples.is_sorted_by_key(|sample| sample.spent_nanos));
        let last = run.samples.last().expect("a flight has a slot");
        prop_assert_eq!((last.time_ms, last.spent_nanos), (flight.end_ms, run.billed_nanos));
    }
}

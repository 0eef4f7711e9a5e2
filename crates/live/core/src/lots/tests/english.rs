//! Proxy bids: leader, price and reserve after each bid.

use super::*;

/// Checks bids of a bidder and its maximum, each with the leader and the price after it, and
/// whether the reserve is met.
#[track_caller]
fn check(terms: LotTerms, bids: &[(&str, u64, &str, u64)], met: Option<bool>) {
    let mut lot = opened(terms);
    for (bidder, maximum, leader, price) in bids {
        step(&mut lot, 1500, LotCommand::Bid(bid(bidder, *maximum)));
        let view = lot.state();
        let alias = lot.bidder_view(leader).expect("it has bid").alias;
        let got = (view.leader, view.price.map(|price| price.0));
        assert_eq!(got, (Some(alias), Some(cpm(*price))), "after {bidder} with {maximum}");
        let led: Vec<_> = holds(&lot).iter().map(|(_, bidder, _)| *bidder).collect();
        assert_eq!(led, [*leader]);
    }
    assert_eq!(lot.state().reserve_met, met);
}

fn reserve(reserve: u64) -> LotTerms {
    LotTerms { reserve: Some(cpm(reserve)), ..terms() }
}

fn bands(bands: &[(u64, u64)]) -> LotTerms {
    let band =
        |(from, step): &(u64, u64)| IncrementBand { from: cpm(*from), increment: cpm(*step) };
    let increments = IncrementBands(bands.iter().map(band).collect());
    LotTerms { rules: LotRules::English(EnglishTerms { increments, soft_close: None }), ..terms() }
}

#[test]
fn the_second_maximum_sets_the_price() {
    check(terms(), &[("a", 100, "a", 100)], None);
    check(terms(), &[("a", 500, "a", 100)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 110, "a", 120)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 499, "a", 500)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 490, "a", 500)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 489, "a", 499)], None);
    // The new leader does not bid a full increment if its maximum ends before.
    check(terms(), &[("a", 500, "a", 100), ("b", 501, "b", 501)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 510, "b", 510)], None);
    check(terms(), &[("a", 500, "a", 100), ("b", 511, "b", 510)], None);
    check(
        terms(),
        &[("a", 200, "a", 100), ("b", 300, "b", 210), ("c", 250, "b", 260), ("a", 400, "a", 310)],
        None,
    );
}

#[test]
fn ties_go_to_the_bid_that_was_first() {
    check(terms(), &[("a", 500, "a", 100), ("b", 500, "a", 500)], None);
    check(terms(), &[("a", 300, "a", 100), ("b", 400, "b", 310), ("a", 400, "b", 400)], None);
    // Ann's raise comes before Bob's bid.
    check(terms(), &[("a", 300, "a", 100), ("a", 400, "a", 100), ("b", 400, "a", 400)], None);
}

#[test]
fn the_leader_raises_its_maximum_without_a_higher_price() {
    check(
        terms(),
        &[("a", 300, "a", 100), ("b", 305, "b", 305), ("b", 306, "b", 305), ("b", 900, "b", 305)],
        None,
    );
    check(terms(), &[("a", 300, "a", 100), ("a", 900, "a", 100), ("b", 800, "a", 810)], None);
}

#[test]
fn a_maximum_that_meets_the_reserve_raises_the_price_to_it() {
    check(reserve(400), &[], Some(false));
    check(reserve(400), &[("a", 399, "a", 100)], Some(false));
    check(reserve(400), &[("a", 400, "a", 400)], Some(true));
    check(reserve(400), &[("a", 900, "a", 400), ("b", 410, "a", 420)], Some(true));
    check(reserve(400), &[("a", 300, "a", 100), ("b", 399, "b", 310)], Some(false));
    check(reserve(400), &[("a", 300, "a", 100), ("b", 401, "b", 400)], Some(true));
    check(reserve(400), &[("a", 395, "a", 100), ("b", 500, "b", 405)], Some(true));
    // The leader meets it by its own raise.
    check(reserve(400), &[("a", 300, "a", 100), ("a", 399, "a", 100)], Some(false));
    check(reserve(400), &[("a", 300, "a", 100), ("a", 500, "a", 400)], Some(true));
    check(reserve(100), &[("a", 300, "a", 100)], Some(true));
}

#[test]
fn the_band_of_the_second_maximum_sets_the_increment() {
    let steps = || bands(&[(0, 1), (200, 50), (1000, 100)]);
    check(steps(), &[("a", 900, "a", 100), ("b", 199, "a", 200)], None);
    check(steps(), &[("a", 900, "a", 100), ("b", 200, "a", 250)], None);
    check(steps(), &[("a", 2000, "a", 100), ("b", 999, "a", 1049)], None);
    check(steps(), &[("a", 2000, "a", 100), ("b", 1000, "a", 1100)], None);
    let minimum = |bids: &[(&str, u64)]| {
        with_bids(steps(), bids).state().minimum_next.expect("it is open").0.micros()
    };
    assert_eq!(minimum(&[]), 100);
    assert_eq!(minimum(&[("a", 900)]), 101);
    assert_eq!(minimum(&[("a", 900), ("b", 199)]), 250);
    assert_eq!(minimum(&[("a", 900), ("b", 900)]), 950);
    // Increments may fall, prices do not.
    let falling = || bands(&[(0, 100), (200, 1)]);
    check(falling(), &[("a", 900, "a", 100), ("b", 200, "a", 201), ("b", 202, "a", 203)], None);
    check(falling(), &[("a", 199, "a", 100), ("b", 900, "b", 299), ("a", 300, "b", 301)], None);
}

#[test]
fn prices_end_at_the_highest_of_all() {
    let max = Cpm::MAX.micros();
    let mut all = terms();
    all.impressions = 1;
    check(all, &[("a", max, "a", 100), ("b", max - 1, "a", max), ("c", max, "a", max)], None);
}

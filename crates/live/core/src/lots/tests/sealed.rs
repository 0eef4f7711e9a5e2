//! Sealed bids: who wins, and at what price.

use super::*;

/// Checks the winner and its price. None if the lot is not sold.
#[track_caller]
fn check(reserve: Option<u64>, bids: &[(&str, u64)], want: Option<(&str, u64)>) {
    let mut lot = with_bids(LotTerms { reserve: reserve.map(cpm), ..sealed_terms() }, bids);
    step(&mut lot, 1500, LotCommand::Close);
    let reason = if bids.is_empty() { UnsoldReason::NoBids } else { UnsoldReason::ReserveNotMet };
    match (lot.result().expect("it is closed"), want) {
        (LotResult::Sold(sale), Some((winner, price))) => {
            assert_eq!((sale.winner.as_str(), sale.price), (winner, cpm(price)));
            let number = lot.bidder_view(winner).expect("it has bid").number;
            assert_eq!(sale.number, number);
        }
        (LotResult::Unsold(got), None) => assert_eq!(*got, reason),
        (got, _) => panic!("{got:?}"),
    }
    assert_eq!(lot.state().reserve_met, reserve.map(|_| want.is_some()));
}

#[test]
fn the_highest_bid_pays_the_second_highest() {
    check(None, &[], None);
    check(None, &[("a", 300)], Some(("a", 100)));
    check(None, &[("a", 300), ("b", 200)], Some(("a", 200)));
    check(None, &[("a", 200), ("b", 300), ("c", 250)], Some(("b", 250)));
    // A raise replaces the bidder's own bid.
    check(None, &[("a", 200), ("a", 300)], Some(("a", 100)));
    check(None, &[("a", 200), ("b", 300), ("a", 400)], Some(("a", 300)));
}

#[test]
fn ties_go_to_the_bid_that_reached_the_amount_first() {
    check(None, &[("a", 300), ("b", 300)], Some(("a", 300)));
    check(None, &[("a", 200), ("b", 300), ("a", 300)], Some(("b", 300)));
    check(None, &[("a", 200), ("b", 250), ("a", 300), ("b", 300)], Some(("a", 300)));
}

#[test]
fn the_reserve_bounds_the_price() {
    check(Some(250), &[], None);
    check(Some(250), &[("a", 249)], None);
    check(Some(250), &[("a", 250)], Some(("a", 250)));
    check(Some(250), &[("a", 300), ("b", 200)], Some(("a", 250)));
    check(Some(250), &[("a", 300), ("b", 260)], Some(("a", 260)));
}

#[test]
fn every_bidder_has_one_hold() {
    let mut lot = with_bids(sealed_terms(), &[("a", 200), ("b", 300)]);
    let ended = |number, fate| EndedHold { number, fate };
    let change = step(&mut lot, 1500, LotCommand::Bid(bid("a", 250)));
    let ended_holds = vec![ended(1, HoldFate::Released)];
    assert_eq!(change, LotChange { ended_holds, news: Vec::new() });
    assert_eq!(holds(&lot), [(3, "a", 250_000), (2, "b", 300_000)]);
    let change = step(&mut lot, 1500, LotCommand::Close);
    let charged = HoldFate::Charged { cost: units::Nanos::new(250_000) };
    assert_eq!(change.ended_holds, [ended(3, HoldFate::Released), ended(2, charged)]);
    assert_eq!(holds(&lot), []);
}

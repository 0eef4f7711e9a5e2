//! Sold deals in records: replayed at the sold price, and differences found.

use super::*;
use crate::fixtures::{cpm, response};

/// A bid of 3 under a deal sold for 2 euros, in an auction in dollars.
pub(super) fn case() -> Case {
    let sold = [sold_deal("other", 1, "b1", "5 USD"), sold_deal("sold", 0, "a1", "2 EUR")];
    let bids = response(&[bid(json!({ "id": "b1", "price": 3, "dealid": "sold" }))]);
    let market = Market { sold: sold.into_iter().collect(), ..market() };
    Case { market, bodies: vec![(0, bids)], ..Case::of_one_bid() }
}

#[test]
fn the_sold_price_is_recomputed() {
    let held = held(&case());
    let record = AuctionRecord::decode(&held.record).unwrap();
    let deals: Vec<_> = record.deals.iter().map(|deal| (deal.id, deal.sold, deal.floor)).collect();
    let want = [("other", Some(0), Some(cpm("5"))), ("sold", Some(1), Some(cpm("2.16")))];
    assert_eq!(deals, want);
    assert_eq!(record.sales[0].price, cpm("2.16"));
    assert_eq!(replayed(&held.record, &held.generation), Ok(ReplayOutcome::Same));
}

#[test]
fn an_auction_that_sold_otherwise_is_found() {
    let held = held(&case());
    let check = |change: &dyn Fn(&mut v1::Auction), want: &str| {
        let mut message = v1::Auction::decode(&*held.record).unwrap();
        change(&mut message);
        let told = replayed(&written(&message), &held.generation).unwrap_err();
        assert_eq!(told.lines().next(), Some(want));
    };
    let deal = r#"deals[1] (id "sold")"#;
    check(
        &|auction| auction.deals[1].floor_micros = Some(2_000_000),
        &format!("{deal} floor: recorded 2, recomputed 2.16"),
    );
    check(
        &|auction| auction.deals[1].class = 7,
        &format!("{deal} class: recorded 7, recomputed 1"),
    );
    check(
        &|auction| auction.deals[1].auction_type = 1,
        &format!("{deal} auction_type: recorded first_price, recomputed agreed"),
    );
    check(
        &|auction| auction.deals[1].sold = Some(2),
        &format!("{deal} sold: recorded 2, recomputed one of 2"),
    );
    check(
        &|auction| auction.deals[1].sold = Some(0),
        &format!(r#"{deal} id: recorded sold, recomputed other"#),
    );
    check(
        &|auction| auction.deals[1].sold = None,
        &format!("{deal} class: recorded 1, recomputed 0"),
    );
    check(
        &|auction| {
            auction.deals[0].floor_micros = auction.deals[1].floor_micros;
            auction.bids[0].deal = Some(0);
        },
        r#"deals[0] (id "other") floor: recorded 2.16, recomputed 5"#,
    );
}

#[test]
fn a_bid_of_another_dsp_under_a_sold_deal_is_found() {
    let mut held = held(&case());
    held.generation.sold[1].dsp = 2;
    let told = replayed(&held.record, &held.generation).unwrap_err();
    assert_eq!(told, r#"bids[0] (alpha, seat a1, id "b1") dsp: recorded 0, recomputed 2"#);
}

//! Losers returned with a winner: selection, order and price.

use Fate::{GroupIncomplete, LostToHigherBid, Offered, Won};
use serde_json::{Value, json};

use super::*;
use crate::answering::sale::sales;
use crate::fixtures::rehearsal::{SampleAuction, noticed, response};
use crate::fixtures::{cpm, imp, request};

fn bodies(prices: &[&str]) -> Vec<(usize, String)> {
    let body = |(index, price): (usize, &&str)| {
        let dsp = ["alpha", "beta", "gamma"][index % 3];
        let price: Value = serde_json::from_str(price).expect("a price is a number");
        (index % 3, response(&[noticed(dsp, json!({ "price": price }))], json!({})))
    };
    prices.iter().enumerate().map(body).collect()
}

fn all(request: &str, bodies: &[(usize, String)]) -> SampleAuction {
    SampleAuction::new(NoticeMode::Upstream, request, bodies).returning_all()
}

fn first_price() -> String {
    request(json!({ "at": 1 }))
}

#[track_caller]
fn check(rehearsal: &SampleAuction, want: &[Fate], prices: &[f64]) {
    assert_eq!(rehearsal.fates(), want);
    let (bids, _) = rehearsal.bids();
    let got: Vec<f64> = bids.iter().map(|bid| bid["price"].as_f64().unwrap()).collect();
    assert_eq!(got, prices);
}

#[test]
fn the_best_three_are_returned_each_at_its_own_price() {
    let bodies = bodies(&["1", "5", "3", "4", "2"]);
    let want = [LostToHigherBid, Won, Offered, Offered, LostToHigherBid];
    let rehearsal = all(&first_price(), &bodies);
    check(&rehearsal, &want, &[5.0, 4.0, 3.0]);
    rehearsal.with(|auction, _, judgement, clearing| {
        let sales = sales(auction, judgement, clearing);
        let got: Vec<_> = sales.iter().map(|sale| (sale.bid, sale.fate, sale.paid)).collect();
        let want = [(1, Won, cpm("5")), (3, Offered, cpm("4")), (2, Offered, cpm("3"))];
        assert_eq!(got, want);
    });
}

#[test]
fn only_upstream_and_at_first_price_and_by_the_terms() {
    let bodies = bodies(&["2", "1"]);
    let one = [Won, LostToHigherBid];
    check(&all(&first_price(), &bodies), &[Won, Offered], &[2.0, 1.0]);
    check(&all(&request(json!({ "at": 2 })), &bodies), &one, &[1.01]);
    check(&SampleAuction::new(NoticeMode::Upstream, &first_price(), &bodies), &one, &[2.0]);
    for mode in [NoticeMode::Final, NoticeMode::PassThrough] {
        check(&SampleAuction::new(mode, &first_price(), &bodies).returning_all(), &one, &[2.0]);
    }
}

#[test]
fn each_pays_a_first_price_of_its_own() {
    let deals = json!([
        { "id": "one", "at": 1 }, { "id": "two", "at": 2 }, { "id": "agreed", "at": 3, "bidfloor": 2 }
    ]);
    let body =
        |at: u32| request(json!({ "at": at, "imp": [imp(json!({ "pmp": { "deals": deals } }))] }));
    let of = |price: u32, deal: Value, id: &str| {
        noticed("alpha", json!({ "id": id, "price": price, "dealid": deal }))
    };
    let bids = |first: Value| {
        let others = [
            of(5, json!("two"), "b"),
            of(4, json!("agreed"), "c"),
            of(3, json!("one"), "d"),
            of(1, json!("one"), "e"),
        ];
        let bids: Vec<_> = std::iter::once(first).chain(others).collect();
        vec![(0, response(&bids, json!({})))]
    };
    let lost = [LostToHigherBid; 2];
    let open = all(&body(1), &bids(of(9, Value::Null, "a")));
    check(&open, &[Won, lost[0], lost[1], Offered, Offered], &[9.0, 3.0, 1.0]);
    // The winner's own type decides whether losers are returned.
    let second = all(&body(2), &bids(of(9, Value::Null, "a")));
    assert_eq!(second.fates()[1..], [LostToHigherBid; 4]);
}

#[test]
fn a_group_is_returned_whole_or_not() {
    let two = request(json!({ "at": 1, "imp": [imp(json!({})), imp(json!({ "id": "2" }))] }));
    let of = |id: &str, imp: &str, price: u32| {
        noticed("alpha", json!({ "id": id, "impid": imp, "price": price }))
    };
    let group = |bids: &[Value]| {
        let seatbid = json!([{ "bid": bids, "group": 1 }]);
        json!({ "id": crate::fixtures::rehearsal::ID, "seatbid": seatbid }).to_string()
    };
    let open = response(&[of("o", "1", 2)], json!({}));
    // Complete: its winners, but not its lower bid on an impression it wins.
    let whole = group(&[of("a", "1", 5), of("b", "2", 5), of("c", "1", 4)]);
    let rehearsal = all(&two, &[(0, whole), (1, open.clone())]);
    check(&rehearsal, &[Won, Won, LostToHigherBid, Offered], &[5.0, 5.0, 2.0]);
    let broken = group(&[of("a", "1", 1), of("b", "2", 1)]);
    let rehearsal = all(&two, &[(0, broken), (1, open)]);
    check(&rehearsal, &[GroupIncomplete, GroupIncomplete, Won], &[2.0]);
}

#[test]
fn who_is_refused_makes_room_for_the_next() {
    let rehearsal = all(&first_price(), &bodies(&["9", "8", "7", "6", "5"]));
    rehearsal.with(|auction, _, judgement, clearing| {
        let mut clearing = clearing.clone();
        let beside = |fate: &mut Fate| {
            if *fate == Offered {
                *fate = LostToHigherBid;
            }
        };
        clearing.fates.iter_mut().for_each(beside);
        clearing.also_returned.clear();
        let mut asked = Vec::new();
        offer_others(auction, judgement, &mut clearing, |win| {
            asked.push((win.entry, win.price));
            if win.entry == 1 { Err(Fate::BudgetExhausted) } else { Ok(()) }
        });
        assert_eq!(clearing.fates, [Won, Fate::BudgetExhausted, Offered, Offered, LostToHigherBid]);
        assert_eq!(asked, [(1, cpm("8")), (2, cpm("7")), (3, cpm("6"))]);
    });
}

#[test]
fn an_ad_out_of_reach_is_not_offered() {
    let far = |nurl: &str, adid: Value| {
        let change = json!({ "price": 1, "nurl": nurl, "adid": adid });
        let mut bid = noticed("beta", change);
        bid.as_object_mut().unwrap().remove("adm");
        let bodies = [bodies(&["2"]).remove(0), (1, response(&[bid], json!({})))];
        all(&first_price(), &bodies).fates()[1]
    };
    assert_eq!(far("https://beta.example/", Value::Null), Offered);
    assert_eq!(far("https://evil.example/", Value::Null), LostToHigherBid);
    assert_eq!(far("https://evil.example/", json!("7")), Offered);
}

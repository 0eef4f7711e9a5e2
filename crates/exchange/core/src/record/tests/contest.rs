//! The competition of a bid against the rules themselves: clears again with the bid at another
//! price, or with only its rivals.

use std::collections::BTreeMap;

use units::Cpm;

use super::*;
use crate::clearing::clear::{ClearingEntry, Seat};
use crate::fixtures::cpm;
use crate::record::contest::{Contest, NoContest};

const AUCTIONS: u64 = 2000;

fn micros(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a small price")
}

/// The naive model: clears `own` at `worth` with its rivals. Returns what `own` pays, if it wins.
fn held_again(
    (record, inputs): (&AuctionRecord<'_>, &ClearingInputs),
    own: usize,
    is_own: &dyn Fn(usize) -> bool,
    worth: Cpm,
) -> Option<Cpm> {
    let bid = &record.bids[own];
    let terms = record.terms.expect("it was held");
    let deal = bid.deal.map(|deal| &record.deals[deal]);
    let floor = bid.floor.expect("its checks came so far");
    if worth < floor {
        return None;
    }
    let mut entries = vec![ClearingEntry {
        imp: 0,
        seat: Seat { dsp: bid.dsp, seat: bid.seat.expect("it is declared") },
        class: deal.map_or(0, |deal| deal.class),
        auction_type: deal.map_or(terms.auction_type, |deal| deal.auction_type),
        price: worth,
        floor,
        tie: bid.tie,
        group: None,
        is_deal: deal.is_some(),
        barred: None,
    }];
    for (at, rival) in record.bids.iter().enumerate() {
        let is_out =
            matches!(rival.fate, Fate::BudgetExhausted | Fate::GroupIncomplete | Fate::NoMarkup);
        if let (Ok(entry), false) = (inputs.bids[at].entry, is_out || at == own || is_own(at))
            && rival.imp == bid.imp
        {
            entries.push(ClearingEntry { imp: 0, group: None, barred: None, ..entry });
        }
    }
    let clearing = clear(&entries, &[], 1, terms.increment, |_| Ok(()));
    clearing.wins[0].filter(|win| win.entry == 0).map(|win| win.price)
}

#[test]
fn a_bid_wins_from_the_least_on_and_pays_as_the_rules_have_it() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..AUCTIONS {
        let held = held(&Case::drawn(seed));
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        for own in 0..record.bids.len() {
            let seat = (record.bids[own].dsp, record.bids[own].seat);
            let of_seat = |at: usize| (record.bids[at].dsp, record.bids[at].seat) == seat;
            let alone = |_: usize| false;
            let owns: [(&str, &dyn Fn(usize) -> bool); 2] = [("alone", &alone), ("seat", &of_seat)];
            for (name, is_own) in owns {
                let Ok(contest) = record.contest(own, is_own) else { continue };
                *seen.entry(name).or_default() += 1;
                let least = contest.least.micros();
                let around = [least.saturating_sub(1), least, least + 1, least + 9_999];
                let other = [0, 600_000, 1_500_000, 2_000_001, 4_000_000, 900_000_000];
                for worth in around.into_iter().chain(other).map(micros) {
                    let want = held_again((&record, &held.inputs), own, is_own, worth);
                    assert_eq!(contest.paid(worth), want, "seed {seed}, bid {own} at {worth}");
                }
            }
        }
    }
    assert!(seen.values().all(|times| *times > 1000) && seen.len() == 2, "{seen:?}");
}

#[test]
fn a_bid_that_won_would_have_won_at_what_it_paid() {
    let (mut won, mut lost) = (0, 0);
    for seed in 0..AUCTIONS {
        let held = held(&Case::drawn(seed));
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        for (at, bid) in record.bids.iter().enumerate() {
            let Ok(contest) = record.contest(at, |_| false) else { continue };
            assert_eq!(Some(contest.imp), bid.imp);
            let paid = bid.worth.and_then(|worth| contest.paid(worth));
            if bid.fate == Fate::Won {
                let sale = record.sales.iter().find(|sale| sale.bid == at).expect("it was sold");
                assert_eq!(paid, Some(sale.price), "seed {seed}, bid {at}");
                won += 1;
            } else if bid.fate != Fate::BudgetExhausted {
                assert_eq!(paid, None, "seed {seed}, bid {at}");
                lost += 1;
            }
        }
    }
    assert!(won > 500 && lost > 500, "{won} {lost}");
}

#[test]
fn where_a_price_decides_nothing_it_is_told_why() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..AUCTIONS {
        let held = held(&Case::drawn(seed));
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        for (at, bid) in record.bids.iter().enumerate() {
            let Err(why) = record.contest(at, |_| false) else { continue };
            *seen.entry(format!("{why:?}")).or_default() += 1;
            let deal = bid.deal.map(|deal| &record.deals[deal]);
            let is_agreed = deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed);
            let is_priced = matches!(bid.fate, Fate::BelowFloor | Fate::BelowDealFloor);
            let is_admitted = (bid.worth.is_some() || is_priced) && bid.barred.is_none();
            match why {
                NoContest::NotAdmitted => assert!(!is_admitted, "seed {seed}: {bid:?}"),
                NoContest::Agreed => assert!(is_admitted && is_agreed, "seed {seed}: {bid:?}"),
                NoContest::InGroup => assert!(bid.group.is_some(), "seed {seed}: {bid:?}"),
                NoContest::Outranked => {
                    let own = (&record, &held.inputs);
                    let most = micros(u64::from(u32::MAX));
                    assert_eq!(held_again(own, at, &|_| false, most), None, "seed {seed}");
                }
            }
        }
    }
    assert!(seen.len() == 4 && seen.values().all(|times| *times > 50), "{seen:?}");
}

/// At second price with an increment of one cent.
#[test]
fn by_hand() {
    let bids = |prices: &[(&str, f64)]| {
        let seat = |(seat, price): &(&str, f64)| {
            let id = format!("{seat}-{price}");
            json!({ "seat": seat, "bid": [bid(json!({ "id": id, "price": price }))] })
        };
        let seats: Vec<_> = prices.iter().map(seat).collect();
        json!({ "id": AUCTION_ID, "cur": "USD", "seatbid": seats }).to_string()
    };
    let check = |own: f64, rivals: &[f64], want: (&str, &[(&str, Option<&str>)])| {
        let rivals: Vec<_> = rivals.iter().map(|price| ("b1", *price)).collect();
        let bodies = vec![(0, bids(&[("a1", own)])), (1, bids(&rivals))];
        let request = request(json!({ "at": 2, "imp": [imp(json!({ "bidfloor": 0.5 }))] }));
        let case = Case { market: market(), request, bodies, bars: false, refuses: u64::MAX };
        let held = held(&case);
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        let contest = record.contest(0, |_| false).expect("its price decides");
        let Contest { least, is_second_price, .. } = contest;
        assert!(is_second_price);
        let (want_least, paid) = want;
        let floor = record.bids[0].floor.expect("it has one");
        let want_least = if want_least == "floor" { floor } else { cpm(want_least) };
        // A hash orders equal bids: one more micro always wins.
        let above = least.micros() - want_least.micros();
        assert!(above <= u64::from(!rivals.is_empty()), "{least} for {want_least}");
        for (worth, price) in paid {
            let price = price.map(|price| if price == "floor" { floor } else { cpm(price) });
            assert_eq!(contest.paid(cpm(worth)), price, "at {worth}");
        }
    };
    check(3.0, &[], ("floor", &[("3", Some("floor")), ("0.4", None)]));
    check(3.0, &[2.0], ("2", &[("3", Some("2.01")), ("2.005", Some("2.005")), ("1.99", None)]));
    // It lost, and would have won with more.
    check(1.0, &[2.0], ("2", &[("1", None), ("2.01", Some("2.01")), ("9", Some("2.01"))]));
    // Below its floor it met no rival.
    check(0.3, &[2.0, 1.0], ("2", &[("0.3", None), ("3", Some("2.01"))]));
}

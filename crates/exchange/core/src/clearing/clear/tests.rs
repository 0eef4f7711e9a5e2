//! The specification's worked numbers, groups, classes and ties.

mod model;
mod properties;

use units::{Cpm, Multiplier, Nanos};

use super::*;
use crate::fixtures::cpm;
use crate::market::tie::{BidIds, TieKey};

const CENT: Cpm = match Cpm::new(10_000) {
    Some(cent) => cent,
    None => Cpm::ZERO,
};

fn entry(imp: usize, dsp: usize, price: &str) -> ClearingEntry {
    ClearingEntry {
        imp,
        seat: Seat { dsp, seat: 0 },
        class: 0,
        auction_type: AuctionType::SecondPrice,
        price: cpm(price),
        floor: Cpm::ZERO,
        tie: dsp as u64,
        group: None,
        is_deal: false,
        barred: None,
    }
}

fn authorised(can_pay: bool) -> Result<(), Fate> {
    if can_pay { Ok(()) } else { Err(BudgetExhausted) }
}

fn in_group(group: usize, entry: ClearingEntry) -> ClearingEntry {
    ClearingEntry { group: Some(group), ..entry }
}

fn group(imps: &[usize]) -> BidGroup {
    BidGroup { imps: imps.to_vec(), possible: true, tie: 0 }
}

#[track_caller]
fn check_one(entries: &[ClearingEntry], want: Option<(usize, &str, &str)>) {
    let clearing = clear(entries, &[], 1, CENT, |_| Ok(()));
    let want = want.map(|(entry, price, min_to_win)| Win {
        entry,
        price: cpm(price),
        min_to_win: cpm(min_to_win),
    });
    assert_eq!(clearing.wins, [want], "{entries:?}");
}

#[track_caller]
fn check_groups(entries: &[ClearingEntry], groups: &[BidGroup], want: &[Fate]) {
    let imps = entries.iter().map(|entry| entry.imp + 1).max().unwrap_or(0);
    assert_eq!(clear(entries, groups, imps, CENT, |_| Ok(())).fates, want, "{entries:?}");
}

use Fate::{BudgetExhausted, GroupIncomplete, LostToDeal, LostToHigherBid, Won};

/// Section 4.4.1: a floor of $0.85, and bids of 1.00, 0.90 and 0.80 (below the floor, so no entry).
#[test]
fn worked_numbers_of_the_specification() {
    let of = |auction_type| {
        [("1", 0), ("0.9", 1)].map(|(price, dsp)| ClearingEntry {
            floor: cpm("0.85"),
            auction_type,
            ..entry(0, dsp, price)
        })
    };
    check_one(&of(AuctionType::FirstPrice), Some((0, "1", "0.9")));
    check_one(&of(AuctionType::SecondPrice), Some((0, "0.91", "0.9")));
    check_one(&of(AuctionType::FirstPrice)[..1], Some((0, "1", "0.85")));
    check_one(&of(AuctionType::SecondPrice)[..1], Some((0, "0.85", "0.85")));
    // Section 7.9.4: 30.3 impressions at a CPM of 2.50 cost $0.07575.
    let multiplier = Multiplier::parse("30.3").unwrap();
    assert_eq!(cpm("2.50").cost(multiplier), Some(Nanos::new(75_750_000)));
}

#[test]
fn second_prices() {
    let floor = |floor: &str, entry| ClearingEntry { floor: cpm(floor), ..entry };
    let seat = |seat, entry: ClearingEntry| ClearingEntry {
        seat: Seat { seat, ..entry.seat },
        tie: 9,
        ..entry
    };
    let two = |low: &str| [entry(0, 0, "3"), entry(0, 1, low)];
    check_one(&[], None);
    check_one(&[entry(0, 0, "3")], Some((0, "0", "0")));
    check_one(&two("2"), Some((0, "2.01", "2")));
    // The increment never raises the price above the bid.
    check_one(&two("2.989999"), Some((0, "2.999999", "2.989999")));
    check_one(&two("2.99"), Some((0, "3", "2.99")));
    check_one(&two("2.995"), Some((0, "3", "2.995")));
    check_one(&two("3"), Some((0, "3", "3")));
    check_one(&[floor("2.5", entry(0, 0, "3")), entry(0, 1, "2")], Some((0, "2.5", "2.5")));
    check_one(&[floor("2.5", entry(0, 0, "3")), entry(0, 1, "2.6")], Some((0, "2.61", "2.6")));
    check_one(&[entry(0, 0, "3"), floor("1", entry(0, 1, "1"))], Some((0, "1.01", "1")));
    // A seat does not compete with itself, but with another seat of its DSP.
    check_one(&[entry(0, 0, "3"), entry(0, 0, "2"), entry(0, 1, "1")], Some((0, "1.01", "1")));
    check_one(&[entry(0, 0, "3"), entry(0, 0, "2")], Some((0, "0", "0")));
    check_one(&[entry(0, 0, "3"), seat(1, entry(0, 0, "2"))], Some((0, "2.01", "2")));
}

#[test]
fn deals_pay_by_their_own_type() {
    let deal = |auction_type, price: &str| ClearingEntry {
        auction_type,
        is_deal: true,
        floor: cpm("1"),
        ..entry(0, 0, price)
    };
    let open = entry(0, 1, "2");
    check_one(&[deal(AuctionType::FirstPrice, "3"), open], Some((0, "3", "2")));
    check_one(&[deal(AuctionType::SecondPrice, "3"), open], Some((0, "2.01", "2")));
    let agreed =
        |price: &str| ClearingEntry { floor: cpm(price), ..deal(AuctionType::Agreed, price) };
    check_one(&[agreed("3"), open], Some((0, "3", "3")));
    check_one(&[agreed("1.5"), open], Some((1, "1.51", "1.5")));
    let first = ClearingEntry { auction_type: AuctionType::FirstPrice, ..open };
    check_one(&[deal(AuctionType::SecondPrice, "3"), first], Some((0, "2.01", "2")));
}

#[test]
fn a_higher_class_wins_and_a_lower_one_sets_no_price() {
    let class = |class, entry| ClearingEntry { class, is_deal: class > 0, ..entry };
    let deal = ClearingEntry { floor: cpm("0.5"), ..class(1, entry(0, 0, "1")) };
    check_one(&[deal, entry(0, 1, "9")], Some((0, "0.5", "0.5")));
    check_one(&[deal, entry(0, 1, "9"), class(1, entry(0, 2, "0.9"))], Some((0, "0.91", "0.9")));
    check_one(&[deal, class(2, entry(0, 1, "0.1"))], Some((1, "0", "0")));
    check_groups(&[deal, entry(0, 1, "9")], &[], &[Won, LostToDeal]);
    check_groups(&[entry(0, 0, "1"), entry(0, 1, "9")], &[], &[LostToHigherBid, Won]);
    check_groups(&[class(0, deal), entry(0, 1, "9")], &[], &[LostToHigherBid, Won]);
}

#[test]
fn groups_win_all_or_none() {
    let pair = |prices: [&str; 2]| {
        [in_group(0, entry(0, 0, prices[0])), in_group(0, entry(1, 0, prices[1]))]
    };
    let [a, b] = pair(["2", "2"]);
    check_groups(&[a, b], &[group(&[0, 1])], &[Won, Won]);
    // A lost impression loses the group; its other impression goes to the next bid.
    let others = [entry(0, 1, "3"), entry(1, 1, "1")];
    check_groups(
        &[a, b, others[0], others[1]],
        &[group(&[0, 1])],
        &[GroupIncomplete, GroupIncomplete, Won, Won],
    );
    check_groups(&[b], &[group(&[1])], &[Won]);
    check_groups(&[a, entry(0, 1, "3")], &[group(&[0])], &[GroupIncomplete, Won]);
    let never = BidGroup { possible: false, ..group(&[0]) };
    check_groups(&[a], std::slice::from_ref(&never), &[GroupIncomplete]);
    check_groups(&[a, entry(0, 1, "1")], &[never], &[GroupIncomplete, Won]);
    // Its own lower bid on an impression that another of its bids wins.
    let twice = [a, b, in_group(0, entry(0, 0, "1"))];
    check_groups(&twice, &[group(&[0, 1])], &[Won, Won, LostToHigherBid]);
}

#[test]
fn the_lowest_incomplete_group_goes_first() {
    // Each misses an impression; without the lower group the higher is complete.
    let one = [in_group(0, entry(0, 0, "5")), in_group(0, entry(1, 0, "1"))];
    let two = [in_group(1, entry(0, 1, "3")), in_group(1, entry(1, 1, "2"))];
    let entries = [one[0], one[1], two[0], two[1]];
    let both = [group(&[0, 1]), group(&[0, 1])];
    check_groups(&entries, &both, &[Won, Won, GroupIncomplete, GroupIncomplete]);
    let entries = [one[0], one[1], two[0], in_group(1, entry(1, 1, "3"))];
    let tied = |first, second| {
        [BidGroup { tie: first, ..group(&[0, 1]) }, BidGroup { tie: second, ..group(&[0, 1]) }]
    };
    check_groups(&entries, &tied(1, 2), &[GroupIncomplete, GroupIncomplete, Won, Won]);
    check_groups(&entries, &tied(2, 1), &[Won, Won, GroupIncomplete, GroupIncomplete]);
    // The total of these bids exceeds 64 bits.
    let many: Vec<ClearingEntry> = (0..20_000)
        .map(|dsp| ClearingEntry { price: Cpm::MAX, ..in_group(0, entry(0, dsp, "1")) })
        .collect();
    let clearing = clear(&many, &[group(&[0, 1])], 2, CENT, |_| Ok(()));
    assert!(clearing.fates.iter().all(|fate| *fate == GroupIncomplete));
}

#[test]
fn a_refused_bid_is_as_if_it_had_never_been() {
    let refusing = |refused: usize| move |win: &Win| authorised(win.entry != refused);
    let entries = [entry(0, 0, "3"), entry(0, 1, "2"), entry(0, 2, "1")];
    let clearing = clear(&entries, &[], 1, CENT, refusing(0));
    assert_eq!(clearing.fates, [BudgetExhausted, Won, LostToHigherBid]);
    assert_eq!(clearing.wins[0].map(|win| win.price), Some(cpm("1.01")));
    // A group that lost to it gets another chance.
    let entries = [entry(0, 0, "9"), in_group(0, entry(0, 1, "2")), in_group(0, entry(1, 1, "2"))];
    let clearing = clear(&entries, &[group(&[0, 1])], 2, CENT, refusing(0));
    assert_eq!(clearing.fates, [BudgetExhausted, Won, Won]);
    let entries = [in_group(0, entry(0, 1, "2")), in_group(0, entry(1, 1, "2")), entry(0, 0, "1")];
    let clearing = clear(&entries, &[group(&[0, 1])], 2, CENT, refusing(1));
    assert_eq!(clearing.fates, [GroupIncomplete, BudgetExhausted, Won]);
    let clearing = clear(&entries, &[group(&[0, 1])], 2, CENT, |_| authorised(false));
    assert_eq!(clearing.fates, [BudgetExhausted, GroupIncomplete, BudgetExhausted]);
    assert_eq!(clearing.wins, [None, None]);
}

/// If refused only when it wins, a bid could still set the price of another that a group brings in.
#[test]
fn a_barred_bid_is_out_before_anything_clears() {
    let barred = |entry| ClearingEntry { barred: Some(Fate::NoMarkup), ..entry };
    let entries = [
        barred(entry(0, 0, "9")),
        barred(entry(1, 0, "1.5")),
        in_group(0, entry(0, 1, "2")),
        in_group(0, entry(1, 1, "2")),
        entry(1, 2, "1"),
    ];
    let clearing = clear(&entries, &[group(&[0, 1])], 2, CENT, |win| {
        assert!(win.entry > 1, "nobody asks about the barred");
        Ok(())
    });
    assert_eq!(clearing.fates, [Fate::NoMarkup, Fate::NoMarkup, Won, Won, LostToHigherBid]);
    let prices: Vec<_> = clearing.wins.iter().map(|win| win.map(|win| win.price)).collect();
    assert_eq!(prices, [Some(cpm("0")), Some(cpm("1.01"))]);
    let entries = [barred(in_group(0, entry(0, 1, "2"))), in_group(0, entry(1, 1, "2"))];
    check_groups(&entries, &[group(&[0, 1])], &[Fate::NoMarkup, GroupIncomplete]);
}

#[test]
fn a_winner_is_authorised_once_at_each_price() {
    let first = |entry| ClearingEntry { auction_type: AuctionType::FirstPrice, ..entry };
    // The refusal on impression 1 removes the group, and with it the rival on impression 0.
    let entries = [
        entry(0, 0, "5"),
        first(entry(1, 0, "5")),
        in_group(0, entry(0, 1, "2")),
        in_group(0, entry(2, 1, "2")),
        entry(2, 2, "9"),
        entry(1, 2, "1"),
    ];
    let mut asked = Vec::new();
    let clearing = clear(&entries, &[group(&[0, 2])], 3, CENT, |win| {
        asked.push((win.entry, win.price));
        authorised(win.entry != 4)
    });
    assert_eq!(clearing.fates[4], BudgetExhausted);
    // Alone, then with the group as its rival: twice, because the price has changed.
    let want = [(0, "0"), (1, "5"), (4, "0"), (0, "0")].map(|(entry, price)| (entry, cpm(price)));
    assert_eq!(asked[..3], want[..3]);
    for (index, ask) in asked.iter().enumerate() {
        assert!(!asked[..index].contains(ask), "{asked:?}");
    }
}

/// Three seats of different DSPs always bid the same: each should win a third.
#[test]
fn ties_are_fair_and_independent_of_order() {
    let key = TieKey::new([42; 16]);
    let rounds = 3_000;
    let mut wins = [0; 3];
    for auction in 0..rounds {
        let auction = format!("auction-{auction}");
        let entries = [0, 1, 2].map(|dsp| {
            let ids = BidIds { dsp: ["x", "y", "z"][dsp], seat: "s", bid: "1" };
            // Different DSPs may use the same seat and bid ids.
            ClearingEntry { tie: key.rank(&auction, "1", ids), ..entry(0, dsp, "1") }
        });
        let winner = |entries: &[ClearingEntry]| {
            let clearing = clear(entries, &[], 1, CENT, |_| Ok(()));
            entries[clearing.wins[0].unwrap().entry].seat.dsp
        };
        let dsp = winner(&entries);
        wins[dsp] += 1;
        for [a, b, c] in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(winner(&[entries[a], entries[b], entries[c]]), dsp);
        }
    }
    // Four standard deviations: 4·√(3000·⅓·⅔) is 103.
    assert!(wins.iter().all(|wins| (897..=1103).contains(wins)), "{wins:?}");
}

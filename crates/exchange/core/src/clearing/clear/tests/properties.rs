//! Properties of any auction, drawn at random, and agreement with the model.

use proptest::prelude::*;

use super::model::model;
use super::*;

#[derive(Clone, Debug)]
struct Drawn {
    entries: Vec<ClearingEntry>,
    groups: Vec<BidGroup>,
    imps: usize,
    increment: Cpm,
    cannot_pay: Vec<bool>,
}

impl Drawn {
    fn clear(&self) -> Clearing {
        let authorise = |win: &Win| authorised(!self.cannot_pay[win.entry]);
        clear(&self.entries, &self.groups, self.imps, self.increment, authorise)
    }

    fn without(&self, gone: usize) -> Self {
        let mut drawn = self.clone();
        drawn.entries.remove(gone);
        drawn.cannot_pay.remove(gone);
        drawn
    }
}

/// A few different prices, so that some are equal, including extremes.
fn prices() -> impl Strategy<Value = (Cpm, Cpm)> {
    let low = (1u64..12, 0u64..12).prop_map(|(price, floor)| (price, floor.min(price)));
    let max = Cpm::MAX.micros();
    let high =
        (0u64..4, 0u64..4).prop_map(move |(below, floor)| (max - below, max - below - floor));
    prop_oneof![8 => low, 1 => high]
        .prop_map(|(price, floor)| (Cpm::new(price).unwrap(), Cpm::new(floor).unwrap()))
}

fn entries(imps: usize, bids: usize) -> impl Strategy<Value = Vec<ClearingEntry>> {
    let types = prop_oneof![
        3 => Just(AuctionType::SecondPrice),
        1 => Just(AuctionType::FirstPrice),
        1 => Just(AuctionType::Agreed),
    ];
    let seat = (0usize..3, 0usize..2).prop_map(|(dsp, seat)| Seat { dsp, seat });
    let class = prop_oneof![4 => Just(0u8), 1 => Just(1)];
    let one = (0..imps, seat, class, types, prices(), any::<u32>());
    prop::collection::vec(one, 0..bids).prop_map(|drawn| {
        let entry = |(index, (imp, seat, class, auction_type, (price, floor), tie))| {
            let is_agreed = auction_type == AuctionType::Agreed;
            ClearingEntry {
                imp,
                seat,
                class,
                auction_type,
                price,
                floor: if is_agreed { price } else { floor },
                // Unique: the position is in the low bits.
                tie: u64::from(tie) << 8 | index as u64,
                group: None,
                is_deal: class > 0 || is_agreed,
                barred: None,
            }
        };
        drawn.into_iter().enumerate().map(entry).collect()
    })
}

fn single() -> impl Strategy<Value = Drawn> {
    (entries(1, 8), 0u64..3).prop_map(|(entries, increment)| Drawn {
        cannot_pay: vec![false; entries.len()],
        entries,
        groups: Vec::new(),
        imps: 1,
        increment: Cpm::new(increment).unwrap(),
    })
}

/// Up to three impressions, with groups, some of which include impressions they do not bid on.
fn several() -> impl Strategy<Value = Drawn> {
    let memberships = prop::collection::vec(prop::option::of(0usize..3), 12);
    let more =
        prop::collection::vec((prop::option::weighted(0.2, 0usize..3), any::<u8>(), 0u64..2), 3);
    let cannot_pay = prop::collection::vec(prop::bool::weighted(0.25), 12);
    let parts = (entries(3, 12), memberships, more, cannot_pay, 0u64..3);
    parts.prop_map(|(mut entries, memberships, more, mut cannot_pay, increment)| {
        for (entry, group) in entries.iter_mut().zip(memberships) {
            entry.group = group;
        }
        let group = |(index, (extra, odds, tie)): (usize, (Option<usize>, u8, u64))| {
            let own = entries.iter().filter(|entry| entry.group == Some(index));
            let imps = own.map(|entry| entry.imp).chain(extra).collect();
            BidGroup { imps, possible: odds > 25, tie: tie << 2 | index as u64 }
        };
        let groups = more.into_iter().enumerate().map(group).collect();
        cannot_pay.truncate(entries.len());
        let increment = Cpm::new(increment).unwrap();
        Drawn { entries, groups, imps: 3, increment, cannot_pay }
    })
}

fn check(drawn: &Drawn) -> Result<(), TestCaseError> {
    let Drawn { entries, groups, imps, increment, cannot_pay } = drawn;
    let clearing = drawn.clear();
    let outcome = model(entries, groups, *imps, *increment, cannot_pay);
    let wins: Vec<_> =
        clearing.wins.iter().map(|win| win.map(|win| (win.entry, win.price.micros()))).collect();
    prop_assert_eq!(&wins, &outcome.wins);
    for (index, (entry, fate)) in entries.iter().zip(&clearing.fates).enumerate() {
        let win = clearing.wins[entry.imp];
        let want = match win {
            _ if outcome.refused[index] => BudgetExhausted,
            _ if outcome.with_group[index] => GroupIncomplete,
            Some(win) if win.entry == index => Won,
            Some(win) if entries[win.entry].is_deal => LostToDeal,
            _ => LostToHigherBid,
        };
        prop_assert_eq!(*fate, want, "entry {}", index);
    }
    for (imp, win) in clearing.wins.iter().enumerate() {
        let Some(win) = win else { continue };
        let entry = &entries[win.entry];
        prop_assert_eq!(entry.imp, imp);
        prop_assert!(entry.floor <= win.price && win.price <= entry.price);
        prop_assert!(entry.floor <= win.min_to_win && win.min_to_win <= entry.price);
        prop_assert!(!cannot_pay[win.entry]);
    }
    for (index, group) in groups.iter().enumerate() {
        let won = |imp: &usize| {
            clearing.wins[*imp].is_some_and(|win| entries[win.entry].group == Some(index))
        };
        let any = (0..*imps).any(|imp| won(&imp));
        prop_assert!(!any || (group.possible && group.imps.iter().all(won)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_model_agrees_on_one_impression(drawn in single()) {
        check(&drawn)?;
    }

    #[test]
    fn the_model_agrees_on_several_with_groups_and_refusals(drawn in several()) {
        check(&drawn)?;
    }

    #[test]
    fn order_of_arrival_plays_no_part(
        drawn in several(), keys in prop::collection::vec(any::<u32>(), 12),
    ) {
        let mut order: Vec<usize> = (0..drawn.entries.len()).collect();
        order.sort_by_key(|index| keys[*index]);
        let shuffled = Drawn {
            entries: order.iter().map(|index| drawn.entries[*index]).collect(),
            cannot_pay: order.iter().map(|index| drawn.cannot_pay[*index]).collect(),
            ..drawn.clone()
        };
        let (before, after) = (drawn.clear(), shuffled.clear());
        for (position, index) in order.iter().enumerate() {
            prop_assert_eq!(before.fates[*index], after.fates[position]);
        }
        let named = |drawn: &Drawn, clearing: &Clearing| -> Vec<Option<(ClearingEntry, Cpm, Cpm)>> {
            let name = |win: &Win| (drawn.entries[win.entry], win.price, win.min_to_win);
            clearing.wins.iter().map(|win| win.as_ref().map(name)).collect()
        };
        prop_assert_eq!(named(&drawn, &before), named(&shuffled, &after));
    }

    #[test]
    fn a_losing_bid_less_never_raises_the_price(drawn in single()) {
        let Some(win) = drawn.clear().wins[0] else { return Ok(()) };
        for loser in (0..drawn.entries.len()).filter(|index| *index != win.entry) {
            let fewer = drawn.without(loser).clear().wins[0].unwrap();
            prop_assert_eq!(fewer.entry, win.entry - usize::from(loser < win.entry));
            prop_assert!(fewer.price <= win.price && fewer.min_to_win <= win.min_to_win);
        }
    }

    #[test]
    fn the_refused_set_no_price(drawn in several()) {
        let mut asked = Vec::new();
        let (entries, groups) = (&drawn.entries, &drawn.groups);
        let clearing = clear(entries, groups, drawn.imps, drawn.increment, |win| {
            asked.push(win.entry);
            authorised(!drawn.cannot_pay[win.entry])
        });
        let mut left = drawn.clone();
        for index in (0..entries.len()).rev() {
            let was_refused = drawn.cannot_pay[index] && asked.contains(&index);
            prop_assert_eq!(clearing.fates[index] == BudgetExhausted, was_refused);
            if was_refused {
                left = left.without(index);
            }
        }
        let prices = |clearing: &Clearing| -> Vec<Option<Cpm>> {
            clearing.wins.iter().map(|win| win.as_ref().map(|win| win.price)).collect()
        };
        prop_assert_eq!(prices(&clearing), prices(&left.clear()));
    }

    /// A winner pays its last authorised price, and is not asked twice in a row for the same price.
    #[test]
    fn every_win_is_authorised_at_its_price(drawn in several()) {
        let mut last = vec![None; drawn.entries.len()];
        let mut was_same = false;
        let (entries, groups) = (&drawn.entries, &drawn.groups);
        let clearing = clear(entries, groups, drawn.imps, drawn.increment, |win| {
            was_same |= last[win.entry].replace(win.price) == Some(win.price);
            authorised(!drawn.cannot_pay[win.entry])
        });
        prop_assert!(!was_same);
        for win in clearing.wins.iter().flatten() {
            prop_assert_eq!(last[win.entry], Some(win.price));
        }
    }
}

//! A naive model of clearing, which looks at every bid for every question.

use super::*;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// By impression: the winner and its price in micros.
    pub(super) wins: Vec<Option<(usize, u64)>>,
    pub(super) refused: Vec<bool>,
    pub(super) with_group: Vec<bool>,
}

fn beats(a: &ClearingEntry, b: &ClearingEntry) -> bool {
    if a.class != b.class {
        return a.class > b.class;
    }
    if a.price != b.price {
        return a.price > b.price;
    }
    a.tie < b.tie
}

fn best(entries: &[ClearingEntry], imp: usize, out: &[bool]) -> Option<usize> {
    (0..entries.len()).find(|mine| {
        let is_in = |index: usize| !out[index] && entries[index].imp == imp;
        is_in(*mine)
            && (0..entries.len()).all(|other| {
                other == *mine || !is_in(other) || beats(&entries[*mine], &entries[other])
            })
    })
}

fn pays(entries: &[ClearingEntry], winner: usize, out: &[bool], increment: u64) -> u64 {
    let mine = &entries[winner];
    let bid = mine.price.micros();
    if mine.auction_type != AuctionType::SecondPrice {
        return bid;
    }
    let mut second = 0;
    for (index, other) in entries.iter().enumerate() {
        let counts = !out[index]
            && other.imp == mine.imp
            && other.seat != mine.seat
            && other.class == mine.class;
        if counts && other.price.micros() + increment > second {
            second = other.price.micros() + increment;
        }
    }
    let at_least = if second > mine.floor.micros() { second } else { mine.floor.micros() };
    if at_least > bid { bid } else { at_least }
}

/// The group to remove next: the lowest total among those that miss a win.
fn falls(
    entries: &[ClearingEntry],
    groups: &[BidGroup],
    wins: &[Option<usize>],
    out: &[bool],
) -> Option<usize> {
    let mut lowest: Option<(u128, u64, usize)> = None;
    for (index, group) in groups.iter().enumerate() {
        let mut total = 0u128;
        let mut left = false;
        for (position, entry) in entries.iter().enumerate() {
            if entry.group == Some(index) && !out[position] {
                total += u128::from(entry.price.micros());
                left = true;
            }
        }
        let mut complete = group.possible;
        for imp in &group.imps {
            complete &= wins[*imp].is_some_and(|winner| entries[winner].group == Some(index));
        }
        let this = (total, group.tie, index);
        if left && !complete && lowest.is_none_or(|lowest| this < lowest) {
            lowest = Some(this);
        }
    }
    lowest.map(|(_, _, index)| index)
}

pub(super) fn model(
    entries: &[ClearingEntry],
    groups: &[BidGroup],
    imps: usize,
    increment: Cpm,
    cannot_pay: &[bool],
) -> Outcome {
    let mut refused = vec![false; entries.len()];
    loop {
        // Starts again, as if refused bids did not exist.
        let mut with_group = vec![false; entries.len()];
        let (wins, out) = loop {
            let out: Vec<bool> = refused
                .iter()
                .zip(&with_group)
                .map(|(refused, group)| *refused || *group)
                .collect();
            let wins: Vec<Option<usize>> = (0..imps).map(|imp| best(entries, imp, &out)).collect();
            let Some(group) = falls(entries, groups, &wins, &out) else { break (wins, out) };
            for (index, entry) in entries.iter().enumerate() {
                with_group[index] |= entry.group == Some(group) && !out[index];
            }
        };
        if let Some(winner) = wins.iter().flatten().find(|winner| cannot_pay[**winner]) {
            refused[*winner] = true;
            continue;
        }
        let priced = |winner: usize| (winner, pays(entries, winner, &out, increment.micros()));
        let wins = wins.into_iter().map(|winner| winner.map(priced)).collect();
        return Outcome { wins, refused, with_group };
    }
}

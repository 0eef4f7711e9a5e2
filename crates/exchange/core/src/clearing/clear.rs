//! Clearing: who wins each impression, at what price. Integers only.
//!
//! Bids have passed all their own checks, with prices in the auction's currency. Their order plays
//! no part.

use units::Cpm;

use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;

/// A bidder. Seats belong to one DSP: the same name at two DSPs is two seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Position of the DSP in the market.
    pub dsp: usize,
    /// Position of the seat among the DSP's.
    pub seat: usize,
}

/// A bid that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearingEntry {
    /// The impression, by position.
    pub imp: usize,
    /// The bidder.
    pub seat: Seat,
    /// Higher classes win over lower ones at any price; open bids have 0.
    pub class: u8,
    /// How its price is set if it wins.
    pub auction_type: AuctionType,
    /// Its value in the auction's currency; under [`AuctionType::Agreed`] the agreed price.
    pub price: Cpm,
    /// Its floor, at most `price`.
    pub floor: Cpm,
    /// Orders equal bids, lowest first.
    pub tie: u64,
    /// Its group, by position.
    pub group: Option<usize>,
    /// Whether it is under a deal.
    pub is_deal: bool,
    /// Why it is out before the auction clears ([`crate::Judgement::bar`]).
    pub barred: Option<Fate>,
}

/// Bids that win every impression they are for, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BidGroup {
    /// The impressions it must win.
    pub imps: Vec<usize>,
    /// Whether it can win at all: not if it includes an impression that is not on sale.
    pub possible: bool,
    /// Orders groups with equal totals; the lowest is removed first.
    pub tie: u64,
}

/// A won impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    /// The winner, by position among the entries.
    pub entry: usize,
    /// The clearing price: gross, in the auction's currency.
    pub price: Cpm,
    /// Lowest bid that would have tied with the next, or the floor: `${AUCTION_MIN_TO_WIN}`.
    pub min_to_win: Cpm,
}

/// The result of clearing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// Winners, by impression.
    pub wins: Vec<Option<Win>>,
    /// Bids returned with the winners ([`Fate::Offered`]), by impression and rank.
    pub also_returned: Vec<Win>,
    /// Fates, by entry. While bids clear, [`Fate::Won`] is the fate of all that are still in.
    pub fates: Vec<Fate>,
}

impl Clearing {
    /// The fate of a bid with this [`entry`](crate::JudgedBid::entry).
    pub fn fate(&self, entry: Result<usize, Fate>) -> Fate {
        entry.map_or_else(|fate| fate, |entry| self.fates[entry])
    }

    /// All returned bids: each winner, then those returned with it. `entries` are the cleared ones.
    pub(crate) fn returned(&self, entries: &[ClearingEntry]) -> Vec<&Win> {
        let mut returned = Vec::with_capacity(self.wins.len() + self.also_returned.len());
        for win in self.wins.iter().flatten() {
            let imp = entries[win.entry].imp;
            returned.push(win);
            // Already by impression and rank.
            returned.extend(self.also_returned.iter().filter(|win| entries[win.entry].imp == imp));
        }
        returned
    }
}

/// Clears `imps` impressions.
///
/// `authorise` is called for each winner at its price. A refused bid gets the returned fate, is out
/// and sets no price, and the auction clears again without it. An authorised bid may win at another
/// price, for which `authorise` is called again: the last result counts. It may also lose: the
/// caller releases what is not in the result. Barred bids are out from the start.
///
/// Groups (`seatbid.group`): the auction clears as if there were none. While a group misses one of
/// its impressions, the one with the lowest total is removed and the auction clears again.
pub fn clear(
    entries: &[ClearingEntry],
    groups: &[BidGroup],
    imps: usize,
    increment: Cpm,
    mut authorise: impl FnMut(&Win) -> Result<(), Fate>,
) -> Clearing {
    let open = |entry: &ClearingEntry| entry.barred.unwrap_or(Fate::Won);
    let mut clearing = Clearing {
        wins: vec![None; imps],
        also_returned: Vec::new(),
        fates: entries.iter().map(open).collect(),
    };
    let ranked = ranking(entries, imps);
    // The price of each entry's last authorisation. Records number refusals by the calls of
    // `authorise`, so it is not called again for the same price.
    let mut authorised: Vec<(usize, Cpm)> = Vec::new();
    'again: loop {
        clear_with_groups(entries, groups, &ranked, increment, &mut clearing);
        for win in clearing.wins.iter().flatten() {
            if authorised.contains(&(win.entry, win.price)) {
                continue;
            }
            authorised.retain(|(entry, _)| *entry != win.entry);
            if let Err(fate) = authorise(win) {
                clearing.fates[win.entry] = fate;
                reopen_groups(&mut clearing.fates);
                continue 'again;
            }
            authorised.push((win.entry, win.price));
        }
        break;
    }
    assign_lost_fates(entries, &mut clearing);
    clearing.assert_sound(entries);
    clearing
}

pub(crate) fn ranking(entries: &[ClearingEntry], imps: usize) -> Vec<Vec<usize>> {
    let mut ranked = vec![Vec::new(); imps];
    for (index, entry) in entries.iter().enumerate() {
        ranked[entry.imp].push(index);
    }
    for bids in &mut ranked {
        bids.sort_unstable_by_key(|index| entries[*index].rank());
    }
    ranked
}

impl ClearingEntry {
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        // The seat breaks ties of the 64-bit hash.
        (std::cmp::Reverse((self.class, self.price)), self.tie, self.seat)
    }
}

/// Clears the entries whose fate is still open ([`Fate::Won`]), until every group is complete.
fn clear_with_groups(
    entries: &[ClearingEntry],
    groups: &[BidGroup],
    ranked: &[Vec<usize>],
    increment: Cpm,
    clearing: &mut Clearing,
) {
    loop {
        for (imp, bids) in ranked.iter().enumerate() {
            clearing.wins[imp] = winner(entries, bids, increment, &clearing.fates);
        }
        let Some(out) = lowest_incomplete(entries, groups, clearing) else { return };
        for (entry, fate) in entries.iter().zip(&mut clearing.fates) {
            if entry.group == Some(out) && *fate == Fate::Won {
                *fate = Fate::GroupIncomplete;
            }
        }
    }
}

/// Gives groups another chance that were removed when a bid that is now out was in.
fn reopen_groups(fates: &mut [Fate]) {
    for fate in fates {
        if *fate == Fate::GroupIncomplete {
            *fate = Fate::Won;
        }
    }
}

fn winner(
    entries: &[ClearingEntry],
    bids: &[usize],
    increment: Cpm,
    fates: &[Fate],
) -> Option<Win> {
    let (index, rival) = leader(entries, bids, fates)?;
    Some(priced(entries, index, rival, increment))
}

/// The best open bid of the ranked `bids`, and the best of another seat in its class, which sets
/// the price.
pub(crate) fn leader(
    entries: &[ClearingEntry],
    bids: &[usize],
    fates: &[Fate],
) -> Option<(usize, Option<usize>)> {
    let mut open = bids.iter().copied().filter(|index| fates[*index] == Fate::Won);
    let index = open.next()?;
    let best = &entries[index];
    let other = open.find(|other| entries[*other].seat != best.seat);
    Some((index, other.filter(|other| entries[*other].class == best.class)))
}

pub(crate) fn priced(
    entries: &[ClearingEntry],
    index: usize,
    rival: Option<usize>,
    increment: Cpm,
) -> Win {
    let best = &entries[index];
    let rival = rival.map(|rival| entries[rival].price);
    let price = match best.auction_type {
        AuctionType::FirstPrice | AuctionType::Agreed => best.price,
        AuctionType::SecondPrice => {
            let second = rival.map_or(Cpm::ZERO, |rival| rival.saturating_add(increment));
            best.price.min(best.floor.max(second))
        }
    };
    Win { entry: index, price, min_to_win: rival.unwrap_or(best.floor).max(best.floor) }
}

/// The group with the lowest total among those that have bids left and miss a win.
fn lowest_incomplete(
    entries: &[ClearingEntry],
    groups: &[BidGroup],
    clearing: &Clearing,
) -> Option<usize> {
    if groups.is_empty() {
        return None;
    }
    // Of the remaining bids; 128 bits suffice for any number of bids.
    let mut totals: Vec<Option<u128>> = vec![None; groups.len()];
    for (entry, fate) in entries.iter().zip(&clearing.fates) {
        if let (Some(group), Fate::Won) = (entry.group, fate) {
            *totals[group].get_or_insert(0) += u128::from(entry.price.micros());
        }
    }
    let misses = |group: usize| {
        let wins = |imp: &usize| {
            let win = clearing.wins[*imp].as_ref();
            win.is_some_and(|win| entries[win.entry].group == Some(group))
        };
        !groups[group].possible || !groups[group].imps.iter().all(wins)
    };
    let left = totals.iter().enumerate().filter_map(|(group, total)| Some((group, (*total)?)));
    let incomplete = left.filter(|(group, _)| misses(*group));
    let lowest = incomplete.min_by_key(|(group, total)| (*total, groups[*group].tie));
    lowest.map(|(group, _)| group)
}

fn assign_lost_fates(entries: &[ClearingEntry], clearing: &mut Clearing) {
    for (index, entry) in entries.iter().enumerate() {
        if clearing.fates[index] != Fate::Won {
            continue;
        }
        let win = clearing.wins[entry.imp].expect("an impression with a bid left has a winner");
        if win.entry != index {
            let to_deal = entries[win.entry].is_deal;
            clearing.fates[index] = if to_deal { Fate::LostToDeal } else { Fate::LostToHigherBid };
        }
    }
}

impl Clearing {
    /// Checks what must be true of money, whatever was bid.
    fn assert_sound(&self, entries: &[ClearingEntry]) {
        for (imp, win) in self.wins.iter().enumerate() {
            let Some(win) = win else { continue };
            let entry = &entries[win.entry];
            assert!(entry.imp == imp, "a winner bid on what it wins");
            assert!(win.price <= entry.price, "a winner pays at most its bid");
            assert!(win.price >= entry.floor, "a winner pays at least its floor");
        }
    }
}

#[cfg(test)]
mod tests;

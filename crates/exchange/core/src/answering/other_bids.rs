//! Bids returned with the winner, for a caller that runs another auction. Does not price them.

use super::win_markup::is_out_of_reach as markup_is_out_of_reach;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::clearing::clear::{Clearing, ClearingEntry, Win};
use crate::judging::judge::Judgement;
use crate::market::{BidsReturned, NoticeMode};

/// Most bids returned per impression, including the winner's.
pub const BIDS_RETURNED_MAX: usize = 3;

/// Returns up to [`BIDS_RETURNED_MAX`] − 1 losers per impression to the caller, best first, if the
/// publisher's terms say so: each at its own price, with [`Fate::Offered`].
///
/// Winner and loser must pay first prices, because a second price is undefined next to another
/// winner. Bids of groups are returned only as winners. `authorise` is called as for a winner; a
/// refused bid gets the returned fate, and the next one is tried.
pub fn offer_others(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    clearing: &mut Clearing,
    authorise: impl FnMut(&Win) -> Result<(), Fate>,
) {
    if returns_others(auction) {
        let is_out_of_reach =
            |entry| markup_is_out_of_reach(auction, judgement, judgement.bid_of(entry));
        offer_losers(&judgement.entries, clearing, is_out_of_reach, authorise);
    }
}

pub(crate) fn returns_others(auction: &Auction<'_>) -> bool {
    let terms = auction.publisher_terms();
    terms.notices == NoticeMode::Upstream && terms.bids == BidsReturned::All
}

/// [`offer_others`], whatever the terms. `is_out_of_reach` is true if an entry's ad is served on a
/// win notice that must not be called.
pub(crate) fn offer_losers(
    entries: &[ClearingEntry],
    clearing: &mut Clearing,
    is_out_of_reach: impl Fn(usize) -> bool,
    mut authorise: impl FnMut(&Win) -> Result<(), Fate>,
) {
    for imp in 0..clearing.wins.len() {
        let Some(win) = clearing.wins[imp] else { continue };
        if entries[win.entry].auction_type != AuctionType::FirstPrice {
            continue;
        }
        let mut left = BIDS_RETURNED_MAX - 1;
        for (index, entry) in ranked_losers(entries, clearing, imp) {
            if left == 0 {
                break;
            }
            if is_out_of_reach(index) {
                continue;
            }
            let win = Win { entry: index, price: entry.price, min_to_win: win.price };
            clearing.fates[index] = match authorise(&win) {
                Ok(()) => {
                    clearing.also_returned.push(win);
                    left -= 1;
                    Fate::Offered
                }
                Err(fate) => fate,
            };
        }
    }
}

fn ranked_losers<'e>(
    entries: &'e [ClearingEntry],
    clearing: &Clearing,
    imp: usize,
) -> Vec<(usize, &'e ClearingEntry)> {
    let entries = entries.iter().enumerate();
    let may_be_returned = |(index, entry): &(usize, &ClearingEntry)| {
        entry.imp == imp
            && entry.group.is_none()
            && entry.auction_type == AuctionType::FirstPrice
            && matches!(clearing.fates[*index], Fate::LostToHigherBid | Fate::LostToDeal)
    };
    let mut losers: Vec<_> = entries.filter(may_be_returned).collect();
    losers.sort_unstable_by_key(|(_, entry)| entry.rank());
    losers
}

#[cfg(test)]
mod tests;

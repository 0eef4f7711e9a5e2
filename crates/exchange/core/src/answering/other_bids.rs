//! Bids returned beside the winner, for a caller who holds another auction. What each of them is
//! worth to whom is not decided here.

use super::win_markup::is_out_of_reach as markup_is_out_of_reach;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::clearing::clear::{Clearing, ClearingEntry, Win};
use crate::judging::judge::Judgement;
use crate::market::{BidsReturned, NoticeMode};

/// Most bids that one impression is answered with, the winner's among them.
pub const BIDS_RETURNED_MAX: usize = 3;

/// Takes up to [`BIDS_RETURNED_MAX`] − 1 losers of each impression back in, the best first, where
/// the publisher's terms say so: each at its own price, with [`Fate::Offered`].
///
/// Only where the winner pays a first price, and only bids that would: a second price has no
/// meaning beside another winner. A bid of a group is returned as a winner or not at all, for its
/// group is complete with its winners alone. `authorise` is asked of each, as of a winner; one it
/// refuses has the fate that it says, and the next is taken.
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

/// Whether the publisher's terms allow for bids beside the winner.
pub(crate) fn returns_others(auction: &Auction<'_>) -> bool {
    let terms = auction.publisher_terms();
    terms.notices == NoticeMode::Upstream && terms.bids == BidsReturned::All
}

/// The same where the terms allow it. `is_out_of_reach` says of an entry whether its ad is served
/// on a win notice that must not be called.
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
            let offer = Win { entry: index, price: entry.price, min_to_win: win.price };
            clearing.fates[index] = match authorise(&offer) {
                Ok(()) => {
                    clearing.offered.push(offer);
                    left -= 1;
                    Fate::Offered
                }
                Err(fate) => fate,
            };
        }
    }
}

/// Bids on `imp` that lost to its winner and may be returned beside it, the best first.
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

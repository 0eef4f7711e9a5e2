//! Prices of a returned bid for the caller, the DSP and us.

use units::{Cpm, Nanos};

use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::{Clearing, Seat, Win};
use crate::clearing::pricing::SalePrices;
use crate::judging::judge::Judgement;

/// A bid that is returned to the caller, with its prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The bid, by position in the judgement.
    pub bid: usize,
    /// The impression, by position.
    pub imp: usize,
    /// [`Fate::Won`], or [`Fate::Offered`] if it is returned in addition to the winner.
    pub fate: Fate,
    /// The price in the response: the clearing price less our fee, in the auction's currency.
    pub net: Cpm,
    /// What the DSP pays, in the currency of its bid.
    pub paid: Cpm,
    /// The price that ties with the next bid or the winner, in the bid's currency before its
    /// discount.
    pub min_to_win: Option<Cpm>,
    /// What the DSP owes for all impressions of one display, in the market's currency.
    pub revenue: Nanos,
}

/// Prices every win and every other returned bid. `clearing` is of `judgement`'s entries.
pub fn sales(auction: &Auction<'_>, judgement: &Judgement<'_>, clearing: &Clearing) -> Vec<Sale> {
    let returned = clearing.returned(&judgement.entries);
    returned.into_iter().map(|win| sale(auction, judgement, clearing, win)).collect()
}

pub(crate) fn sale(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    clearing: &Clearing,
    win: &Win,
) -> Sale {
    let entry = &judgement.entries[win.entry];
    let bid = judgement.bid_of(win.entry);
    let terms = judgement.bids[bid].terms(auction).expect("a winner is for an impression");
    let fate = clearing.fates[win.entry];
    let prices = terms.prices(auction.currencies(), &judgement.entries, clearing, win);
    let prices = prices.expect("what was converted from the bid's currency converts back");
    let SalePrices { net, paid, min_to_win, revenue } = prices;
    assert!(paid <= terms.discounted_price, "conversion never charges above the bid");
    Sale { bid, imp: entry.imp, fate, net, paid, min_to_win, revenue }
}

pub(crate) fn seat_name<'m>(auction: &Auction<'m>, seat: Seat) -> &'m str {
    &auction.market.dsps[seat.dsp].seats[seat.seat]
}

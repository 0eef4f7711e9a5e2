//! The amount that a winner's account must have.

use units::{Currency, Nanos, Rounding};

use super::judge::Judgement;
use crate::auction::Auction;
use crate::clearing::clear::Win;
use crate::market::lifetimes::Lifetimes;

/// The cost of a win to its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WinCost {
    /// The winner's bid, by position in the judgement.
    pub bid: usize,
    /// For all impressions of one display, in the requested currency.
    pub amount: Nanos,
    /// Seconds after the auction within which it may be billed.
    pub billable_s: u32,
}

/// The cost of `win` in `currency`: the price of a sold deal if that is in the currency, what the
/// DSP pays if its bid is, else the clearing price converted up, so that an account never pays too
/// little. None without a rate or on overflow.
pub fn win_cost(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    win: &Win,
    currency: Currency,
    lifetimes: &Lifetimes,
) -> Option<WinCost> {
    let entry = &judgement.entries[win.entry];
    let bid = judgement.bid_of(win.entry);
    let judged = &judgement.bids[bid];
    let terms = judged.terms(auction).expect("a winner is for an impression");
    let currencies = auction.currencies();
    let sold = judged.sold_deal(auction).map(|sold| auction.market.sold[sold].price);
    let price = if let Some(agreed) = sold.filter(|agreed| agreed.currency == currency) {
        // Exactly what was sold, without two conversions.
        Some(agreed.amount)
    } else if terms.currency == currency {
        terms.paid(currencies, entry, win.price)
    } else {
        currencies.rates.convert(win.price, auction.currency, currency, Rounding::Up)
    };
    let imp = auction.imps[entry.imp].imp;
    Some(WinCost {
        bid,
        amount: price?.cost(terms.multiplier)?,
        billable_s: lifetimes.seconds(auction.request, imp, judged.formats),
    })
}

#[cfg(test)]
mod tests;

//! What a win is worth to whom: arithmetic over terms that an auction, or the record of one, holds.
//! Who wins is not decided here.

use std::cmp::Ordering;

use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Rounding};

use super::clear::{ClearingEntry, Win};
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::market::rates::Currencies;

/// What a bid is priced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidTerms {
    /// The currency of the bid.
    pub currency: Currency,
    /// What is left of its price after the deal's discount, in that currency.
    pub offer: Cpm,
    /// What it had to reach, in the auction's currency, where its checks came so far.
    pub floor: Option<Cpm>,
    /// Our share.
    pub fee: Ppm,
    /// What its deal takes off its price.
    pub discount: Ppm,
    /// Higher classes win over lower ones; open bids have 0.
    pub class: u8,
    /// Whether its deal's price is agreed.
    pub is_agreed: bool,
    /// How many impressions a display of its impression makes.
    pub multiplier: Multiplier,
}

/// A win in the currencies of all concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SalePrices {
    pub(crate) net: Cpm,
    pub(crate) paid: Cpm,
    pub(crate) min_to_win: Option<Cpm>,
    pub(crate) revenue: Nanos,
}

impl BidTerms {
    /// Prices `win`, which is of `entry` and has that fate, beside the impression's winner. `None`
    /// when the bid's currency has no rate, which no bid that takes part is without.
    pub(crate) fn prices(
        &self,
        currencies: Currencies<'_>,
        (entry, win, fate): (&ClearingEntry, &Win, Fate),
        winner: Option<(&ClearingEntry, &Win)>,
    ) -> Option<SalePrices> {
        let paid = self.paid(currencies, entry, win.price)?;
        let min_to_win = match fate {
            Fate::Offered => {
                winner.and_then(|(winner, win)| self.least_to_tie(currencies, winner, win))
            }
            _ => self.in_bid(currencies, win.min_to_win),
        };
        let Currencies { rates, auction, base } = currencies;
        let revenue = rates
            .convert(win.price, auction, base, Rounding::Down)
            .and_then(|price| price.cost(self.multiplier));
        Some(SalePrices {
            net: self.fee.taken_from(win.price),
            paid,
            min_to_win,
            revenue: revenue.unwrap_or(Nanos::ZERO),
        })
    }

    /// `price` in the currency of the bid.
    pub(crate) fn paid(
        &self,
        currencies: Currencies<'_>,
        entry: &ClearingEntry,
        price: Cpm,
    ) -> Option<Cpm> {
        // Who pays its own bid pays just that, not what two conversions make of it.
        if price == entry.price && entry.auction_type != AuctionType::Agreed {
            return Some(self.offer);
        }
        currencies.rates.convert(price, currencies.auction, self.currency, Rounding::Up)
    }

    /// The least bid that would have tied with the winner, in the loser's currency, before its
    /// deal's discount: the winner's price (the specification's tables say 0.91, not the bid of
    /// 1.00 behind it), or the loser's own floor where that is higher, or it is of a higher class.
    /// `None` where no price would have won: the winner is of a higher class, or the loser's price
    /// is agreed.
    pub(crate) fn least_to_tie(
        &self,
        currencies: Currencies<'_>,
        winner: &ClearingEntry,
        win: &Win,
    ) -> Option<Cpm> {
        if self.is_agreed {
            return None;
        }
        let floor = self.floor?;
        let least = match self.class.cmp(&winner.class) {
            Ordering::Less => return None,
            Ordering::Equal => floor.max(win.price),
            Ordering::Greater => floor,
        };
        self.in_bid(currencies, least)
    }

    /// `worth`, in the auction's currency, as the least price of the bid that makes so much: in its
    /// own currency, before its deal's discount.
    pub(crate) fn in_bid(&self, currencies: Currencies<'_>, worth: Cpm) -> Option<Cpm> {
        let Currencies { rates, auction, .. } = currencies;
        let offer = rates.convert(worth, auction, self.currency, Rounding::Up)?;
        self.discount.added_to(offer)
    }
}

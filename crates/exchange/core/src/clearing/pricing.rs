//! Prices of a win, from the terms of an auction or its record. Does not decide who wins.

use std::cmp::Ordering;

use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Rounding};

use super::clear::{Clearing, ClearingEntry, Win};
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::market::rates::Currencies;

/// The terms of a bid's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BidTerms {
    /// The currency of the bid.
    pub(crate) currency: Currency,
    /// The price after the deal's discount, in that currency.
    pub(crate) discounted_price: Cpm,
    /// Its floor, in the auction's currency. None if an earlier check failed.
    pub(crate) floor: Option<Cpm>,
    /// Our share.
    pub(crate) fee: Ppm,
    /// The discount of its deal.
    pub(crate) discount: Ppm,
    /// Higher classes win over lower ones; open bids have 0.
    pub(crate) class: u8,
    /// Whether its deal's price is agreed.
    pub(crate) is_agreed: bool,
    /// Impressions per display.
    pub(crate) multiplier: Multiplier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SalePrices {
    pub(crate) net: Cpm,
    pub(crate) paid: Cpm,
    pub(crate) min_to_win: Option<Cpm>,
    pub(crate) revenue: Nanos,
}

impl BidTerms {
    /// Prices `win`, one of `clearing`'s of `entries`. None if the bid's currency has no rate, which
    /// never holds for a bid that takes part.
    pub(crate) fn prices(
        &self,
        currencies: Currencies<'_>,
        entries: &[ClearingEntry],
        clearing: &Clearing,
        win: &Win,
    ) -> Option<SalePrices> {
        let entry = &entries[win.entry];
        let paid = self.paid(currencies, entry, win.price)?;
        let min_to_win = match clearing.fates[win.entry] {
            Fate::Offered => clearing.wins[entry.imp]
                .as_ref()
                .and_then(|winner| self.least_to_tie(currencies, &entries[winner.entry], winner)),
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

    pub(crate) fn paid(
        &self,
        currencies: Currencies<'_>,
        entry: &ClearingEntry,
        price: Cpm,
    ) -> Option<Cpm> {
        // A bid that pays its own price pays exactly that, without two conversions.
        if price == entry.price && entry.auction_type != AuctionType::Agreed {
            return Some(self.discounted_price);
        }
        currencies.rates.convert(price, currencies.auction, self.currency, Rounding::Up)
    }

    /// The lowest bid that would have tied with the winner, in the loser's currency before its
    /// deal's discount: the winner's price (0.91 in the specification's tables, not the next bid of
    /// 1.00), or the loser's own floor if that is higher, or if the loser has a higher class. None
    /// if no price would have won: the winner's class is higher, or the loser's price is agreed.
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

    /// The lowest price in the bid's currency, before its deal's discount, that converts to
    /// `worth`.
    pub(crate) fn in_bid(&self, currencies: Currencies<'_>, worth: Cpm) -> Option<Cpm> {
        let Currencies { rates, auction, .. } = currencies;
        let discounted = rates.convert(worth, auction, self.currency, Rounding::Up)?;
        self.discount.added_to(discounted)
    }
}

//! The open ascending auction with proxy bids: a bidder gives its maximum, and the lot bids for it
//! just as much as it needs to lead.

use units::Cpm;

use crate::lots::increments::IncrementBands;
use crate::lots::outcome::UnsoldReason;
use crate::lots::refusal::LotRefusal;
use crate::lots::standing::{LotAlias, LotStanding, NumberedBid, WinningBid};
use crate::lots::terms::{EnglishTerms, LotTerms};

/// The leader and the price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lots) struct EnglishAuction {
    start: Cpm,
    reserve: Option<Cpm>,
    increments: IncrementBands,
    leading: Option<LeadingBid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeadingBid {
    /// The leader's last bid.
    bid: NumberedBid,
    price: Cpm,
}

impl EnglishAuction {
    pub(super) fn new(terms: &LotTerms, english: &EnglishTerms) -> Self {
        let LotTerms { start_price: start, reserve, .. } = *terms;
        Self { start, reserve, increments: english.increments.clone(), leading: None }
    }

    pub(super) fn judge(&self, bidder: Option<LotAlias>, maximum: Cpm) -> Result<(), LotRefusal> {
        let own = self.leading.filter(|leading| Some(leading.bid.bidder) == bidder);
        let minimum = self.minimum_next();
        match own.map(|leading| leading.bid.maximum) {
            Some(own) if maximum <= own => Err(LotRefusal::Retraction { maximum: own }),
            None if maximum < minimum => Err(LotRefusal::BelowIncrement { minimum }),
            _ => Ok(()),
        }
    }

    pub(super) fn place(&mut self, bid: NumberedBid) -> Option<u32> {
        let (top, beaten, price) = match self.leading {
            None => (bid, None, self.start),
            Some(before) if before.bid.bidder == bid.bidder => {
                (bid, Some(before.bid), before.price)
            }
            Some(before) => {
                // The bid that was first wins a tie.
                let is_higher = before.bid.maximum < bid.maximum;
                let (top, second) = if is_higher { (bid, before.bid) } else { (before.bid, bid) };
                (top, Some(second), self.increments.after(second.maximum).min(top.maximum))
            }
        };
        let met = self.reserve.filter(|reserve| *reserve <= top.maximum);
        let price = met.map_or(price, |reserve| price.max(reserve));
        assert!(price <= top.maximum, "the price is at most the leader's maximum");
        let lowest = self.leading.map_or(self.start, |before| before.price);
        assert!(lowest <= price, "the price never falls");
        self.leading = Some(LeadingBid { bid: top, price });
        beaten.map(|bid| bid.number)
    }

    pub(super) fn standing_bids(&self) -> &[NumberedBid] {
        self.leading.as_ref().map_or(&[], |leading| std::slice::from_ref(&leading.bid))
    }

    pub(super) fn winner(&self) -> Result<WinningBid, UnsoldReason> {
        let LeadingBid { bid, price } = self.leading.ok_or(UnsoldReason::NoBids)?;
        match self.reserve_met() {
            Some(false) => Err(UnsoldReason::ReserveNotMet),
            _ => Ok(WinningBid { bid, price }),
        }
    }

    pub(super) fn standing(&self) -> LotStanding {
        LotStanding {
            price: self.leading.map(|leading| leading.price),
            leader: self.leading.map(|leading| leading.bid.bidder),
            reserve_met: self.reserve_met(),
        }
    }

    fn reserve_met(&self) -> Option<bool> {
        let reserve = self.reserve?;
        Some(self.leading.is_some_and(|leading| reserve <= leading.bid.maximum))
    }

    pub(super) fn minimum_next(&self) -> Cpm {
        self.leading.map_or(self.start, |leading| self.increments.after(leading.price))
    }
}

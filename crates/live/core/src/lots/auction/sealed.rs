//! The sealed second-price auction (Vickrey, "Counterspeculation, Auctions, and Competitive Sealed
//! Tenders", Journal of Finance 1961): the highest bid wins, and pays the second highest.

use units::Cpm;

use crate::lots::outcome::UnsoldReason;
use crate::lots::refusal::LotRefusal;
use crate::lots::standing::{LotAlias, LotStanding, NumberedBid, WinningBid};
use crate::lots::terms::LotTerms;

/// One bid per bidder, which may only be raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lots) struct SealedAuction {
    start: Cpm,
    reserve: Option<Cpm>,
    /// In the order of aliases.
    standing: Vec<NumberedBid>,
}

impl SealedAuction {
    pub(super) const fn new(terms: &LotTerms) -> Self {
        Self { start: terms.start_price, reserve: terms.reserve, standing: Vec::new() }
    }

    fn position(&self, bidder: LotAlias) -> Option<usize> {
        self.standing.binary_search_by_key(&bidder, |bid| bid.bidder).ok()
    }

    pub(super) fn judge(&self, bidder: Option<LotAlias>, maximum: Cpm) -> Result<(), LotRefusal> {
        let own = bidder.and_then(|bidder| self.position(bidder));
        match own.map(|at| self.standing[at].maximum) {
            Some(own) if maximum <= own => Err(LotRefusal::Retraction { maximum: own }),
            _ => Ok(()),
        }
    }

    pub(super) fn place(&mut self, bid: NumberedBid) -> Option<u32> {
        match self.position(bid.bidder) {
            Some(at) => {
                assert!(self.standing[at].maximum < bid.maximum, "sealed bids are only raised");
                Some(std::mem::replace(&mut self.standing[at], bid).number)
            }
            None => {
                // Aliases grow with first bids, so the list stays sorted.
                self.standing.push(bid);
                None
            }
        }
    }

    pub(super) fn standing_bids(&self) -> &[NumberedBid] {
        &self.standing
    }

    /// The highest bid; of equal ones that which was first.
    fn highest(&self) -> Option<NumberedBid> {
        let rank = |bid: &&NumberedBid| (bid.maximum, std::cmp::Reverse(bid.number));
        self.standing.iter().max_by_key(rank).copied()
    }

    pub(super) fn winner(&self) -> Result<WinningBid, UnsoldReason> {
        let bid = self.highest().ok_or(UnsoldReason::NoBids)?;
        let lowest = self.reserve.unwrap_or(self.start);
        if bid.maximum < lowest {
            return Err(UnsoldReason::ReserveNotMet);
        }
        let others = self.standing.iter().filter(|other| other.bidder != bid.bidder);
        let price = others.map(|other| other.maximum).fold(lowest, Cpm::max);
        Ok(WinningBid { bid, price })
    }

    /// Everything is secret until the close.
    pub(super) fn standing(&self, is_closed: bool) -> LotStanding {
        let sold = is_closed.then(|| self.winner().ok()).flatten();
        LotStanding {
            price: sold.map(|win| win.price),
            leader: sold.map(|win| win.bid.bidder),
            reserve_met: self.reserve.filter(|_| is_closed).map(|_| sold.is_some()),
        }
    }

    pub(super) const fn minimum(&self) -> Cpm {
        self.start
    }
}

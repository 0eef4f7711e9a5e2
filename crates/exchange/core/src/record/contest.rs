//! The competition of a recorded bid: the lowest winning value and its price, other bids unchanged.

use std::cmp::Reverse;

use units::Cpm;

use super::auction::{AuctionRecord, BidRecord};
use crate::auction::fate::Fate;
use crate::auction::terms::{AuctionType, reaches};
use crate::clearing::clear::Seat;

/// The competition of a bid on one impression, in the auction's currency after discount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The impression, by position.
    pub imp: usize,
    /// Lowest value that wins: the bid's floor, or enough to rank before the best other bid.
    pub least: Cpm,
    /// Whether a win pays a second price rather than the bid.
    pub is_second_price: bool,
    second: Cpm,
}

/// Why no price would have made a bid win. Order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NoContest {
    /// It was refused for a reason other than price, or its markup was not available.
    #[error("the bid was refused, whatever its price")]
    NotAdmitted,
    /// Its deal has an agreed price.
    #[error("the price of the bid's deal is agreed")]
    Agreed,
    /// It wins only with the rest of its group.
    #[error("the bid is one of a group")]
    InGroup,
    /// A bid of a higher class competed, or its floor or another bid is too high for a price.
    #[error("no price would have come before another bid, or reached the floor")]
    Outranked,
}

impl Contest {
    /// The price of a bid of this value. None if it would have lost.
    pub fn paid(&self, worth: Cpm) -> Option<Cpm> {
        let is_won = worth >= self.least;
        let price = if self.is_second_price { worth.min(self.second) } else { worth };
        is_won.then_some(price)
    }
}

impl AuctionRecord<'_> {
    /// The competition of the bid at this position, without the bids that `is_own` selects.
    ///
    /// # Errors
    /// If its price did not decide.
    pub fn contest(
        &self,
        bid: usize,
        is_own: impl Fn(usize) -> bool,
    ) -> Result<Contest, NoContest> {
        let own = &self.bids[bid];
        let came_to_price =
            own.worth.is_some() || matches!(own.fate, Fate::BelowFloor | Fate::BelowDealFloor);
        let parts = own.imp.zip(seat(own)).zip(own.floor).zip(self.terms);
        let admitted = parts.filter(|_| came_to_price && own.barred.is_none());
        let (((imp, seat), floor), terms) = admitted.ok_or(NoContest::NotAdmitted)?;
        let deal = own.deal.map(|deal| &self.deals[deal]);
        let auction_type = deal.map_or(terms.auction_type, |deal| deal.auction_type);
        if auction_type == AuctionType::Agreed {
            return Err(NoContest::Agreed);
        }
        if own.group.is_some() {
            return Err(NoContest::InGroup);
        }
        let class = self.class(own);
        let others = self.bids.iter().enumerate().filter(|(at, other)| {
            *at != bid && other.imp == Some(imp) && other.fate.competed() && !is_own(*at)
        });
        let mut rivals: Vec<_> = others.filter_map(|(_, other)| self.rival(other)).collect();
        rivals.sort_unstable();
        if rivals.first().is_some_and(|best| best.class.0 > class) {
            return Err(NoContest::Outranked);
        }
        rivals.retain(|rival| rival.class.0 == class);
        let to_beat = rivals.first().map_or(Some(Cpm::ZERO), |best| {
            // Equal bids keep their order.
            let wins_tie = (own.tie, seat) < (best.tie, best.seat);
            Cpm::new(best.price.0.micros() + u64::from(!wins_tie))
        });
        let to_beat = to_beat.filter(|_| reaches(Cpm::MAX, floor)).ok_or(NoContest::Outranked)?;
        let least = to_beat.max(floor);
        // A seat does not compete with itself.
        let next = rivals.iter().find(|rival| rival.seat != seat);
        let next = next.map_or(Cpm::ZERO, |next| next.price.0.saturating_add(terms.increment));
        let is_second_price = auction_type == AuctionType::SecondPrice;
        Ok(Contest { imp, least, is_second_price, second: next.max(floor) })
    }

    fn rival(&self, bid: &BidRecord<'_>) -> Option<RivalBid> {
        let (seat, worth) = seat(bid).zip(bid.worth)?;
        Some(RivalBid {
            class: Reverse(self.class(bid)),
            price: Reverse(worth),
            tie: bid.tie,
            seat,
        })
    }

    fn class(&self, bid: &BidRecord<'_>) -> u8 {
        bid.deal.map_or(0, |deal| self.deals[deal].class)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RivalBid {
    class: Reverse<u8>,
    price: Reverse<Cpm>,
    tie: u64,
    seat: Seat,
}

fn seat(bid: &BidRecord<'_>) -> Option<Seat> {
    bid.seat.map(|seat| Seat { dsp: bid.dsp, seat })
}

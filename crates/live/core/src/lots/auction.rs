//! The rule sets of lots behind one type: which bids are accepted, which one wins, at what price.
//!
//! Must not know names, times or costs: bids come in order, numbered.

mod english;
mod sealed;

use units::Cpm;

use super::outcome::UnsoldReason;
use super::refusal::LotRefusal;
use super::standing::{LotAlias, LotStanding, NumberedBid, WinningBid};
use super::terms::{LotRules, LotTerms};
use english::EnglishAuction;
use sealed::SealedAuction;

/// The accepted bids of a lot as its rules see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LotAuction {
    English(EnglishAuction),
    Sealed(SealedAuction),
}

impl LotAuction {
    pub(super) fn new(terms: &LotTerms) -> Self {
        match &terms.rules {
            LotRules::English(english) => Self::English(EnglishAuction::new(terms, english)),
            LotRules::SealedSecondPrice => Self::Sealed(SealedAuction::new(terms)),
        }
    }

    /// Why a bid of at least the start price is refused. `bidder` is None before its first accepted
    /// bid.
    pub(super) fn judge(&self, bidder: Option<LotAlias>, maximum: Cpm) -> Result<(), LotRefusal> {
        match self {
            Self::English(auction) => auction.judge(bidder, maximum),
            Self::Sealed(auction) => auction.judge(bidder, maximum),
        }
    }

    /// Places a bid that [`Self::judge`] accepts. Returns the number of the bid whose hold ends.
    /// None if no hold ends.
    pub(super) fn place(&mut self, bid: NumberedBid) -> Option<u32> {
        match self {
            Self::English(auction) => auction.place(bid),
            Self::Sealed(auction) => auction.place(bid),
        }
    }

    /// The bids that can still win, for which money is on hold.
    pub(super) fn standing_bids(&self) -> &[NumberedBid] {
        match self {
            Self::English(auction) => auction.standing_bids(),
            Self::Sealed(auction) => auction.standing_bids(),
        }
    }

    /// The winner if the lot closes now.
    pub(super) fn winner(&self) -> Result<WinningBid, UnsoldReason> {
        match self {
            Self::English(auction) => auction.winner(),
            Self::Sealed(auction) => auction.winner(),
        }
    }

    /// What the public may know.
    pub(super) fn standing(&self, is_closed: bool) -> LotStanding {
        match self {
            Self::English(auction) => auction.standing(),
            Self::Sealed(auction) => auction.standing(is_closed),
        }
    }

    /// The lowest bid that is accepted from a bidder who does not lead and has no sealed bid.
    pub(super) fn minimum_next(&self) -> Cpm {
        match self {
            Self::English(auction) => auction.minimum_next(),
            Self::Sealed(auction) => auction.minimum(),
        }
    }

    /// Whether bids are secret until the close.
    pub(super) const fn is_sealed(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }
}

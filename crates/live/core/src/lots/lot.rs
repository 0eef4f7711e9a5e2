//! A lot: its state, which follows from its terms and its logged events alone.
//!
//! Owns the life of a lot and its money on hold; its rule set owns winner and price.

mod apply;
mod decide;

use units::{Cpm, Nanos};

use super::auction::LotAuction;
use super::bids::LotBids;
use super::end::LotEnd;
use super::event::{LotBid, LotEvent, LotEventKind};
use super::outcome::{LotResult, LotStatus};
use super::terms::{LotRules, LotTerms};

/// A lot. Lots with the same terms and events are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lot {
    terms: LotTerms,
    phase: LotPhase,
    /// Time of the last event.
    last_ms: u64,
    end: LotEnd,
    bids: LotBids,
    auction: LotAuction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LotPhase {
    Scheduled,
    Open,
    Over(LotResult),
}

/// Money that must be on hold for an accepted bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LotHold<'a> {
    /// Number of the bid.
    pub number: u32,
    /// The bidder's name.
    pub bidder: &'a str,
    /// The account that pays.
    pub account: &'a str,
    /// The cost of all impressions at the bidder's maximum.
    pub amount: Nanos,
}

impl Lot {
    /// A scheduled lot.
    ///
    /// # Panics
    ///
    /// If the terms have a problem: they are checked before they are logged.
    pub fn new(terms: LotTerms) -> Self {
        let problems = terms.check();
        assert!(problems.is_empty(), "the terms of a lot are checked: {problems:?}");
        let soft_close = match &terms.rules {
            LotRules::English(english) => english.soft_close,
            LotRules::SealedSecondPrice => None,
        };
        Self {
            phase: LotPhase::Scheduled,
            last_ms: 0,
            end: LotEnd::new(terms.closes_ms, soft_close),
            bids: LotBids::default(),
            auction: LotAuction::new(&terms),
            terms,
        }
    }

    /// What is sold, when, and by which rules.
    pub const fn terms(&self) -> &LotTerms {
        &self.terms
    }

    /// The status by its events. From the end on it may be open although it takes no bids.
    pub const fn status(&self) -> LotStatus {
        match &self.phase {
            LotPhase::Scheduled => LotStatus::Scheduled,
            LotPhase::Open => LotStatus::Open,
            LotPhase::Over(LotResult::Cancelled { .. }) => LotStatus::Cancelled,
            LotPhase::Over(LotResult::Sold(_) | LotResult::Unsold(_)) => LotStatus::Closed,
        }
    }

    /// How it ended. None until it is closed or cancelled.
    pub const fn result(&self) -> Option<&LotResult> {
        match &self.phase {
            LotPhase::Over(result) => Some(result),
            LotPhase::Scheduled | LotPhase::Open => None,
        }
    }

    /// The first millisecond in which it accepts no bid, unless it is closed before.
    pub const fn ends_ms(&self) -> u64 {
        self.end.ends_ms()
    }

    /// Time of its last event in Unix milliseconds; 0 before the first.
    pub const fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// The money that must be on hold now: for the leader's maximum, or for every sealed bid.
    pub fn holds(&self) -> impl Iterator<Item = LotHold<'_>> {
        let standing = if self.is_over() { &[] } else { self.auction.standing_bids() };
        standing.iter().map(|bid| LotHold {
            number: bid.number,
            bidder: self.bids.name(bid.bidder),
            account: self.bids.account(bid.bidder),
            amount: self.cost(bid.maximum),
        })
    }

    /// The money that a bid needs before it is logged, and the number of the bid whose hold it
    /// replaces: that of the same bidder and account. None if it replaces none.
    ///
    /// # Panics
    ///
    /// If [`Lot::decide`] did not accept the bid.
    pub fn needed_hold(&self, bid: &LotBid) -> (Nanos, Option<u32>) {
        let is_own = |hold: &LotHold<'_>| hold.bidder == bid.bidder && hold.account == bid.account;
        (self.cost(bid.maximum), self.holds().find(is_own).map(|hold| hold.number))
    }

    /// The event that the schedule demands by now. None if it demands none. A lot whose whole
    /// schedule has passed closes without having opened.
    pub fn due(&self, now_ms: u64) -> Option<LotEvent> {
        let at_ms = self.last_ms.max(now_ms);
        let kind = match self.phase {
            LotPhase::Over(_) => return None,
            _ if self.ends_ms() <= at_ms => LotEventKind::Closed,
            LotPhase::Scheduled if self.terms.opens_ms <= at_ms => LotEventKind::Opened,
            LotPhase::Scheduled | LotPhase::Open => return None,
        };
        Some(LotEvent { at_ms, kind })
    }

    /// When [`Self::due`] has an event next, in Unix milliseconds. None if the lot is over.
    pub const fn due_ms(&self) -> Option<u64> {
        match self.phase {
            LotPhase::Scheduled => Some(self.terms.opens_ms),
            LotPhase::Open => Some(self.ends_ms()),
            LotPhase::Over(_) => None,
        }
    }

    /// The status at a time. The end closes a lot even before its close is logged.
    const fn status_at(&self, at_ms: u64) -> LotStatus {
        match self.phase {
            LotPhase::Scheduled | LotPhase::Open if self.ends_ms() <= at_ms => LotStatus::Closed,
            _ => self.status(),
        }
    }

    /// Whether it is closed or cancelled.
    pub(in crate::lots) const fn is_over(&self) -> bool {
        matches!(self.phase, LotPhase::Over(_))
    }

    pub(in crate::lots) fn is_closed(&self) -> bool {
        self.status() == LotStatus::Closed
    }

    pub(in crate::lots) const fn bids(&self) -> &LotBids {
        &self.bids
    }

    pub(in crate::lots) const fn auction(&self) -> &LotAuction {
        &self.auction
    }

    /// Number of accepted bids. None while it is secret.
    pub(in crate::lots) fn bids_public(&self) -> Option<u32> {
        (!self.auction.is_sealed() || self.is_closed()).then(|| self.bids.count())
    }

    fn cost(&self, price: Cpm) -> Nanos {
        self.terms.cost(price).expect("the cost of an accepted bid fits")
    }
}

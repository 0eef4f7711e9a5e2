//! Which auctions are wanted: an expression of terms, all of which must hold.
//!
//! `field op value[,value…]`; one of the values must be it, or with `!=` none. Terms about bids
//! (`seat`, `dsp`, `deal`, `campaign`, and `outcome` where it names a fate) must hold for one and the
//! same bid. The expression may be anything; how it is read is `parse`'s.

mod error;
mod parse;
mod term;
#[cfg(test)]
mod tests;

use exchange_core::record::{AuctionRecord, BidRecord, GenerationRecord};

use crate::names::Names;

pub use error::FilterError;
pub use parse::FILTER_BYTES_MAX;
use term::{Term, Test};

/// How far a record's time may be from its auction's: that of records by other hands.
const SLACK_MS: u64 = 60_000;

/// Which auctions are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

/// When records were written that may be wanted, in milliseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From here on.
    pub since_ms: u64,
    /// Up to here, included.
    pub until_ms: u64,
}

impl Window {
    /// Always.
    pub const ALL: Self = Self { since_ms: 0, until_ms: u64::MAX };

    /// Whether a record of this time may be wanted.
    pub const fn holds(&self, time_ms: u64) -> bool {
        self.since_ms <= time_ms && time_ms <= self.until_ms
    }
}

impl Filter {
    /// Reads an expression; an empty one holds for every auction. Times before now count from
    /// `now_us`, in microseconds of Unix time.
    ///
    /// # Errors
    ///
    /// Where it is wrong, and what would be right.
    pub fn parse(text: &str, now_us: u64) -> Result<Self, FilterError> {
        Ok(Self { text: text.trim().to_owned(), terms: parse::terms(text, now_us)? })
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether every auction is wanted.
    pub const fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it asks for something of bids.
    pub fn is_about_bids(&self) -> bool {
        self.terms.iter().any(Term::is_about_bids)
    }

    /// Whether it asks for nothing but a time.
    pub fn is_about_time_alone(&self) -> bool {
        self.terms.iter().all(|term| matches!(term.test, Test::Time(_)))
    }

    /// Whether what it asks of times holds for this one, in microseconds of Unix time.
    pub fn holds_at(&self, time_us: u64) -> bool {
        self.terms.iter().all(|term| match &term.test {
            Test::Time(ranges) => {
                ranges.iter().any(|range| range.contains(&time_us)) != term.is_not
            }
            _ => true,
        })
    }

    /// The times of records of auctions that are wanted: a minute more than their own.
    pub fn window(&self) -> Window {
        let mut window = Window::ALL;
        for term in &self.terms {
            let (false, Test::Time(ranges)) = (term.is_not, &term.test) else { continue };
            let since = ranges.iter().map(|range| range.start).min().unwrap_or(u64::MAX);
            let until = ranges.iter().map(|range| range.end).max().unwrap_or(0);
            window.since_ms = window.since_ms.max((since / 1000).saturating_sub(SLACK_MS));
            window.until_ms = window.until_ms.min((until / 1000).saturating_add(SLACK_MS));
        }
        window
    }

    /// Whether the auction is wanted. `generation` is that by which it was held, if it is known.
    pub fn matches(
        &self,
        record: &AuctionRecord<'_>,
        generation: Option<&GenerationRecord>,
    ) -> bool {
        let of_auction = self.terms.iter().filter(|term| !term.is_about_bids());
        if !of_auction.into_iter().all(|term| term.holds_for_auction(record)) {
            return false;
        }
        !self.is_about_bids()
            || record.bids.iter().any(|bid| self.matches_bid((record, generation), bid))
    }

    /// Whether all that is asked of bids holds for this one of the auction's.
    pub fn matches_bid(
        &self,
        (record, generation): (&AuctionRecord<'_>, Option<&GenerationRecord>),
        bid: &BidRecord<'_>,
    ) -> bool {
        let names = Names::of(record, generation);
        let about_bids = self.terms.iter().filter(|term| term.is_about_bids());
        about_bids.into_iter().all(|term| term.holds_for_bid((record, names), bid))
    }
}

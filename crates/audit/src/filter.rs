//! A filter selects auctions: an expression of terms, all of which must hold.
//!
//! A term is `field op value[,value…]`: the field has one of the values, or with `!=` none of them.
//! Terms about bids (`seat`, `dsp`, `deal`, `campaign`, and `outcome` with a fate) must hold for
//! one and the same bid.

mod parse;
mod term;
#[cfg(test)]
mod tests;

use diagnostics::Diagnostic;
use exchange_core::record::{AuctionRecord, BidRecord, GenerationRecord};

use crate::names::DspNames;

pub use parse::FILTER_BYTES_MAX;
use term::{FilterTerm, FilterTest};

/// How far a record's time may be from its auction's: records from other writers may differ.
const SLACK_MS: u64 = 60_000;

/// Selects auctions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    terms: Vec<FilterTerm>,
}

/// The times, in Unix milliseconds, of records that may be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    /// The first millisecond.
    pub since_ms: u64,
    /// The last millisecond.
    pub until_ms: u64,
}

impl TimeWindow {
    /// All times.
    pub const ALL: Self = Self { since_ms: 0, until_ms: u64::MAX };

    /// Whether a record of this time may be wanted.
    pub const fn holds(&self, time_ms: u64) -> bool {
        self.since_ms <= time_ms && time_ms <= self.until_ms
    }
}

impl Filter {
    /// Parses an expression; an empty one selects every auction. Relative times count from
    /// `now_us`, in Unix microseconds.
    pub fn parse(text: &str, now_us: u64) -> Result<Self, Diagnostic> {
        Ok(Self { text: text.trim().to_owned(), terms: parse::terms(text, now_us)? })
    }

    /// The expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether every auction is selected.
    pub const fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether any term is about bids.
    pub fn is_about_bids(&self) -> bool {
        self.terms.iter().any(FilterTerm::is_about_bids)
    }

    /// Whether any term is about time.
    pub fn is_about_time(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.test, FilterTest::Time(_)))
    }

    /// Whether all terms are about time.
    pub fn is_about_time_alone(&self) -> bool {
        self.terms.iter().all(|term| matches!(term.test, FilterTest::Time(_)))
    }

    /// Whether the terms about time hold at `time_us`, in Unix microseconds.
    pub fn holds_at(&self, time_us: u64) -> bool {
        self.terms.iter().all(|term| match &term.test {
            FilterTest::Time(ranges) => {
                ranges.iter().any(|range| range.contains(&time_us)) != term.is_not
            }
            _ => true,
        })
    }

    /// The times of records of selected auctions, with a minute to spare on both sides.
    pub fn window(&self) -> TimeWindow {
        let mut window = TimeWindow::ALL;
        for term in &self.terms {
            let (false, FilterTest::Time(ranges)) = (term.is_not, &term.test) else { continue };
            let since = ranges.iter().map(|range| range.start).min().unwrap_or(u64::MAX);
            let until = ranges.iter().map(|range| range.end).max().unwrap_or(0);
            window.since_ms = window.since_ms.max((since / 1000).saturating_sub(SLACK_MS));
            window.until_ms = window.until_ms.min((until / 1000).saturating_add(SLACK_MS));
        }
        window
    }

    /// Whether the auction is selected. `generation` is the one it ran under, if known.
    pub fn matches(
        &self,
        record: &AuctionRecord<'_>,
        generation: Option<&GenerationRecord>,
    ) -> bool {
        self.matches_among(record, generation, &record.bids)
    }

    /// Whether the auction is selected by one of these of its bids, if any term is about bids.
    pub fn matches_among<'r, 'b: 'r>(
        &self,
        record: &AuctionRecord<'_>,
        generation: Option<&GenerationRecord>,
        bids: impl IntoIterator<Item = &'r BidRecord<'b>>,
    ) -> bool {
        let of_auction = self.terms.iter().filter(|term| !term.is_about_bids());
        if !of_auction.into_iter().all(|term| term.holds_for_auction(record)) {
            return false;
        }
        !self.is_about_bids()
            || bids.into_iter().any(|bid| self.matches_bid(record, generation, bid))
    }

    /// Whether all terms about bids hold for this bid of the auction.
    pub fn matches_bid(
        &self,
        record: &AuctionRecord<'_>,
        generation: Option<&GenerationRecord>,
        bid: &BidRecord<'_>,
    ) -> bool {
        let names = DspNames::of(record, generation);
        let about_bids = self.terms.iter().filter(|term| term.is_about_bids());
        about_bids.into_iter().all(|term| term.holds_for_bid(record, names, bid))
    }
}

//! The terms of a filter, held against an auction and its bids.

use std::ops::Range;

use exchange_core::Fate;
use exchange_core::record::{AuctionEnding, AuctionRecord, BidRecord};

use crate::names::Names;

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Whether it is what must not be.
    pub is_not: bool,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The auction's time is within one of these, in microseconds of Unix time.
    Time(Vec<Range<u64>>),
    Publisher(Vec<String>),
    /// Ours, or the caller's.
    Id(Vec<String>),
    /// An impression takes one of this set.
    Formats(u8),
    Ending(Vec<AuctionEnding>),
    Dsp(Vec<String>),
    Seat(Vec<String>),
    Deal(Vec<String>),
    Campaign(Vec<String>),
    Fate(Vec<Fate>),
}

impl Term {
    pub const fn is_about_bids(&self) -> bool {
        matches!(
            self.test,
            Test::Dsp(_) | Test::Seat(_) | Test::Deal(_) | Test::Campaign(_) | Test::Fate(_)
        )
    }

    pub fn holds_for_auction(&self, record: &AuctionRecord<'_>) -> bool {
        let is = match &self.test {
            Test::Time(ranges) => {
                ranges.iter().any(|range| range.contains(&record.arrival_unix_us))
            }
            Test::Publisher(ids) => is_among(ids, record.publisher.unwrap_or("")),
            Test::Id(ids) => is_among(ids, record.id) || is_among(ids, record.caller_id),
            Test::Formats(set) => record.imps.iter().any(|imp| imp.formats & set != 0),
            Test::Ending(endings) => endings.contains(&record.ending),
            _ => !self.is_not,
        };
        is != self.is_not
    }

    pub fn holds_for_bid(
        &self,
        (record, names): (&AuctionRecord<'_>, Names<'_>),
        bid: &BidRecord<'_>,
    ) -> bool {
        let is = match &self.test {
            Test::Dsp(ids) => is_among(ids, &names.dsp(bid.dsp)),
            Test::Seat(seats) => {
                let name = bid.seat.map(|seat| names.seat(bid.dsp, seat));
                is_among(seats, name.as_deref().unwrap_or(""))
            }
            Test::Deal(ids) => is_among(ids, bid.deal.map_or("", |deal| record.deals[deal].id)),
            Test::Campaign(ids) => is_among(ids, bid.campaign),
            Test::Fate(fates) => fates.contains(&bid.fate),
            _ => !self.is_not,
        };
        is != self.is_not
    }
}

fn is_among(values: &[String], value: &str) -> bool {
    values.iter().any(|known| known == value)
}

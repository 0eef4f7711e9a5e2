//! The terms of a filter, compared with an auction and its bids.

use std::ops::Range;

use exchange_core::Fate;
use exchange_core::record::{AuctionEnding, AuctionRecord, BidRecord};
use units::SplitMix64;

use crate::names::DspNames;

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilterTerm {
    /// Whether the test must fail.
    pub is_not: bool,
    pub test: FilterTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FilterTest {
    /// The auction's time is within one of these, in Unix microseconds.
    Time(Vec<Range<u64>>),
    Publisher(Vec<String>),
    /// Our id or the caller's.
    Id(Vec<String>),
    /// An impression takes one of this set of formats.
    Formats(u8),
    Ending(Vec<AuctionEnding>),
    /// This share of all auctions, in parts per million, by a hash of our id.
    Sample(u32),
    Dsp(Vec<String>),
    Seat(Vec<String>),
    Deal(Vec<String>),
    Campaign(Vec<String>),
    Fate(Vec<Fate>),
}

impl FilterTerm {
    pub const fn is_about_bids(&self) -> bool {
        matches!(
            self.test,
            FilterTest::Dsp(_)
                | FilterTest::Seat(_)
                | FilterTest::Deal(_)
                | FilterTest::Campaign(_)
                | FilterTest::Fate(_)
        )
    }

    pub fn holds_for_auction(&self, record: &AuctionRecord<'_>) -> bool {
        let is = match &self.test {
            FilterTest::Time(ranges) => {
                ranges.iter().any(|range| range.contains(&record.arrival_unix_us))
            }
            FilterTest::Publisher(ids) => is_among(ids, record.publisher.unwrap_or("")),
            FilterTest::Id(ids) => is_among(ids, record.id) || is_among(ids, record.caller_id),
            FilterTest::Formats(set) => record.imps.iter().any(|imp| imp.formats & set != 0),
            FilterTest::Ending(endings) => endings.contains(&record.ending),
            FilterTest::Sample(ppm) => sample_of(record.id) < *ppm,
            _ => !self.is_not,
        };
        is != self.is_not
    }

    pub fn holds_for_bid(
        &self,
        record: &AuctionRecord<'_>,
        names: DspNames<'_>,
        bid: &BidRecord<'_>,
    ) -> bool {
        let is = match &self.test {
            FilterTest::Dsp(ids) => is_among(ids, &names.dsp(bid.dsp)),
            FilterTest::Seat(seats) => {
                let name = bid.seat.map(|seat| names.seat(bid.dsp, seat));
                is_among(seats, name.as_deref().unwrap_or(""))
            }
            FilterTest::Deal(ids) => {
                is_among(ids, bid.deal.map_or("", |deal| record.deals[deal].id))
            }
            FilterTest::Campaign(ids) => is_among(ids, bid.campaign),
            FilterTest::Fate(fates) => fates.contains(&bid.fate),
            _ => !self.is_not,
        };
        is != self.is_not
    }
}

/// Where an auction stands among a million: the same everywhere and at any time.
fn sample_of(id: &str) -> u32 {
    let mix = |word, byte| SplitMix64::mixed(word ^ u64::from(byte));
    let word = id.bytes().fold(0, mix);
    let parts = (u128::from(word) * 1_000_000) >> 64;
    u32::try_from(parts).expect("a part is below a million")
}

fn is_among(values: &[String], value: &str) -> bool {
    values.iter().any(|known| known == value)
}

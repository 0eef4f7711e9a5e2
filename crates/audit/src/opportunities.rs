//! The opportunities of one buyer: for each impression that it bid on, the time, the price to beat,
//! and the value to the buyer.
//!
//! Owns which bids are the buyer's, which impressions qualify, and the counts of those that do not.
//! Money is in one currency, that of the auctions. Knows nothing of budgets.

mod search;
#[cfg(test)]
mod tests;

use eventlog::LogReadError;
use units::{Cpm, Currency};

use crate::generations::GenerationProblems;
use crate::log::lane::LaneDamage;

pub use search::opportunities;

/// Selects bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buyer {
    /// Bids of this campaign (`Bid.cid`).
    Campaign(String),
    /// Bids of a seat.
    Seat {
        /// The DSPs whose seat it is; empty: any DSP's.
        dsps: Vec<String>,
        /// The seat.
        seat: String,
    },
}

/// Which opportunities to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpportunityQuery {
    /// Selects the buyer's bids.
    pub buyer: Buyer,
    /// What an impression is worth to the buyer, per 1000, in the auction's currency, before a
    /// deal's discount. None takes the bid's price.
    pub value: Option<Cpm>,
    /// Only auctions in this currency. None requires that all have the same.
    pub currency: Option<Currency>,
    /// Most opportunities held in memory, 24 bytes each.
    pub most: usize,
}

/// An impression that the buyer bid on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opportunity {
    /// When the request arrived, in Unix microseconds.
    pub time_us: u64,
    /// The price to beat, for all impressions of one display: the lowest winning bid, or under
    /// second price what a bid of the value would have paid, if higher.
    pub market_price: Cpm,
    /// Their value.
    pub value: Cpm,
}

/// The opportunities of a buyer.
#[derive(Debug, Default)]
pub struct Opportunities {
    /// Ordered by time.
    pub list: Vec<Opportunity>,
    /// Currency of all prices. None without opportunities.
    pub currency: Option<Currency>,
    /// Number from first-price auctions; the others are second-price.
    pub first_price: u64,
    /// Number that the buyer won.
    pub wins: u64,
    /// Sum of their clearing prices, in nanos.
    pub paid_nanos: u128,
    /// The buyer's bids in all selected auctions.
    pub bids: u64,
    /// What is not in `list`.
    pub left_out: ExclusionCounts,
    /// Damage of the lane of auctions.
    pub damage: LaneDamage,
    /// Problems of the lane of generations.
    pub generations: GenerationProblems,
}

/// What was excluded, in the order of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExclusionCounts {
    /// Auctions that were not recorded, according to gaps.
    pub shed: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
    /// Auctions whose generation is needed and missing.
    pub no_generation: u64,
    /// Auctions whose record lacks some bids.
    pub cut: u64,
    /// Test auctions.
    pub tests: u64,
    /// Auctions in another currency than requested.
    pub other_currency: u64,
    /// Impressions for which the buyer's bid was not admitted at any price.
    pub not_admitted: u64,
    /// Impressions bid on at an agreed price.
    pub agreed: u64,
    /// Impressions to be won only together with others of a group.
    pub in_group: u64,
    /// Impressions that no price would have won.
    pub outranked: u64,
}

/// Why opportunities were not computed.
#[derive(Debug, thiserror::Error)]
pub enum OpportunityError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// Auctions in several currencies, with the number of impressions of each.
    #[error("the bids are in several currencies ({})", list(.0))]
    Currencies(Vec<(Currency, u64)>),
    /// More than may be held in memory.
    #[error("there are more than {0} impressions that were bid on")]
    TooMany(usize),
}

fn list(currencies: &[(Currency, u64)]) -> String {
    let each = currencies.iter().map(|(currency, many)| format!("{currency}: {many}"));
    each.collect::<Vec<_>>().join(", ")
}

impl ExclusionCounts {
    fn add(&mut self, other: Self) {
        self.shed += other.shed;
        self.unreadable += other.unreadable;
        self.no_generation += other.no_generation;
        self.cut += other.cut;
        self.tests += other.tests;
        self.other_currency += other.other_currency;
        self.not_admitted += other.not_admitted;
        self.agreed += other.agreed;
        self.in_group += other.in_group;
        self.outranked += other.outranked;
    }
}

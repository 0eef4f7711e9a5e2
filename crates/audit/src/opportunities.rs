//! What one buyer met: for each impression that it bid on, when, the price to beat, and what the
//! impression was worth to it.
//!
//! Owns which bids are a buyer's, which impressions can be told of, and what is left out and counted.
//! Money is in one currency, that of the auctions. Knows nothing of budgets, nor of what is done with
//! what it finds.

mod search;
#[cfg(test)]
mod tests;

use eventlog::ReadError;
use units::{Cpm, Currency};

use crate::generations::Problems;
use crate::log::lane::Damage;

pub use search::opportunities;

/// Whose bids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buyer {
    /// Those that name this campaign (`Bid.cid`).
    Campaign(String),
    /// Those of a seat.
    Seat {
        /// Of this DSP; `None`: of any that has a seat of that name.
        dsp: Option<String>,
        /// The seat.
        seat: String,
    },
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Whose bids.
    pub buyer: Buyer,
    /// What every impression was worth to the buyer, per 1000, in the auction's currency, before the
    /// discount of a deal; `None`: what was bid for it.
    pub value: Option<Cpm>,
    /// Auctions in this currency alone; `None`: in whichever all of them are.
    pub currency: Option<Currency>,
    /// Most opportunities that are held; 24 bytes each.
    pub most: usize,
}

/// One impression that was bid on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opportunity {
    /// When the auction's request came, in microseconds of Unix time.
    pub time_us: u64,
    /// The price to beat, for the impressions of one display: the least that would have won; at second
    /// price what a bid of the value would have paid, where that is more.
    pub market_price: Cpm,
    /// What they were worth.
    pub value: Cpm,
}

/// What a buyer met.
#[derive(Debug, Default)]
pub struct Opportunities {
    /// In order of time.
    pub list: Vec<Opportunity>,
    /// Of all their prices; `None` where there are none.
    pub currency: Option<Currency>,
    /// How many were held at first price; the others at second.
    pub first_price: u64,
    /// How many of them the buyer won.
    pub wins: u64,
    /// The clearing prices of these, in nanos.
    pub paid_nanos: u128,
    /// Bids of the buyer's in all auctions that were wanted.
    pub bids: u64,
    /// What is not in the list.
    pub left_out: LeftOut,
    /// What is wrong with the lane of auctions.
    pub damage: Damage,
    /// What is wrong with the lane of generations.
    pub generations: Problems,
}

/// What is not told of, in the order in which it is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Auctions that were not recorded, by what gaps say.
    pub shed: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
    /// Auctions whose generation is not in the record, where it has to be known.
    pub no_generation: u64,
    /// Auctions with bids left out of their record.
    pub cut: u64,
    /// Auctions in which no money moved.
    pub tests: u64,
    /// Auctions in another currency than the one that was asked for.
    pub other_currency: u64,
    /// Impressions for which the buyer's bid was refused, whatever its price.
    pub not_admitted: u64,
    /// Impressions that were bid on at an agreed price.
    pub agreed: u64,
    /// Impressions that were to be won with others of a group.
    pub in_group: u64,
    /// Impressions that no price would have won.
    pub outranked: u64,
}

/// Why nothing is found out.
#[derive(Debug, thiserror::Error)]
pub enum OpportunityError {
    /// The record cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are auctions in several currencies, with so many impressions each.
    #[error("the bids are in several currencies ({})", list(.0))]
    Currencies(Vec<(Currency, u64)>),
    /// More than are held.
    #[error("there are more than {0} impressions that were bid on")]
    TooMany(usize),
}

fn list(currencies: &[(Currency, u64)]) -> String {
    let each = currencies.iter().map(|(currency, many)| format!("{currency}: {many}"));
    each.collect::<Vec<_>>().join(", ")
}

impl LeftOut {
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

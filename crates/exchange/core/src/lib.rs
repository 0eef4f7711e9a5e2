//! The rules of an auction: who is asked, what counts, who wins and what it costs.
//!
//! Pure: no socket, clock, thread or random source. Time, keys and identifiers are arguments, and
//! every price is an integer. How requests arrive and DSPs are reached is `exchange-serve`'s
//! business.

#![deny(clippy::float_arithmetic)]

mod answer;
mod auction;
mod blocks;
mod clear;
mod eligibility;
mod fate;
#[cfg(test)]
mod fixtures;
mod floors;
mod judge;
mod macros;
mod market;
mod offer;
mod rates;
mod schedule;
mod tie;

pub use answer::{Sale, no_bid, response, sales};
pub use auction::{Auction, AuctionType, Refusal};
pub use clear::{Clearing, Entry, Group, Seat, Win, clear};
pub use eligibility::{Ask, NotAsked, eligible};
pub use fate::Fate;
pub use judge::{Answer, BIDS_MAX, JudgedBid, Judgement, ResponseFate, judge};
pub use macros::MacroValues;
pub use market::{DealTerms, Dsp, FloorRule, Market, PublisherTerms, Publishers, SupplyChainNode};
pub use offer::outbound;
pub use rates::Rates;
pub use schedule::{Limits, Schedule};
pub use tie::TieKey;

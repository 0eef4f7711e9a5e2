//! The rules of an auction: who is asked, what counts, who wins and what it costs.
//!
//! Pure: no socket, clock, thread or random source. Time, keys and identifiers are arguments, and
//! every price is an integer. How requests arrive and DSPs are reached is `exchange-serve`'s
//! business.

#![deny(clippy::float_arithmetic)]

mod answer;
mod auction;
mod auction_id;
mod blocks;
mod clear;
pub mod delivery;
mod domains;
mod eligibility;
pub mod explain;
mod fate;
#[cfg(test)]
mod fixtures;
mod floors;
mod format;
pub mod guard;
pub mod house;
mod html;
mod judge;
mod lists;
mod loads;
mod macros;
mod market;
mod notices;
mod offer;
mod offered;
mod owed;
mod playback;
mod pricing;
mod privacy;
mod rates;
pub mod record;
mod reservation;
mod schedule;
mod seats;
mod steps;
mod targeting;
mod tie;
mod values;

pub use answer::{Sale, no_bid, response, sales};
pub use auction::{Auction, AuctionType, Refusal};
pub use auction_id::AuctionIds;
pub use clear::{Clearing, Entry, Group, Seat, Win, clear};
pub use eligibility::{Ask, Choosing, NotAsked, eligible, eligible_house};
pub use fate::Fate;
pub use judge::{Answer, BIDS_MAX, JudgedBid, Judgement, Judging, ResponseFate, judge};
pub use macros::{LateValues, MacroValues, VALUE_BYTES_MAX, macros_len};
pub use market::{
    BidsReturned, DealTerms, Dsp, FloorRule, Market, NoticeMode, PublisherTerms, Publishers,
    SupplyChainNode,
};
pub use notices::{
    BeaconBase, BilledSale, Claims, Cleared, Conclusion, Fetched, KeyRing, Lifetimes, NotSent,
    Notice, NoticeTarget, Sealing, TOKEN_BYTES_MAX, TokenError, TokenId, URL_BYTES_MAX, Unmarked,
    Unsent, Wanted, checked_markup, conclude, markup_wanted,
};
pub use offer::outbound;
pub use offered::{BIDS_RETURNED_MAX, offer_others};
pub use openrtb::NoticeKind;
pub use owed::{Owed, owed};
pub use pricing::Terms;
pub use privacy::TrackingSignals;
pub use rates::Rates;
pub use reservation::Reservation;
pub use schedule::{Limits, Schedule};
pub use seats::Seats;
pub use steps::STEPS_MAX;
pub use targeting::{Region, Targeting, UserIdNeed};
pub use tie::TieKey;

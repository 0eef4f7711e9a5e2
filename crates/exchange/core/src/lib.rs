//! The rules of an auction: eligibility, judging, clearing and notices.
//!
//! Pure: no socket, clock, thread or random source. Time, keys and ids are arguments; prices are
//! integers. `exchange-serve` receives requests and calls DSPs.

#![deny(clippy::float_arithmetic)]

mod answering;
mod asking;
mod auction;
pub mod campaigns;
mod clearing;
mod creatives;
pub mod explain;
#[cfg(test)]
mod fixtures;
mod judging;
mod market;
mod notices;
pub mod record;

pub use openrtb::NoticeKind;

pub use answering::notice_url::{NotSent, NoticeTarget, URL_BYTES_MAX};
pub use answering::other_bids::{BIDS_RETURNED_MAX, offer_others};
pub use answering::response::{no_bid, response};
pub use answering::sale::{Sale, sales};
pub use answering::win_markup::{FetchedMarkup, MarkupRequest, checked_markup, markup_wanted};
pub use asking::eligibility::{BidderCall, DspSelection, eligible, eligible_direct};
pub use asking::guard;
pub use asking::mask::{GeoMask, Masks};
pub use asking::not_asked::NotAsked;
pub use asking::outbound::outbound;
pub use auction::enriched::{AuctionEnrichment, EnrichmentOutcome, KnownData};
pub use auction::fate::Fate;
pub use auction::id::AuctionIds;
pub use auction::schedule::{AuctionSchedule, TimeLimits};
pub use auction::steps::STEPS_MAX;
pub use auction::terms::AuctionType;
pub use auction::{Auction, AuctionRefusal};
pub use clearing::clear::{BidGroup, Clearing, ClearingEntry, Seat, Win, clear};
pub use creatives::macros::{LateValues, MacroValues, VALUE_BYTES_MAX, macros_len};
pub use judging::judge::{BIDS_MAX, DspAnswer, Judge, JudgedBid, Judgement, ResponseFate, judge};
pub use judging::win_cost::{WinCost, win_cost};
pub use market::enrichment::{
    ENRICHMENT_BYTES_MAX, ENRICHMENTS_MAX, Enrichment, EnrichmentLoad, EnrichmentPlace,
    RequestValue,
};
pub use market::lifetimes::Lifetimes;
pub use market::rates::Rates;
pub use market::seats::Seats;
pub use market::signals::TrackingSignals;
pub use market::size::AdSize;
pub use market::sold::{SoldDeal, SoldDeals};
pub use market::targeting::{Region, Targeting, UserIdNeed};
pub use market::tie::TieKey;
pub use market::{
    BidsReturned, DealTerms, Dsp, FloorRule, Market, NoticeMode, PublisherTerms, Publishers,
    SupplyChainNode,
};
pub use notices::cached_markup::{CacheUrl, MarkupKind, with_cached_markup};
pub use notices::conclude::{
    BeaconBase, ClearedAuction, Conclusion, PlannedNotice, SaleBilledNow, Sealing, UnsentNotice,
    conclude,
};
pub use notices::delivery;
pub use notices::markup::no_beacon::NoBeacon;
pub use notices::reservation::Reservation;
pub use notices::token::{BeaconTokenError, Claims, KeyRing, TOKEN_BYTES_MAX, TokenId};

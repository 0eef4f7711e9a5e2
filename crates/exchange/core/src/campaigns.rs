//! Direct campaigns: the exchange's own demand, which bids next to the DSPs.
//!
//! In an auction they are one more DSP whose seats are their accounts: their bids form a bid
//! response and are judged like others. This module matches campaigns to impressions and picks
//! creatives and deals; [`CampaignBidder`] decides and paces what they spend. A [`Catalogue`] is
//! immutable and shared; each shard searches it with its own [`SearchScratch`], which stops
//! allocating once grown.

mod bidder;
mod bidding;
mod campaign;
mod catalogue;
mod creative;
mod interner;
mod matching;
mod offers;
mod probe;
mod scratch;
mod targeting;

pub use bidder::{BiddingLimits, CampaignBidder, DirectAnswer, DirectBid};
pub use campaign::{BiddingRules, CampaignPrice, DirectCampaign};
pub use catalogue::Catalogue;
pub use creative::{Creative, CreativeProblem, CreativeSpec, MARKUP_BYTES_MAX};
pub use interner::Interner;
pub use offers::ACCOUNTS_MAX;
pub use probe::{Criterion, Probe, ProbeCounts};
pub use scratch::SearchScratch;
pub use targeting::{CampaignTargeting, KeyValues, MatchList, PagePrefix};

#[cfg(test)]
mod tests;

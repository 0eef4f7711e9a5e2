//! Direct campaigns: the exchange's own demand, which bids next to the DSPs.
//!
//! To the auction, direct campaigns are one more DSP whose seats are their accounts: their bids form a
//! bid response and are judged like any other. This module matches campaigns to impressions and picks
//! creatives and deals. [`CampaignBidder`] decides what a campaign may spend and how it is paced.
//!
//! A [`Catalogue`] is immutable and shared. Each shard searches it with its own [`SearchScratch`],
//! which stops allocating once it has grown.

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

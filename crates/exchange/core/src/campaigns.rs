//! Direct campaigns: the exchange's own demand, which bids next to the DSPs.
//!
//! In an auction they are one more DSP whose seats are their accounts; their bids are judged like
//! others. This module matches campaigns to impressions and picks creatives and deals;
//! [`CampaignBidder`] decides and paces spending. Shards share an immutable [`Catalogue`], and each
//! searches it with its own [`SearchScratch`].

mod bidder;
mod bidding;
mod campaign;
mod candidates;
mod catalogue;
mod creative;
mod interner;
mod matching;
mod probe;
mod scratch;
mod targeting;

pub use bidder::{BiddingLimits, CampaignBidder, DirectAnswer, DirectBid, DirectCall};
pub use campaign::{BiddingRules, CampaignPrice, DirectCampaign};
pub use candidates::ACCOUNTS_MAX;
pub use catalogue::Catalogue;
pub use creative::{Creative, CreativeProblem, CreativeSpec, MARKUP_BYTES_MAX};
pub use interner::Interner;
pub use probe::{Criterion, Probe, ProbeCounts};
pub use scratch::SearchScratch;
pub use targeting::{CampaignTargeting, KeyValues, MatchList, PagePrefix};

#[cfg(test)]
mod tests;

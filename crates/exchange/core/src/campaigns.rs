//! House campaigns: what accounts of our own bid in an auction, beside the DSPs.
//!
//! To the auction the house is one more DSP, whose seats are the accounts: its bids are written as a
//! bid response and judged as any DSP's. Here is decided which campaigns come to an impression, with
//! which creative and under which deal; what a campaign may spend and how it is paced is decided
//! behind [`CampaignBidder`], and who wins is not decided here.
//!
//! A [`Catalogue`] is immutable and shared; what an auction needs to search it is in a [`SearchScratch`] of
//! its shard. Once that is warm nothing is allocated.

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

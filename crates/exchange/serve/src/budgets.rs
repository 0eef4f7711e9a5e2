//! What auctions may spend of accounts, and what is counted of campaigns.

pub(crate) mod billing;
pub mod campaigns;
pub(crate) mod funnels;
pub(crate) mod shard;

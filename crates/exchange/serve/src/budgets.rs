//! Budgets of auctions, and counts of campaigns.

pub(crate) mod billing;
pub mod campaigns;
pub(crate) mod funnels;
pub(crate) mod remote;
pub(crate) mod shard;

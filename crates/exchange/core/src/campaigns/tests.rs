//! Bids of direct campaigns: targeting, creatives and ranking. The judge accepts every bid, for any
//! request and catalogue.

mod bids;
mod fixtures;
mod funnel;
mod limits;
mod model;
mod properties;
mod targeting;

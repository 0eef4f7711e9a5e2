//! Bids of direct campaigns: each key of targeting, creatives, and ranking. The judge accepts every bid,
//! whatever the request and the catalogue.

mod bids;
mod fixtures;
mod funnel;
mod limits;
mod model;
mod properties;
mod targeting;

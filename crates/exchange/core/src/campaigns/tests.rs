//! The house's bids: each key of its targeting, what it may show, whose bids are best; and whatever
//! the request and the catalogue, that a judge finds nothing wrong with what is written.

mod bids;
mod fixtures;
mod funnel;
mod limits;
mod model;
mod properties;
mod targeting;

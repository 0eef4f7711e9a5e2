//! How a lot's bids stand: what its rules know of a bid, and what they make of all bids.

use std::fmt;

use serde::{Serialize, Serializer};
use units::Cpm;

/// A bidder as others see it: numbered from 1 in the order of first accepted bids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LotAlias(pub u32);

impl fmt::Display for LotAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bidder {}", self.0)
    }
}

impl Serialize for LotAlias {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An accepted bid as the rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberedBid {
    /// From 1, in the order of acceptance.
    pub(super) number: u32,
    pub(super) bidder: LotAlias,
    pub(super) maximum: Cpm,
    pub(super) received_ms: u64,
}

/// The bid that wins at the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WinningBid {
    pub(super) bid: NumberedBid,
    /// What it pays, at most its maximum.
    pub(super) price: Cpm,
}

/// What the public may know of the bids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LotStanding {
    /// None before the first bid, or while it is secret.
    pub(super) price: Option<Cpm>,
    /// None before the first bid, or while it is secret.
    pub(super) leader: Option<LotAlias>,
    /// None if there is no reserve, or while it is secret.
    pub(super) reserve_met: Option<bool>,
}

//! How a lot's bids stand.

use std::fmt;

use serde::{Serialize, Serializer};

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

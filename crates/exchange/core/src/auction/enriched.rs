//! What is known about an auction's request beyond what it says.

use std::sync::Arc;
use std::time::Duration;

use openrtb::DataSpot;
use strum::{FromRepr, IntoStaticStr, VariantArray};

use crate::market::enrichment::EnrichmentPlace;

/// Data about a value, as it is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownData {
    /// What [`crate::Enrichment::text`] made of it. None if no provider has data about
    /// the value.
    pub text: Option<Arc<str>>,
    /// Time since it was fetched.
    pub age: Duration,
    /// Whether it has expired, or lacks a part.
    pub is_stale: bool,
}

/// What one enrichment does for one auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuctionEnrichment {
    /// Its outcome.
    pub outcome: EnrichmentOutcome,
    /// What is added to the request. None if nothing is.
    pub text: Option<Arc<str>>,
    /// Time since it was fetched.
    pub age: Duration,
}

/// The outcome of an enrichment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum EnrichmentOutcome {
    /// Its data is added.
    Added = 1,
    /// Its data is added though it has expired; it is being looked up again.
    Stale = 2,
    /// It is known that there is no data about the value.
    Empty = 3,
    /// The data is not in memory; it is being looked up.
    Unknown = 4,
    /// The request has no such value.
    NoValue = 5,
    /// The request's privacy signals forbid it.
    Withheld = 6,
    /// The request has something else in the place of the data.
    NoPlace = 7,
    /// The request's value cannot be looked up.
    Unfit = 8,
}

units::labelled!(EnrichmentOutcome);

impl EnrichmentOutcome {
    /// Whether data is added.
    pub const fn is_added(self) -> bool {
        matches!(self, Self::Added | Self::Stale)
    }
}

/// What all enrichments do for one auction.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuctionEnrichments {
    /// In the market's order. Empty if there was no look-up.
    pub(crate) all: Vec<AuctionEnrichment>,
    /// Where the data goes, by place, for places that were looked for. The inner None means that the
    /// request has something else there.
    pub(crate) spots: [Option<Option<DataSpot>>; EnrichmentPlace::ALL.len()],
}

//! What an auction needs to search a catalogue, kept by its shard from one auction to the next, so
//! that nothing is allocated.

use openrtb::codes::MediaType;
use units::{Cpm, Ratio};

use super::offers::Offers;
use crate::campaigns::catalogue::attributes::BlockedAttributes;
use crate::campaigns::catalogue::index::Bits;

/// A shard's room for searches; it may be used for any catalogue.
#[derive(Clone, Debug, Default)]
pub struct SearchScratch {
    /// Text in small letters, or in capitals.
    pub(super) text: String,
    /// Campaigns that the request comes to, whatever the impression.
    pub(super) matched: Bits,
    /// Those that an impression comes to.
    pub(super) at_imp: Bits,
    pub(super) spare: Bits,
    pub(super) narrowed: Bits,
    /// From each currency of the catalogue to the auction's.
    pub(super) ratios: Vec<Option<Ratio>>,
    /// Seats that may bid.
    pub(super) seats: Bits,
    /// Key values that the request tells, and with these those of an impression.
    pub(super) key_values: Bits,
    pub(super) key_values_at_imp: Bits,
    pub(super) blocked: BlockedAttributes,
    /// Deals of an impression that the catalogue knows; more than that are room.
    pub(super) deals: Vec<DealScratch>,
    pub(super) deals_len: usize,
    /// Floors of an impression, as far as they were worked out.
    pub(super) floors: Vec<(FloorKey, Cpm)>,
    /// What one campaign may show at an impression, and under which deal.
    pub(super) choices: Vec<AdChoice>,
    pub(super) offers: Offers,
}

/// A deal on offer.
#[derive(Clone, Debug, Default)]
pub(super) struct DealScratch {
    /// Its position among the auction's.
    pub(super) index: usize,
    /// Its number in the catalogue.
    pub(super) number: u32,
    /// Seats that may use it; without a list any.
    pub(super) lists_seats: bool,
    pub(super) seats: Bits,
    /// Advertisers that may use it; without a list any.
    pub(super) lists_domains: bool,
    pub(super) domains: Bits,
}

/// What a floor depends on, at one impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloorKey {
    /// The deal, by position among the auction's.
    pub(super) deal: Option<usize>,
    pub(super) format: MediaType,
    pub(super) size: Option<(u32, u32)>,
    pub(super) dur: Option<u32>,
}

/// Something to show, and under which deal.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdChoice {
    pub(super) deal: Option<usize>,
    /// By position in the catalogue.
    pub(super) ad: usize,
}

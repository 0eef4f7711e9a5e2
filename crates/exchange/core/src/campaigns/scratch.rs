//! Buffers for searching a catalogue. Shards reuse them, so that searches do not allocate.

use openrtb::codes::MediaType;
use units::{Cpm, Ratio};

use super::candidates::BidCandidates;
use crate::campaigns::catalogue::attributes::BlockedAttributes;
use crate::campaigns::catalogue::index::Bits;
use crate::market::size::AdSize;

/// A shard's search buffers, for any catalogue.
#[derive(Clone, Debug, Default)]
pub struct SearchScratch {
    pub(super) text: String,
    pub(super) matched: Bits,
    pub(super) at_imp: Bits,
    pub(super) spare: Bits,
    pub(super) narrowed: Bits,
    pub(super) ratios: Vec<Option<Ratio>>,
    pub(super) seats: Bits,
    /// Key values of the request, and of the request and the impression.
    pub(super) key_values: Bits,
    pub(super) key_values_at_imp: Bits,
    pub(super) blocked: BlockedAttributes,
    /// The first `deals_len` are the impression's deals that the catalogue knows.
    pub(super) deals: Vec<DealScratch>,
    pub(super) deals_len: usize,
    pub(super) floors: Vec<(FloorKey, Cpm)>,
    pub(super) choices: Vec<AdChoice>,
    pub(super) candidates: BidCandidates,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DealScratch {
    pub(super) index: usize,
    pub(super) number: u32,
    pub(super) lists_seats: bool,
    pub(super) seats: Bits,
    pub(super) lists_domains: bool,
    pub(super) domains: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloorKey {
    pub(super) deal: Option<usize>,
    pub(super) format: MediaType,
    pub(super) size: Option<AdSize>,
    pub(super) dur: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AdChoice {
    pub(super) deal: Option<usize>,
    pub(super) ad: usize,
}

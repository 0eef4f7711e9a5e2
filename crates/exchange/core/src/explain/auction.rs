//! The auction to explain, and the display of texts from outside.

use openrtb::BidRequest;
use openrtb::codes::NoBidReason;

use crate::answering::sale::Sale;
use crate::asking::guard::GuardLimits;
use crate::asking::not_asked::NotAsked as Reason;
use crate::auction::Auction;
use crate::auction::enriched::AuctionEnrichment;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing as Cleared;
use crate::judging::judge::{DspAnswer as Answered, Judgement};
use crate::market::Market;
use crate::market::lifetimes::Lifetimes;
use crate::notices::conclude::BeaconBase;
use crate::record::RecordedCall;

/// Limit of listed losing bids, and of ranked bids per impression.
pub(super) const BIDS_MAX: usize = 512;
pub(super) const RANKED_MAX: usize = 64;
pub(super) const NOTICES_MAX: usize = 256;
/// Limit of displayed text from a caller or a DSP, and of displayed lists.
pub(super) const TEXT_CHARS_MAX: usize = 120;
pub(super) const LISTED_MAX: usize = 8;

/// A finished auction.
#[derive(Clone, Copy, Debug)]
pub struct FinishedAuction<'h> {
    /// Our auction id.
    pub id: &'h str,
    /// The caller's request, validated.
    pub request: &'h BidRequest<'h>,
    /// When it came, in milliseconds of Unix time.
    pub at_unix_ms: u64,
    /// Its configuration.
    pub market: &'h Market,
    /// What each enrichment did. Empty if there was no look-up.
    pub enrichments: &'h [AuctionEnrichment],
    /// Limits of each DSP, in market order. Empty if unknown.
    pub guards: &'h [GuardLimits],
    /// Outcomes by position of the DSP in the market. DSPs without one were not reached.
    pub dsps: &'h [(usize, DspOutcome<'h>)],
    /// Base URL and lifetimes of beacons. None if all publishers' notices are passed through.
    pub sealed: Option<(&'h BeaconBase, &'h Lifetimes)>,
    /// Why nothing is sold, if nothing is.
    pub no_bid: NoBidReason,
}

/// The outcome of one DSP.
#[derive(Clone, Copy, Debug)]
pub enum DspOutcome<'h> {
    /// It was not asked.
    NotAsked(Reason),
    /// It was asked.
    Asked {
        /// The call. [`explain`](super::explain) judges the answer itself.
        call: RecordedCall,
        /// The answer's body, if it counts.
        body: Option<&'h [u8]>,
    },
}

pub(super) struct ReplayedAuction<'h> {
    pub(super) finished: &'h FinishedAuction<'h>,
    pub(super) auction: &'h Auction<'h>,
    pub(super) answers: Vec<Answered<'h>>,
    pub(super) judgement: Judgement<'h>,
    pub(super) clearing: Cleared,
    pub(super) sales: Vec<Sale>,
}

impl ReplayedAuction<'_> {
    pub(super) fn fate(&self, bid: usize) -> Fate {
        self.clearing.fate(self.judgement.bids[bid].entry)
    }

    pub(super) fn dsp_id(&self, dsp: usize) -> String {
        shown(&self.auction.market.dsps[dsp].id)
    }
}

pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => [&text[..end], "…"].concat(),
    }
}

/// A list as `[a, b, … and 3 more]`.
pub(super) fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut items = items.into_iter();
    let first: Vec<_> = items.by_ref().take(LISTED_MAX).map(|item| shown(item.as_ref())).collect();
    let more = items.count();
    let first = first.join(", ");
    if more == 0 { format!("[{first}]") } else { format!("[{first}, … and {more} more]") }
}

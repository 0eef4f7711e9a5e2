//! An auction that is explained, and how texts of others are shown in it.

use openrtb::BidRequest;
use openrtb::codes::NoBidReason;

use crate::answering::sale::Sale;
use crate::asking::guard::GuardLimits;
use crate::asking::not_asked::NotAsked as Reason;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::Clearing as Cleared;
use crate::judging::judge::{DspAnswer as Answered, Judgement};
use crate::market::Market;
use crate::market::lifetimes::Lifetimes;
use crate::notices::conclude::BeaconBase;
use crate::record::RecordedCall;

/// Bids that lost and are listed all the same; of rankings, so many bids of each impression.
pub(super) const BIDS_MAX: usize = 512;
pub(super) const RANKED_MAX: usize = 64;
/// Notices of each sort that are listed.
pub(super) const NOTICES_MAX: usize = 256;
/// Longest shown of a text that a caller or a DSP has chosen, and of a list how much.
pub(super) const TEXT_CHARS_MAX: usize = 120;
pub(super) const LISTED_MAX: usize = 8;

/// An auction that is over.
#[derive(Clone, Copy, Debug)]
pub struct FinishedAuction<'h> {
    /// Our id of it.
    pub id: &'h str,
    /// What the caller sent, validated.
    pub request: &'h BidRequest<'h>,
    /// By what it was held.
    pub market: &'h Market,
    /// What governs each DSP, in the market's order; empty where it is not known.
    pub guards: &'h [GuardLimits],
    /// What came of each DSP, by position in the market; those that are absent were not reached.
    pub dsps: &'h [(usize, DspOutcome<'h>)],
    /// What notices would be sealed for; `None` when every publisher's are passed through.
    pub sealed: Option<(&'h BeaconBase, &'h Lifetimes)>,
    /// Why nothing is sold, if nothing is.
    pub no_bid: NoBidReason,
}

/// What came of one DSP.
#[derive(Clone, Copy, Debug)]
pub enum DspOutcome<'h> {
    /// It was not asked.
    NotAsked(Reason),
    /// It was.
    Asked {
        /// How the call went; of the answer in its body, [`explain`](super::explain) finds out itself.
        call: RecordedCall,
        /// The body of an answer that counts.
        body: Option<&'h [u8]>,
    },
}

/// The replayed auction.
pub(super) struct ReplayedAuction<'h> {
    pub(super) hearing: &'h FinishedAuction<'h>,
    pub(super) auction: &'h Auction<'h>,
    pub(super) answers: Vec<Answered<'h>>,
    pub(super) judgement: Judgement<'h>,
    pub(super) clearing: Cleared,
    pub(super) sales: Vec<Sale>,
}

impl ReplayedAuction<'_> {
    pub(super) fn fate(&self, bid: usize) -> Fate {
        match self.judgement.bids[bid].verdict {
            Ok(entry) => self.clearing.fates[entry],
            Err(fate) => fate,
        }
    }

    pub(super) fn dsp_id(&self, dsp: usize) -> String {
        shown(&self.auction.market.dsps[dsp].id)
    }
}

/// The start of a text that somebody else has chosen.
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

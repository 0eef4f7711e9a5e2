//! How an auction came to its end, step by step, for people: who was asked and why not, every bid
//! and its fate, the arithmetic of clearing, and who would be told what.
//!
//! The auction is held once more on the answers that it had, by the same functions: no number here
//! is made by others than those that clear. What the explanation is for, and how it looks, is not
//! known here.

mod asking;
mod bids;
mod clearing;
mod document;
mod fates;
mod notices;
mod terms;

use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, Invalid};

use crate::clear::Clearing as Cleared;
use crate::guard::GuardLimits;
use crate::judge::Judgement;
use crate::record::Call;
use crate::{
    Answer as Answered, Auction, BeaconBase, Fate, Lifetimes, Market, NotAsked as Reason, Refusal,
    Sale, clear, judge, offer_others, sales,
};

pub use asking::response_content;
pub use document::*;

/// Bids that lost and are listed all the same; of rankings, so many bids of each impression.
const BIDS_MAX: usize = 512;
const RANKED_MAX: usize = 64;
/// Notices of each sort that are listed.
const NOTICES_MAX: usize = 256;
/// Longest shown of a text that a caller or a DSP has chosen, and of a list how much.
const TEXT_CHARS_MAX: usize = 120;
const LISTED_MAX: usize = 8;

/// An auction that is over.
#[derive(Clone, Copy, Debug)]
pub struct Hearing<'h> {
    /// Our id of it.
    pub id: &'h str,
    /// What the caller sent, validated.
    pub request: &'h BidRequest<'h>,
    /// By what it was held.
    pub market: &'h Market,
    /// What governs each DSP, in the market's order; empty where it is not known.
    pub guards: &'h [GuardLimits],
    /// What came of each DSP, by position in the market; those that are absent were not reached.
    pub dsps: &'h [(usize, Came<'h>)],
    /// What notices would be sealed for; `None` when every publisher's are passed through.
    pub sealed: Option<(&'h BeaconBase, &'h Lifetimes)>,
    /// Why nothing is sold, if nothing is.
    pub no_bid: NoBidReason,
}

/// What came of one DSP.
#[derive(Clone, Copy, Debug)]
pub enum Came<'h> {
    /// It was not asked.
    NotAsked(Reason),
    /// It was.
    Asked {
        /// How the call went; of the answer in its body, [`explain`] finds out itself.
        call: Call,
        /// The body of an answer that counts.
        body: Option<&'h [u8]>,
    },
}

/// Explains an auction.
///
/// # Errors
///
/// When the request cannot be auctioned: what is wrong with it, and where.
pub fn explain(hearing: &Hearing<'_>) -> Result<Explanation, Invalid> {
    let mut request = hearing.request.clone();
    request.test = None;
    let mut explanation = Explanation {
        format: FORMAT,
        auction_id: hearing.id.to_owned(),
        request: terms::request(hearing.request),
        terms: None,
        rates: Vec::new(),
        imps: Vec::new(),
        dsps: Vec::new(),
        bids: Vec::new(),
        clearing: Vec::new(),
        no_bid: None,
        response: None,
        notices: Notices::default(),
        omitted: Omitted::default(),
    };
    let auction = match Auction::new(hearing.id, &request, hearing.market) {
        Ok(auction) => auction,
        Err(Refusal::Invalid(invalid)) => return Err(invalid),
        Err(Refusal::NoBid(reason)) => {
            explanation.no_bid = Some(terms::no_bid(reason));
            return Ok(explanation);
        }
    };
    Held::new(hearing, &auction).write(&mut explanation);
    Ok(explanation)
}

/// The auction, held once more.
struct Held<'h> {
    hearing: &'h Hearing<'h>,
    auction: &'h Auction<'h>,
    answers: Vec<Answered<'h>>,
    judgement: Judgement<'h>,
    clearing: Cleared,
    sales: Vec<Sale>,
}

impl<'h> Held<'h> {
    fn new(hearing: &'h Hearing<'h>, auction: &'h Auction<'h>) -> Self {
        let answers: Vec<_> = hearing
            .dsps
            .iter()
            .filter_map(|(_, came)| match came {
                Came::Asked { call, body: Some(body) } => Some(Answered { ask: call.ask, body }),
                _ => None,
            })
            .collect();
        let mut judgement = judge(auction, &answers);
        let mut clearing = cleared(auction, &judgement);
        while notices::bar_unreachable(hearing, auction, &mut judgement, &clearing) {
            clearing = cleared(auction, &judgement);
        }
        if hearing.sealed.is_some() {
            offer_others(auction, &judgement, &mut clearing, |_| Ok(()));
        }
        let sales = sales(auction, &judgement, &clearing);
        Self { hearing, auction, answers, judgement, clearing, sales }
    }

    fn write(&self, out: &mut Explanation) {
        out.terms = Some(terms::terms(self.hearing, self.auction));
        out.rates = self.rates();
        out.imps = terms::imps(self.auction);
        out.dsps = self.dsps();
        (out.bids, out.omitted.bids) = self.bids();
        (out.clearing, out.omitted.ranked) = self.clearing();
        if self.sales.is_empty() {
            out.no_bid = Some(terms::no_bid(self.hearing.no_bid));
        }
        (out.response, out.notices, out.omitted.notices) = self.conclusion();
    }

    fn fate(&self, bid: usize) -> Fate {
        match self.judgement.bids[bid].verdict {
            Ok(entry) => self.clearing.fates[entry],
            Err(fate) => fate,
        }
    }

    fn dsp_id(&self, dsp: usize) -> String {
        shown(&self.auction.market.dsps[dsp].id)
    }
}

fn cleared(auction: &Auction<'_>, judgement: &Judgement<'_>) -> Cleared {
    let (entries, groups) = (&judgement.entries, &judgement.groups);
    clear(entries, groups, auction.imps_len(), auction.increment, |_| Ok(()))
}

/// The start of a text that somebody else has chosen.
fn shown(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => [&text[..end], "…"].concat(),
    }
}

/// A list as `[a, b, … and 3 more]`.
fn list(items: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut items = items.into_iter();
    let first: Vec<_> = items.by_ref().take(LISTED_MAX).map(|item| shown(item.as_ref())).collect();
    let more = items.count();
    let first = first.join(", ");
    if more == 0 { format!("[{first}]") } else { format!("[{first}, … and {more} more]") }
}

#[cfg(test)]
mod tests;

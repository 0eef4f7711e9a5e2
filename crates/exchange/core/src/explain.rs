//! How an auction ended, step by step, for people: DSPs and why they were not asked, bids and
//! fates, the arithmetic of clearing, and notices. The functions that clear auctions compute every
//! number, by replaying the answers. Knows nothing of presentation.

mod asking;
mod auction;
mod bids;
mod clearing;
mod document;
mod fates;
mod notices;
mod terms;

use openrtb::InvalidRequest;

use crate::answering::other_bids::offer_others;
use crate::answering::sale::sales;
use crate::auction::{Auction, AuctionRefusal};
use crate::clearing::clear::{Clearing as Cleared, clear};
use crate::judging::judge::{DspAnswer as Answered, Judgement, judge};

pub use asking::response_content;
pub use auction::{DspOutcome, FinishedAuction};
pub use document::*;

use auction::ReplayedAuction;

/// Explains an auction.
///
/// # Errors
/// If the request cannot be auctioned: what is wrong with it, and where.
pub fn explain(finished: &FinishedAuction<'_>) -> Result<Explanation, InvalidRequest> {
    let mut request = finished.request.clone();
    request.test = None;
    let mut explanation = Explanation {
        format: FORMAT,
        auction_id: finished.id.to_owned(),
        request: terms::request(finished.request),
        ..Explanation::default()
    };
    let auction = match Auction::new(finished.id, &request, finished.market) {
        Ok(auction) => {
            let mut auction = auction.offering_sold(finished.at_unix_ms);
            auction.enrichments.all = finished.enrichments.to_vec();
            auction
        }
        Err(AuctionRefusal::Invalid(invalid)) => return Err(invalid),
        Err(AuctionRefusal::NoBid(reason)) => {
            explanation.no_bid = Some(terms::no_bid(reason));
            return Ok(explanation);
        }
    };
    ReplayedAuction::new(finished, &auction).write(&mut explanation);
    Ok(explanation)
}

impl<'h> ReplayedAuction<'h> {
    fn new(finished: &'h FinishedAuction<'h>, auction: &'h Auction<'h>) -> Self {
        let answers: Vec<_> = finished
            .dsps
            .iter()
            .filter_map(|(_, came)| match came {
                DspOutcome::Asked { call, body: Some(body) } => {
                    Some(Answered { ask: call.ask, body })
                }
                _ => None,
            })
            .collect();
        let mut judgement = judge(auction, &answers);
        let mut clearing = cleared(auction, &judgement);
        while notices::bar_unreachable(finished, auction, &mut judgement, &clearing) {
            clearing = cleared(auction, &judgement);
        }
        if finished.sealed.is_some() {
            offer_others(auction, &judgement, &mut clearing, |_| Ok(()));
        }
        let sales = sales(auction, &judgement, &clearing);
        Self { finished, auction, answers, judgement, clearing, sales }
    }

    fn write(&self, out: &mut Explanation) {
        out.terms = Some(terms::terms(self.finished, self.auction));
        out.rates = self.rates();
        out.enrichments = terms::enrichments(self.auction);
        out.imps = terms::imps(self.auction);
        out.dsps = self.dsps();
        (out.bids, out.omitted.bids) = self.bids();
        (out.clearing, out.omitted.ranked) = self.clearing();
        if self.sales.is_empty() {
            out.no_bid = Some(terms::no_bid(self.finished.no_bid));
        }
        (out.response, out.notices, out.omitted.notices) = self.conclusion();
    }
}

fn cleared(auction: &Auction<'_>, judgement: &Judgement<'_>) -> Cleared {
    let (entries, groups) = (&judgement.entries, &judgement.groups);
    clear(entries, groups, auction.imps_len(), auction.increment, |_| Ok(()))
}

#[cfg(test)]
mod tests;

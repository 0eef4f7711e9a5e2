//! A DSP's service: answers bid requests, receives notices, and counts everything.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{AnswerSummary, BidOutcome, SimulatedBidder};
use super::bid_fault::{BidFault, DspBehaviour};
use super::counters::DspCounters;
use super::notice_kind::{DspNotice, NoticeOptions};
use super::notices::{NoticeReceiver, Recent, Seller};
use super::profile::DspProfile;
use crate::server::http::{NO_CONTENT, NOT_FOUND};
use crate::server::{
    ConnectionCounters, HttpMethod, Misbehaviour, ServerRequest, ServiceReply, SimulatedService,
};

#[derive(Debug)]
pub(super) struct DspResponder {
    bidder: SimulatedBidder,
    /// None if it is healthy.
    misbehaviour: Option<Box<Misbehaviour<BidFault>>>,
    notices: NoticeReceiver,
    counters: Arc<DspCounters>,
}

impl DspResponder {
    /// The DSP at `index` of the fleet, reached at `origin`.
    pub(super) fn new(
        profile: DspProfile,
        index: usize,
        origin: String,
        counters: Arc<DspCounters>,
        recent: Recent,
    ) -> Self {
        let notices = NoticeReceiver::new(profile.notice.clone(), recent);
        let bidder = SimulatedBidder::new(profile, index, origin);
        Self { bidder, misbehaviour: None, notices, counters }
    }

    fn answer_bid(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        if let Some(misbehaviour) = &self.misbehaviour
            && let Some((answered, script)) = self.bidder.misbehave(misbehaviour, request)
        {
            self.counters.misbehaved.add(1);
            self.count(answered);
            return ServiceReply::Script(Box::new(script));
        }
        let answered = self.bidder.answer(request.body, out);
        self.count(answered);
        ServiceReply::Whole(answered.delay)
    }

    fn count(&self, answered: AnswerSummary) {
        let counters = &self.counters;
        counters.requests.add(1);
        match answered.outcome {
            BidOutcome::NoBid => counters.no_bids.add(1),
            BidOutcome::Bids(bids) => {
                counters.bid_answers.add(1);
                counters.bids.add(bids as u64);
            }
            BidOutcome::Malformed => counters.connections.malformed.add(1),
            BidOutcome::Spoilt => (),
        }
        if answered.late {
            counters.late.add(1);
        }
    }
}

impl SimulatedService for DspResponder {
    type Fault = BidFault;
    type Change = NoticeOptions;

    fn respond(&mut self, request: &ServerRequest<'_>, out: &mut Vec<u8>) -> ServiceReply {
        if request.method == HttpMethod::Post {
            return self.answer_bid(request, out);
        }
        let Some(notice) = DspNotice::of_path(request.target) else {
            out.extend_from_slice(NOT_FOUND);
            return ServiceReply::AT_ONCE;
        };
        let bidder = &self.bidder;
        let (profile, seed) = (bidder.profile(), bidder.seed());
        let seller = Seller { profile, seed, origin: bidder.origin() };
        match self.notices.receive(notice, request.target, seller, &self.counters.notices) {
            Some(script) => ServiceReply::Script(Box::new(script)),
            None => {
                out.extend_from_slice(NO_CONTENT);
                ServiceReply::Whole(Duration::ZERO)
            }
        }
    }

    fn behave(&mut self, behaviour: &DspBehaviour) {
        self.misbehaviour = Misbehaviour::of(behaviour).map(Box::new);
    }

    fn change(&mut self, options: NoticeOptions) {
        self.notices.set(options);
    }

    fn connections(&self) -> &ConnectionCounters {
        &self.counters.connections
    }
}

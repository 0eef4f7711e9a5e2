//! A DSP behind its server: bid requests are answered, notices received, everything counted.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answered, Bidder, Outcome};
use super::bid_fault::{Behaviour, BidFault};
use super::counters::Counters;
use super::notice_kind::{Notice, NoticeOptions};
use super::notices::{NoticeDesk, Recent, Seller};
use super::profile::DspProfile;
use crate::server::http::{NO_CONTENT, NOT_FOUND};
use crate::server::{ConnectionCounters, HttpRequest, Method, Misbehaviour, Reply, Responder};

/// One DSP.
#[derive(Debug)]
pub(super) struct DspResponder {
    bidder: Bidder,
    /// None if it is healthy.
    misbehaviour: Option<Box<Misbehaviour<BidFault>>>,
    notices: NoticeDesk,
    counters: Arc<Counters>,
}

impl DspResponder {
    /// The DSP at place `index` of the fleet, reached at `origin`.
    pub(super) fn new(
        profile: DspProfile,
        (index, origin): (usize, String),
        (counters, recent): (Arc<Counters>, Recent),
    ) -> Self {
        let notices = NoticeDesk::new(profile.notice.clone(), recent);
        let bidder = Bidder::new(profile, index, origin);
        Self { bidder, misbehaviour: None, notices, counters }
    }

    fn answer_bid(&mut self, request: &HttpRequest<'_>, out: &mut Vec<u8>) -> Reply {
        if let Some(misbehaviour) = &self.misbehaviour
            && let Some((answered, script)) = self.bidder.misbehave(misbehaviour, request)
        {
            self.counters.misbehaved.add(1);
            self.count(answered);
            return Reply::Script(Box::new(script));
        }
        let answered = self.bidder.answer(request.body, out);
        self.count(answered);
        Reply::Whole(answered.delay)
    }

    fn count(&self, answered: Answered) {
        let counters = &self.counters;
        counters.requests.add(1);
        match answered.outcome {
            Outcome::NoBid => counters.no_bids.add(1),
            Outcome::Bids(bids) => {
                counters.bid_answers.add(1);
                counters.bids.add(bids as u64);
            }
            Outcome::Malformed => counters.connections.malformed.add(1),
            Outcome::Spoilt => (),
        }
        if answered.late {
            counters.late.add(1);
        }
    }
}

impl Responder for DspResponder {
    type Fault = BidFault;
    type Change = NoticeOptions;

    fn respond(&mut self, request: &HttpRequest<'_>, out: &mut Vec<u8>) -> Reply {
        if request.method == Method::Post {
            return self.answer_bid(request, out);
        }
        let Some(notice) = Notice::of_path(request.target) else {
            out.extend_from_slice(NOT_FOUND);
            return Reply::AT_ONCE;
        };
        let bidder = &self.bidder;
        let (profile, seed) = (bidder.profile(), bidder.seed());
        let seller = Seller { profile, seed, origin: bidder.origin() };
        let target = (notice, request.target);
        match self.notices.receive(target, seller, &self.counters.notices) {
            Some(script) => Reply::Script(Box::new(script)),
            None => {
                out.extend_from_slice(NO_CONTENT);
                Reply::Whole(Duration::ZERO)
            }
        }
    }

    fn behave(&mut self, behaviour: &Behaviour) {
        self.misbehaviour = Misbehaviour::of(behaviour).map(Box::new);
    }

    fn change(&mut self, options: NoticeOptions) {
        self.notices.set(options);
    }

    fn connections(&self) -> &ConnectionCounters {
        &self.counters.connections
    }
}

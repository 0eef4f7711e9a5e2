//! DSPs and what they were asked for, why others were not asked, and the results.

use openrtb::codes::MediaType;
use openrtb::{BidRequest, bid_texts};

use super::auction::{DspOutcome, ReplayedAuction, list, shown};
use super::document::{ExplainedAnswer, ExplainedCall, ExplainedDsp, ExplainedRefusal};
use crate::asking::guard::GuardLimits;
use crate::asking::not_asked::NotAsked as Reason;
use crate::judging::judge::{BIDS_MAX, ResponseFate};
use crate::market::Dsp as Rules;
use crate::market::size::AdSize;
use crate::market::targeting::{Region, Targeting};
use crate::record::{CallOutcome, RecordedCall};

impl ReplayedAuction<'_> {
    pub(super) fn dsps(&self) -> Vec<ExplainedDsp> {
        let mut dsps: Vec<_> = self.finished.dsps.iter().collect();
        dsps.sort_by_key(|(dsp, _)| *dsp);
        dsps.into_iter().map(|(dsp, came)| self.dsp(*dsp, came)).collect()
    }

    fn dsp(&self, index: usize, came: &DspOutcome<'_>) -> ExplainedDsp {
        let mut dsp =
            ExplainedDsp { id: self.dsp_id(index), asked: None, not_asked: None, answer: None };
        match came {
            DspOutcome::NotAsked(reason) => {
                let why = self.why_not(index, *reason);
                dsp.not_asked = Some(ExplainedRefusal { reason: reason.label().to_owned(), why });
            }
            DspOutcome::Asked { call, body } => {
                dsp.asked = Some(self.asked(call));
                dsp.answer = Some(self.answer(call, *body));
            }
        }
        dsp
    }

    fn asked(&self, call: &RecordedCall) -> ExplainedCall {
        let (imps, deals) = (&self.auction.imps, &self.auction.deals);
        let is_asked = |set: u128, index: usize| set >> index & 1 == 1;
        let imps = imps.iter().enumerate();
        let imps = imps.filter(|(index, _)| is_asked(call.ask.imps.into(), *index));
        let deals = deals.iter().enumerate();
        let deals = deals.filter(|(index, _)| is_asked(call.ask.deals, *index));
        ExplainedCall {
            imps: imps.map(|(_, imp)| shown(imp.id)).collect(),
            deals: deals.map(|(_, deal)| shown(deal.id)).collect(),
            tmax_ms: call.tmax_ms,
        }
    }

    fn answer(&self, call: &RecordedCall, body: Option<&[u8]>) -> ExplainedAnswer {
        let index = self.answers.iter().position(|answer| answer.ask.dsp == call.ask.dsp);
        let mut outcome = call.outcome.label();
        let why = match (index, body) {
            (Some(index), Some(body)) => {
                let fate = self.judgement.responses[index];
                if fate == ResponseFate::Malformed {
                    outcome = CallOutcome::Malformed.label();
                }
                response_content(fate, body)
            }
            _ => sentence(call.outcome).to_owned(),
        };
        let bids = self.judgement.bids.iter().filter(|bid| Some(bid.answer) == index);
        ExplainedAnswer {
            outcome: outcome.to_owned(),
            why,
            latency_us: call
                .latency
                .map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)),
            bids: bids.count(),
        }
    }

    fn why_not(&self, index: usize, reason: Reason) -> String {
        let request = self.auction.request;
        let dsp = &self.auction.market.dsps[index];
        let guard = self.finished.guards.get(index).copied().unwrap_or(GuardLimits::NONE);
        match reason {
            Reason::Publisher => publisher(dsp, request.publisher_id()),
            Reason::Country => country(dsp, request),
            Reason::Device => device(&dsp.targeting, request.device_type()),
            Reason::UserId if self.auction.is_limited(index) => {
                "it wants to know the user, and privacy (COPPA, lmt or dnt) leaves it no id"
                    .to_owned()
            }
            Reason::UserId => {
                "it wants to know the user, and the request has neither its own id of \
                               it nor user.id, user.eids or device.ifa"
                    .to_owned()
            }
            Reason::Sampling => {
                format!("the request is not in its share of {} of all", dsp.targeting.sample)
            }
            Reason::Seats => seats(dsp, request),
            Reason::Impressions => self.impressions(dsp),
            Reason::Paused => "the operator has paused it".to_owned(),
            Reason::Breaker => match guard.breaker {
                Some(breaker) => format!(
                    "over {} of its answers failed, and it is throttled to probes",
                    breaker.error_share_max
                ),
                None => "its answers fail, and it is throttled to probes".to_owned(),
            },
            Reason::Qps => match guard.rate {
                Some(rate) => format!("it is asked {} times per second already", rate.qps),
                None => "it is asked as often per second as may be".to_owned(),
            },
            Reason::InFlight => match guard.in_flight_max {
                Some(max) => format!("{max} calls to it are under way already"),
                None => "as many calls to it are under way as may be".to_owned(),
            },
        }
    }

    fn impressions(&self, dsp: &Rules) -> String {
        let bought = list(MediaType::members(dsp.formats).map(MediaType::label));
        let sizes = dsp.sizes.iter().map(AdSize::to_string);
        let sizes = match dsp.sizes.as_slice() {
            [] => String::new(),
            _ => format!(" with banners of {}", list(sizes)),
        };
        let private = self.auction.imps.iter().any(|imp| imp.imp.is_private());
        let private = match private {
            true => ", or it has none of the deals that a private auction needs",
            false => "",
        };
        format!("no impression has a format and size that it buys: {bought}{sizes}{private}")
    }
}

pub(super) fn sentence(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Answered => "200 with a body",
        CallOutcome::NoBid => "204, or 200 without a body",
        CallOutcome::Late => "not all there when the auction closed, or its own timeout was over",
        CallOutcome::Status => "a status other than 200 and 204",
        CallOutcome::Malformed => "not HTTP, cut off, or a bid response that cannot be read",
        CallOutcome::TooLarge => "larger than response_bytes_max, or with an oversized head",
        CallOutcome::Encoded => "compressed in a way that was not asked for, or not to be undone",
        CallOutcome::Trickle => "it trickled in",
        CallOutcome::Reset => "the connection broke before the answer began",
        CallOutcome::Unreachable => "no connection could be opened",
        CallOutcome::Unresolved => "its name has no address",
        CallOutcome::Saturated => {
            "as many connections are in use, or calls wait for one, as may be"
        }
        CallOutcome::Unsent => "its time was up before a connection was free",
        CallOutcome::Abandoned => "the caller went away before the auction closed",
    }
}

/// A DSP's answer as a sentence, with the place of the fault if it cannot be parsed.
pub fn response_content(fate: ResponseFate, body: &[u8]) -> String {
    let frame = std::str::from_utf8(body).map(bid_texts);
    match (fate, frame) {
        (ResponseFate::Malformed, Err(error)) => {
            format!("the bid response is not UTF-8 at byte {}", error.valid_up_to())
        }
        (ResponseFate::Malformed, Ok(Err(invalid))) => {
            format!("the bid response cannot be read: {}", shown(&invalid.to_string()))
        }
        (ResponseFate::Malformed, _) => "the bid response cannot be read".to_owned(),
        (ResponseFate::TooManyBids, Ok(Ok(response))) => {
            let bids: usize = response.seatbid.iter().flatten().map(|seat| seat.bid.len()).sum();
            format!("{bids} bids in one response: only the first {BIDS_MAX} are judged")
        }
        (ResponseFate::TooManyBids, _) => {
            format!("more than {BIDS_MAX} bids in one response: only the first are judged")
        }
        (ResponseFate::NoBid, Ok(Ok(response))) => match response.nbr {
            Some(nbr) => format!("a bid response without bids, nbr {}", shown(nbr)),
            None => "a bid response without bids".to_owned(),
        },
        (ResponseFate::NoBid, _) => "a bid response without bids".to_owned(),
        (ResponseFate::Bids, _) => "a bid response".to_owned(),
    }
}

fn publisher(dsp: &Rules, publisher: Option<&str>) -> String {
    let Some(id) = publisher else {
        return format!(
            "the request names no publisher, and it buys from {} only",
            list(&dsp.publishers_allowed)
        );
    };
    let name = shown(id);
    if dsp.publishers_blocked.iter().any(|blocked| **blocked == *id) {
        return format!("publisher {name} is among those that it blocks");
    }
    format!("publisher {name} is not among {}", list(&dsp.publishers_allowed))
}

fn country(dsp: &Rules, request: &BidRequest<'_>) -> String {
    let targeting = &dsp.targeting;
    let Some(country) = request.country() else {
        return match dsp.countries.as_slice() {
            [] => "the request tells no country".to_owned(),
            bought => format!("the request tells no country, and it buys in {} only", list(bought)),
        };
    };
    let is_it = |own: &str| own.eq_ignore_ascii_case(country);
    let name = shown(country);
    if !dsp.countries.is_empty() && !dsp.countries.iter().any(|own| is_it(own)) {
        return format!("country {name} is not among {}", list(&dsp.countries));
    }
    if targeting.countries_blocked.iter().any(|own| is_it(own)) {
        return format!("country {name} is among those that it blocks");
    }
    let of_country = |regions: &[Region]| {
        list(regions.iter().filter(|own| is_it(&own.country)).map(|own| &own.region))
    };
    let region = request.region().map_or_else(|| "none".to_owned(), shown);
    if targeting.regions.iter().any(|own| is_it(&own.country)) {
        let bought = of_country(&targeting.regions);
        return format!("of {name} it buys the regions {bought}, and the request's is {region}");
    }
    format!("region {region} of {name} is among those that it blocks")
}

fn device(targeting: &Targeting, device_type: Option<u32>) -> String {
    let bought = (0..16).filter(|bit| targeting.device_types >> bit & 1 == 1);
    let bought = list(bought.map(|bit| bit.to_string()));
    match device_type {
        Some(device_type) => format!("device type {device_type} is not among {bought}"),
        None => format!("the request tells no device type, and it buys {bought} only"),
    }
}

fn seats(dsp: &Rules, request: &BidRequest<'_>) -> String {
    let own = list(dsp.seats.iter());
    let wseat = request.wseat.as_deref().unwrap_or_default().iter().map(|seat| &**seat);
    let bseat = request.bseat.as_deref().unwrap_or_default().iter().map(|seat| &**seat);
    format!("wseat {} and bseat {} leave none of its seats {own}", list(wseat), list(bseat))
}

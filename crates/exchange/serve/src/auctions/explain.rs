//! Explains an auction from its DSPs' outcomes, or rehearses one on given answers.
//!
//! `exchange-core` makes all decisions about money.

use std::cell::RefCell;

use exchange_core::explain::{DspOutcome, Explanation, FinishedAuction, explain};
use exchange_core::record::{CallOutcome, RecordedCall};
use exchange_core::{
    Auction, AuctionEnrichment, AuctionRefusal, AuctionSchedule, DspAnswer, NotAsked, eligible,
};
use openrtb::codes::NoBidReason;
use openrtb::{BidRequest, InvalidRequest, parse_request};
use units::Tick;

use crate::auctions::calls::no_bid_reason;
use crate::auctions::reservations::DirectBids;
use crate::config::ExchangeConfig;
use crate::fanout::Outcomes;

/// Largest `ext.debug`.
const DEBUG_BYTES_MAX: usize = 1024 * 1024;

/// An auction to explain.
pub(crate) struct HeldAuction<'h> {
    pub id: &'h str,
    pub request: &'h BidRequest<'h>,
    /// When the request came.
    pub at_unix_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ExplainRecord {
    dsps: RefCell<Vec<(usize, ExplainOutcome)>>,
    enrichments: RefCell<Vec<AuctionEnrichment>>,
}

#[derive(Debug)]
enum ExplainOutcome {
    NotAsked(NotAsked),
    Asked { call: RecordedCall, body: Vec<u8> },
}

impl ExplainRecord {
    /// Some for a test that asks for an explanation, if its publisher may see prices.
    pub(crate) fn if_requested(request: &BidRequest<'_>, config: &ExchangeConfig) -> Option<Self> {
        let terms = config.market.publishers.terms(request.publisher_id());
        (terms.debug && request.wants_debug()).then(Self::default)
    }

    pub(crate) fn enriched(&self, enrichments: &[AuctionEnrichment]) {
        *self.enrichments.borrow_mut() = enrichments.to_vec();
    }

    pub(crate) fn not_asked(&self, not_asked: &[(usize, NotAsked)]) {
        let outcomes =
            not_asked.iter().map(|(dsp, reason)| (*dsp, ExplainOutcome::NotAsked(*reason)));
        self.dsps.borrow_mut().extend(outcomes);
    }

    /// `calls` are in the order of `outcomes`.
    pub(crate) fn answered(&self, calls: impl Iterator<Item = RecordedCall>, outcomes: &Outcomes) {
        let asked = |(at, call): (usize, RecordedCall)| {
            (call.ask.dsp, ExplainOutcome::asked(call, outcomes.body(at)))
        };
        self.dsps.borrow_mut().extend(calls.enumerate().map(asked));
    }

    pub(crate) fn direct(&self, direct: Option<&DirectBids<'_>>) {
        if let Some(direct) = direct {
            let DspAnswer { ask, body } = direct.answer();
            self.dsps.borrow_mut().push((ask.dsp, ExplainOutcome::asked(direct.call(), body)));
        }
    }

    /// Explains the auction; `no_bid` is set if nothing was sold.
    pub(crate) fn explain(
        &self,
        held: &HeldAuction<'_>,
        config: &ExchangeConfig,
        no_bid: NoBidReason,
    ) -> Result<Explanation, InvalidRequest> {
        let outcomes = self.dsps.borrow();
        let dsps: Vec<_> =
            outcomes.iter().map(|(dsp, outcome)| (*dsp, outcome.dsp_outcome())).collect();
        let notices = config.notices.as_ref();
        explain(&FinishedAuction {
            id: held.id,
            request: held.request,
            at_unix_ms: held.at_unix_ms,
            market: &config.market,
            enrichments: &self.enrichments.borrow(),
            guards: &config.guards,
            dsps: &dsps,
            sealed: notices.map(|notices| (&notices.base, &notices.lifetimes)),
            no_bid,
        })
    }
}

impl ExplainOutcome {
    fn asked(call: RecordedCall, body: &[u8]) -> Self {
        Self::Asked { call, body: body.to_vec() }
    }

    fn dsp_outcome(&self) -> DspOutcome<'_> {
        match self {
            Self::NotAsked(reason) => DspOutcome::NotAsked(*reason),
            Self::Asked { call, body } => DspOutcome::Asked {
                call: *call,
                body: (call.outcome == CallOutcome::Answered).then_some(body.as_slice()),
            },
        }
    }
}

/// Adds `ext.debug` to `response`, a JSON object without `ext`; shortened to [`DEBUG_BYTES_MAX`].
pub(crate) fn with_debug(mut response: String, mut explanation: Explanation) -> String {
    let mut debug = serde_json::to_string(&explanation).expect("it is text and numbers");
    if debug.len() > DEBUG_BYTES_MAX {
        explanation.response = None;
        explanation.omitted.response = true;
        debug = serde_json::to_string(&explanation).expect("it is text and numbers");
    }
    if debug.len() > DEBUG_BYTES_MAX {
        debug = format!(r#"{{"format":{},"too_large":{}}}"#, explanation.format, debug.len());
    }
    let end = response.pop();
    assert!(end == Some('}'), "a response is an object");
    response.extend([r#","ext":{"debug":"#, &debug, "}}"]);
    response
}

/// Explains the auction of `body` under `config` if each DSP answered as `answer` says: the call's
/// outcome and, for [`CallOutcome::Answered`], the body. No time passes, and no call limit applies.
///
/// # Errors
/// The request is refused: what is wrong with it, and where.
pub fn rehearse<'d>(
    config: &ExchangeConfig,
    body: &str,
    id: &str,
    answer: impl Fn(&str) -> (CallOutcome, &'d [u8]),
) -> Result<Explanation, InvalidRequest> {
    let request = parse_request(body)?;
    let record = ExplainRecord::default();
    let no_bid = match ask(config, id, &request, &record, answer) {
        Ok(reason) | Err(AuctionRefusal::NoBid(reason)) => reason,
        Err(AuctionRefusal::Invalid(invalid)) => return Err(invalid),
    };
    record.explain(&HeldAuction { id, request: &request, at_unix_ms: 0 }, config, no_bid)
}

fn ask<'d>(
    config: &ExchangeConfig,
    id: &str,
    request: &BidRequest<'_>,
    record: &ExplainRecord,
    answer: impl Fn(&str) -> (CallOutcome, &'d [u8]),
) -> Result<NoBidReason, AuctionRefusal> {
    let tmax = request.tmax.as_ref().map(|tmax| **tmax);
    let schedule = AuctionSchedule::new(Tick::ZERO, tmax, &config.limits)
        .ok_or(AuctionRefusal::NoBid(NoBidReason::InsufficientAuctionTime))?;
    let auction = Auction::new(id, request, &config.market)?;
    let mut outcomes = Vec::new();
    for (index, dsp) in config.market.dsps.iter().enumerate() {
        match eligible(&auction, index) {
            Err(reason) => record.not_asked(&[(index, reason)]),
            Ok(ask) => {
                let (outcome, body) = answer(&dsp.id);
                let tmax_ms = schedule.dsp_tmax_ms(Tick::ZERO, dsp.timeout, dsp.network_margin);
                let call = RecordedCall { ask, tmax_ms, outcome, sent: None, latency: None };
                record.dsps.borrow_mut().push((index, ExplainOutcome::asked(call, body)));
                outcomes.push(outcome);
            }
        }
    }
    if outcomes.is_empty() {
        return Err(AuctionRefusal::NoBid(NoBidReason::NoEligibleDsp));
    }
    Ok(no_bid_reason(&outcomes, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation() -> Explanation {
        let text = "[exchange]\n[[dsp]]\nid = \"a\"\nurl = \"http://127.0.0.1:9/\"\n";
        let config = runtime::config::parse("test.toml", text, ExchangeConfig::read);
        let config = config.unwrap_or_else(|problems| panic!("{problems}")).expect("it is on");
        let body = r#"{"id":"r","imp":[{"id":"1","banner":{}}]}"#;
        rehearse(&config, body, "a1", |_| (CallOutcome::Late, b"")).expect("the request is right")
    }

    /// The `ext.debug` that is left.
    fn debug(explanation: Explanation) -> serde_json::Value {
        let text = with_debug(r#"{"id":"r"}"#.to_owned(), explanation);
        assert!(text.len() <= DEBUG_BYTES_MAX + 64, "{}", text.len());
        let response: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(response["id"], "r");
        response["ext"]["debug"].clone()
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        let mut explained = explanation();
        explained.response = Some("{}".to_owned());
        let small = debug(explained.clone());
        assert_eq!(
            (&small["response"], &small["omitted"]["response"]),
            (&"{}".into(), &false.into())
        );
        explained.response = Some("x".repeat(DEBUG_BYTES_MAX));
        let without = debug(explained.clone());
        assert!(without["response"].is_null() && without["omitted"]["response"] == true);
        assert_eq!(without["dsps"][0]["answer"]["outcome"], "late");
        explained.auction_id = "x".repeat(DEBUG_BYTES_MAX);
        let too_large = debug(explained);
        assert_eq!(too_large["format"], 1);
        assert!(too_large["too_large"].as_u64() > Some(DEBUG_BYTES_MAX as u64), "{too_large}");
    }
}

//! The load of an exchange: sends bid requests over HTTP, judges the answers by OpenRTB 2.6, and
//! calls their beacons. [`crate::traffic`] makes the requests.

mod answer;
mod beacons;
mod connection;

use std::cell::RefCell;
use std::fmt;

use bytes::Bytes;
use serde::Serialize;

pub use answer::ExchangeAnswer;
pub use beacons::Beacons;
pub use connection::HttpConnection;

use crate::load::report::row;
use crate::load::target::HttpTarget;
use crate::load::{CallFailure, FollowUp, LoadReport, Workload};
use crate::traffic::{RequestId, Traffic};
use answer::{AnswerKind, judge};
use connection::AuctionEndpoint;

/// Bid requests to one auction endpoint.
#[derive(Debug)]
pub struct ExchangeLoad {
    endpoint: AuctionEndpoint,
    traffic: RefCell<Traffic>,
    beacons: Option<Beacons>,
    outcomes: RefCell<ExchangeOutcomes>,
}

/// One bid request.
#[derive(Debug)]
pub struct OutgoingRequest {
    id: RequestId,
    body: Bytes,
}

/// Why an exchange cannot be loaded. The caller can fix either.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeLoadError {
    /// The target is not a URL of the required form, or its name does not resolve.
    #[error("target `{target}`: {problem}; give it as http://host:port/path")]
    Target {
        /// The given target.
        target: String,
        /// The problem.
        problem: String,
    },
    /// The beacons make no sense.
    #[error("a load needs {0}")]
    Beacons(&'static str),
}

/// What the measured answers contained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExchangeOutcomes {
    /// Answered 200 with at least one bid.
    pub ok_bid: u64,
    /// Answered 204.
    pub no_bid: u64,
    /// Answered 200 with a no-bid reason.
    pub nbr: u64,
    /// Refused with 4xx.
    pub client_errors: u64,
    /// Refused with 5xx.
    pub server_errors: u64,
    /// Bids in all answers.
    pub bids: u64,
    /// Sum of their prices, micros CPM, whatever the currency.
    pub price_micros: u64,
    /// Beacons called.
    pub beacons: u64,
    /// Beacons not answered with success in time.
    pub beacons_failed: u64,
}

impl ExchangeLoad {
    /// A load of requests from `traffic` to `target`, which is `http://host:port/path`. `beacons`
    /// are called on the answer's connection, before its next request.
    ///
    /// # Errors
    ///
    /// If the target is no such URL, its name does not resolve, or the beacons make no sense.
    pub fn new(
        target: &str,
        traffic: Traffic,
        beacons: Option<Beacons>,
    ) -> Result<Self, ExchangeLoadError> {
        if let Some(problem) = beacons.as_ref().and_then(Beacons::problem) {
            return Err(ExchangeLoadError::Beacons(problem));
        }
        let endpoint = resolve(target).map_err(|problem| {
            let target = target.to_owned();
            ExchangeLoadError::Target { target, problem }
        })?;
        let outcomes = RefCell::default();
        Ok(Self { endpoint, traffic: RefCell::new(traffic), beacons, outcomes })
    }
}

fn resolve(target: &str) -> Result<AuctionEndpoint, String> {
    let HttpTarget { address, host, path } = HttpTarget::resolve(target)?;
    let path = path.parse().map_err(|_| "the path is not valid".to_owned())?;
    Ok(AuctionEndpoint { address, host, path })
}

impl Workload for ExchangeLoad {
    type Connection = HttpConnection;
    type Request = OutgoingRequest;
    type Answer = ExchangeAnswer;
    type Outcomes = ExchangeOutcomes;

    fn request(&self) -> OutgoingRequest {
        let mut body = Vec::new();
        let id = self.traffic.borrow_mut().next(&mut body);
        OutgoingRequest { id, body: Bytes::from(body) }
    }

    fn request_bytes(request: &OutgoingRequest) -> u64 {
        request.body.len() as u64
    }

    async fn open(&self, connection: &mut HttpConnection) -> Result<(), CallFailure> {
        connection.open(&self.endpoint).await
    }

    async fn call(
        &self,
        connection: &mut HttpConnection,
        request: OutgoingRequest,
    ) -> Result<ExchangeAnswer, CallFailure> {
        let OutgoingRequest { id, body } = request;
        let (status, body) = connection.post(&self.endpoint, body).await?;
        let kind = judge(status, &body, id.as_str());
        Ok(ExchangeAnswer { kind, status, body, id })
    }

    fn count(&self, answer: &ExchangeAnswer) {
        let mut outcomes = self.outcomes.borrow_mut();
        match &answer.kind {
            AnswerKind::Bids { bids, price_micros } => {
                outcomes.ok_bid += 1;
                outcomes.bids += bids;
                outcomes.price_micros = outcomes.price_micros.saturating_add(*price_micros);
            }
            AnswerKind::NoBid => outcomes.no_bid += 1,
            AnswerKind::Nbr => outcomes.nbr += 1,
            AnswerKind::ClientError => outcomes.client_errors += 1,
            AnswerKind::ServerError => outcomes.server_errors += 1,
            AnswerKind::Invalid(_) => (),
        }
    }

    async fn follow_up(
        &self,
        connection: &mut HttpConnection,
        answer: ExchangeAnswer,
        options: FollowUp,
    ) {
        let (AnswerKind::Bids { .. }, Some(beacons)) = (&answer.kind, &self.beacons) else {
            return;
        };
        for path in beacons.due(answer.id.as_str(), &answer.body) {
            let called = connection.get(&self.endpoint, &path);
            let called = tokio::time::timeout(options.timeout, called).await;
            let is_taken = matches!(&called, Ok(Ok((status, _))) if status.is_success());
            if called.is_err() {
                *connection = HttpConnection::default();
            }
            if options.is_measured {
                let mut outcomes = self.outcomes.borrow_mut();
                outcomes.beacons += 1;
                outcomes.beacons_failed += u64::from(!is_taken);
            }
        }
    }

    fn outcomes(&self) -> ExchangeOutcomes {
        self.outcomes.borrow().clone()
    }
}

impl fmt::Display for LoadReport<ExchangeOutcomes> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes = &self.counts.outcomes;
        self.write_load(f)?;
        let cpm = outcomes.price_micros / outcomes.bids.max(1);
        let average = format_args!("{}.{:06} CPM", cpm / 1_000_000, cpm % 1_000_000);
        let with_bids = format_args!("{} ({} bids, {average})", outcomes.ok_bid, outcomes.bids);
        row(f, "  with bids", with_bids)?;
        row(f, "  no bid", format_args!("{} (204), {} (nbr)", outcomes.no_bid, outcomes.nbr))?;
        self.write_in_time(f)?;
        let (client, server) = (outcomes.client_errors, outcomes.server_errors);
        row(f, "refused", format_args!("{client} 4xx, {server} 5xx"))?;
        self.write_failures(f)?;
        if outcomes.beacons > 0 {
            let (called, failed) = (outcomes.beacons, outcomes.beacons_failed);
            row(f, "beacons", format_args!("{called} called, {failed} failed"))?;
        }
        self.write_latency(f)
    }
}

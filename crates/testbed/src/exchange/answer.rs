//! Judges an exchange's answer to a bid request by status and body. Pure.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::load::{CallAnswer, Verdict};
use crate::scan::micros_of;
use crate::traffic::RequestId;

/// Bytes of an answer's body that a report quotes.
const QUOTE_BYTES_MAX: usize = 300;

/// An answer and its kind.
#[derive(Debug)]
pub struct ExchangeAnswer {
    pub(super) kind: AnswerKind,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// The id of the request.
    pub(super) id: RequestId,
}

/// The kind of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// 200 with at least one bid.
    Bids {
        bids: u64,
        /// Sum of the prices, in micros CPM, whatever the currency.
        price_micros: u64,
    },
    /// 204.
    NoBid,
    /// 200 without a bid, with the reason.
    Nbr,
    /// 4xx
    ClientError,
    /// 5xx
    ServerError,
    /// Another status, no JSON, the wrong id, or neither a bid nor a reason.
    Invalid(String),
}

impl CallAnswer for ExchangeAnswer {
    fn verdict(&self) -> Verdict<'_> {
        match &self.kind {
            AnswerKind::Bids { .. } | AnswerKind::NoBid | AnswerKind::Nbr => Verdict::Valid,
            AnswerKind::ClientError | AnswerKind::ServerError => Verdict::Refused,
            AnswerKind::Invalid(problem) => Verdict::Invalid(problem),
        }
    }

    fn status(&self) -> u16 {
        self.status.as_u16()
    }

    fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// The status and the beginning of the body, on one line, without control characters.
    fn quote(&self) -> String {
        let Self { status, body, .. } = self;
        let text = String::from_utf8_lossy(&body[..body.len().min(QUOTE_BYTES_MAX)]);
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = text.trim().chars().map(printable).collect();
        let cut = if body.len() > QUOTE_BYTES_MAX { "…" } else { "" };
        match text.is_empty() {
            true => format!("status {status}, without a body"),
            false => format!("status {status}: {text}{cut}"),
        }
    }
}

#[derive(Deserialize)]
struct BidResponseBody<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    seatbid: Vec<SeatBidBody<'a>>,
    nbr: Option<i64>,
}

#[derive(Deserialize)]
struct SeatBidBody<'a> {
    #[serde(borrow)]
    bid: Vec<BidBody<'a>>,
}

#[derive(Deserialize)]
struct BidBody<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
}

/// Judges the answer to the request `id`.
pub(super) fn judge(status: StatusCode, body: &[u8], id: &str) -> AnswerKind {
    match status {
        StatusCode::OK => judge_body(body, id).unwrap_or_else(AnswerKind::Invalid),
        StatusCode::NO_CONTENT => AnswerKind::NoBid,
        status if status.is_client_error() => AnswerKind::ClientError,
        status if status.is_server_error() => AnswerKind::ServerError,
        status => AnswerKind::Invalid(format!("status {status}")),
    }
}

fn judge_body(body: &[u8], id: &str) -> Result<AnswerKind, String> {
    let answer: BidResponseBody<'_> =
        serde_json::from_slice(body).map_err(|error| format!("no bid response: {error}"))?;
    if answer.id != id {
        return Err(format!("answers request `{}`, not `{id}`", answer.id));
    }
    let (mut bids, mut price_micros) = (0, 0_u64);
    for bid in answer.seatbid.iter().flat_map(|seat| &seat.bid) {
        let price = price_micros_of(bid.price.get())
            .ok_or_else(|| format!("`{}` is not a price", bid.price.get()))?;
        bids += 1;
        price_micros = price_micros.saturating_add(price);
    }
    match (bids, answer.nbr) {
        (0, None) => Err("neither a bid nor a reason (`nbr`)".to_owned()),
        (0, Some(_)) => Ok(AnswerKind::Nbr),
        _ => Ok(AnswerKind::Bids { bids, price_micros }),
    }
}

fn price_micros_of(text: &str) -> Option<u64> {
    micros_of(text.as_bytes()).or_else(|| {
        // An exponent is legal JSON, but rare: the slow path suffices.
        let price: f64 = text.parse().ok()?;
        let plain = (0.0..1e12).contains(&price).then(|| format!("{price:.6}"))?;
        micros_of(plain.as_bytes())
    })
}

#[cfg(test)]
mod tests;

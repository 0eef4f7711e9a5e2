//! Whether an answer is one: what came back for a request, judged by status and body. Pure.

use std::borrow::Cow;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scan::micros_of;

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
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
    /// Anything else that came back: another status, no JSON, the wrong id, nothing said.
    Bad(String),
    /// No whole answer in time.
    Timeout,
    /// No connection.
    Unconnected(String),
    /// The connection ended before the answer did.
    Broken(String),
}

impl Verdict {
    /// Whether this is the outcome of an auction.
    pub(super) const fn is_valid(&self) -> bool {
        matches!(self, Self::Bids { .. } | Self::NoBid | Self::Nbr)
    }

    /// Whether the target answered that it holds no auction.
    pub(super) const fn is_refusal(&self) -> bool {
        matches!(self, Self::ClientError | Self::ServerError)
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    seatbid: Vec<SeatBid<'a>>,
    nbr: Option<i64>,
}

#[derive(Deserialize)]
struct SeatBid<'a> {
    #[serde(borrow)]
    bid: Vec<Bid<'a>>,
}

#[derive(Deserialize)]
struct Bid<'a> {
    #[serde(borrow)]
    price: &'a RawValue,
}

/// Judges the answer to the request `id`.
pub(super) fn judge(status: StatusCode, body: &[u8], id: &str) -> Verdict {
    match status {
        StatusCode::OK => judge_body(body, id).unwrap_or_else(Verdict::Bad),
        StatusCode::NO_CONTENT => Verdict::NoBid,
        status if status.is_client_error() => Verdict::ClientError,
        status if status.is_server_error() => Verdict::ServerError,
        status => Verdict::Bad(format!("status {status}")),
    }
}

fn judge_body(body: &[u8], id: &str) -> Result<Verdict, String> {
    let answer: Answer<'_> =
        serde_json::from_slice(body).map_err(|error| format!("no bid response: {error}"))?;
    if answer.id != id {
        return Err(format!("answers request `{}`, not `{id}`", answer.id));
    }
    let (mut bids, mut price_micros) = (0, 0_u64);
    for bid in answer.seatbid.iter().flat_map(|seat| &seat.bid) {
        let price = price_micros_of(bid.price.get())
            .ok_or_else(|| format!("`{}` is no price", bid.price.get()))?;
        bids += 1;
        price_micros = price_micros.saturating_add(price);
    }
    match (bids, answer.nbr) {
        (0, None) => Err("neither a bid nor a reason (`nbr`)".to_owned()),
        (0, Some(_)) => Ok(Verdict::Nbr),
        _ => Ok(Verdict::Bids { bids, price_micros }),
    }
}

fn price_micros_of(text: &str) -> Option<u64> {
    micros_of(text.as_bytes()).or_else(|| {
        // An exponent is legal JSON, and rare enough to take the long way.
        let price: f64 = text.parse().ok()?;
        let plain = (0.0..1e12).contains(&price).then(|| format!("{price:.6}"))?;
        micros_of(plain.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let check = |status: u16, body: &str, want: Result<Verdict, &str>| {
            let status = StatusCode::from_u16(status).expect("a status");
            match (judge(status, body.as_bytes(), "a"), want) {
                (Verdict::Bad(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (got, want) => assert_eq!(Ok(got), want, "{body}"),
            }
        };
        let bids = |bids, price_micros| Ok(Verdict::Bids { bids, price_micros });
        check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":1.25,"x":{}}]}]}"#, bids(1, 1_250_000));
        check(
            200,
            r#"{"seatbid":[{"bid":[{"price":1}]},{"bid":[{"price":2.5e-1}]}],"id":"\u0061"}"#,
            bids(2, 1_250_000),
        );
        check(200, r#"{"id":"a","nbr":8}"#, Ok(Verdict::Nbr));
        check(200, r#"{"id":"a","seatbid":[],"nbr":0}"#, Ok(Verdict::Nbr));
        check(204, "", Ok(Verdict::NoBid));
        check(400, "x", Ok(Verdict::ClientError));
        check(503, "", Ok(Verdict::ServerError));
        check(302, "", Err("302"));
        check(200, "", Err("no bid response"));
        check(200, "[]", Err("no bid response"));
        check(200, r#"{"id":"a"}"#, Err("neither"));
        check(200, r#"{"id":"a","seatbid":[{"bid":[]}]}"#, Err("neither"));
        check(200, r#"{"id":"b","nbr":1}"#, Err("`b`"));
        check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":-1}]}]}"#, Err("`-1`"));
        check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":"1"}]}]}"#, Err("no price"));
        check(200, r#"{"id":"a","seatbid":[{"bid":[{}]}]}"#, Err("price"));
    }
}

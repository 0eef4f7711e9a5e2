//! A DSP's bid response, as far as rules depend on it. Sections 4.2.1 to 4.2.3.

mod bid;
mod typical;

use serde_json::value::RawValue;

pub use self::bid::{BID_LIST_MAX, Bid, BidError, BidResponse, NoticeKind, SeatBid};
use crate::invalid::InvalidRequest;
use crate::json::{self, span_of};

/// Parses a whole response.
pub fn parse_response(body: &str) -> Result<BidResponse<'_, Bid<'_>>, InvalidRequest> {
    typical::read(body).map_or_else(|| json::parse(body), Ok)
}

/// Parses a response but leaves each bid as text, for [`parse_bid`].
pub fn bid_texts(body: &str) -> Result<BidResponse<'_, &RawValue>, InvalidRequest> {
    json::parse(body)
}

/// The places of the bids in a response, in their order.
pub fn bid_spans(body: &str) -> Result<Vec<std::ops::Range<usize>>, InvalidRequest> {
    let response = bid_texts(body)?;
    let bids = response.seatbid.into_iter().flatten().flat_map(|seat| seat.bid);
    Ok(bids.map(|bid| span_of(bid.get(), body)).collect())
}

/// Parses one bid.
pub fn parse_bid(text: &str) -> Result<Bid<'_>, InvalidRequest> {
    json::parse(text)
}

#[cfg(test)]
mod tests;

//! OpenRTB 2.6 on the wire: parse, validate, edit and write.
//!
//! Owns the JSON of requests and responses, its limits, and what makes a request invalid. Any bytes
//! may come in and must never cause a panic. Knows nothing of auctions: which impressions a DSP
//! sees and which bid wins is decided elsewhere.

#![deny(clippy::float_arithmetic)]

pub mod codes;
mod fields;
mod imp;
mod invalid;
mod json;
mod key_values;
mod members;
mod native;
mod outbound;
mod request;
mod response;
mod validate;

pub use fields::MISTYPED_MAX;
pub use imp::{
    Banner, DEALS_MAX, DURFLOORS_MAX, Deal, DurFloor, FORMATS_MAX, Format, IMPS_MAX, Imp, LIST_MAX,
    Native, Pmp, Qty, TimedMedia,
};
pub use invalid::{InvalidReason, InvalidRequest, error_json};
pub use json::{DEPTH_MAX, FloorPrice, Spanned, Text, is_json};
pub use members::{escaped, members, request_id, string};
pub use native::{add_tracker, native_strings};
pub use outbound::{
    DataMembers, DataPlace, DataSpot, DealMask, Editor, ImpMask, Outbound, OutboundView,
};
pub use request::{BidRequest, Device, Geo, Media, Publisher, Regs, User};
pub use response::{
    BID_LIST_MAX, Bid, BidError, BidResponse, NoticeKind, SeatBid, bid_spans, bid_texts, parse_bid,
    parse_response,
};
pub use validate::{CODES_MAX, DEAL_SEATS_MAX, IDN_BYTES_MAX, parse_request};

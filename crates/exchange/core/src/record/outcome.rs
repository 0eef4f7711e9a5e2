//! How an auction and its calls end. The numbers are those of records and never change.

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// How an auction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum AuctionEnding {
    /// At least one impression was sold. It can be recomputed.
    Filled = 1,
    /// DSPs were asked, and nothing was sold. It can be recomputed.
    NoBid = 2,
    /// No DSP was asked, for the reason in `nbr`. There are no calls, bids and sales.
    Refused = 3,
    /// The caller left before the auction closed. There are no bids and sales.
    Abandoned = 4,
}

units::labelled!(AuctionEnding);

/// The outcome of a call to a DSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum CallOutcome {
    /// 200 with a body; [`Self::Malformed`] if that is not a bid response.
    Answered = 1,
    /// 204, or 200 without a body.
    NoBid = 2,
    /// Incomplete when the auction closed or the DSP's own time was up.
    Late = 3,
    /// Another status.
    Status = 4,
    /// Not HTTP, truncated, or a 200 whose bid response cannot be parsed.
    Malformed = 5,
    /// A body beyond `response_bytes_max`, or an oversized head.
    TooLarge = 6,
    /// A compressed body that was not requested, or cannot be decompressed.
    Encoded = 7,
    /// It arrived too slowly.
    Trickle = 8,
    /// The connection broke before the answer began.
    Reset = 9,
    /// No connection could be opened.
    Unreachable = 10,
    /// The name has no address.
    Unresolved = 11,
    /// A limit of connections, waiting calls or this machine is reached.
    Saturated = 12,
    /// Its time was up before it got a connection.
    Unsent = 13,
    /// The caller left before the auction closed.
    Abandoned = 14,
}

units::labelled!(CallOutcome);

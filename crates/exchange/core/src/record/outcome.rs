//! How an auction and each of its calls end. The numbers are those of records, which never change;
//! metrics, rows and filters have the labels.

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
    /// Nobody was asked: `nbr` says why. There are no calls, no bids and no sales.
    Refused = 3,
    /// The caller went away while DSPs were waited for. There are no bids and no sales.
    Abandoned = 4,
}

units::labelled!(AuctionEnding);

/// What became of a call to a DSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum CallOutcome {
    /// 200 with a body; [`Self::Malformed`] once that turns out not to be a bid response.
    Answered = 1,
    /// 204, or 200 without a body.
    NoBid = 2,
    /// Not all there when the auction closed, or the DSP's own time was up.
    Late = 3,
    /// Another status.
    Status = 4,
    /// Not HTTP, cut off, or a 200 whose bid response cannot be read.
    Malformed = 5,
    /// A body beyond `response_bytes_max`, or an oversized head.
    TooLarge = 6,
    /// A compressed body that was not asked for, or cannot be decompressed.
    Encoded = 7,
    /// It dripped in too slowly.
    Trickle = 8,
    /// The connection broke before the answer began.
    Reset = 9,
    /// No connection could be opened.
    Unreachable = 10,
    /// The name has no address.
    Unresolved = 11,
    /// As many connections are in use, or calls wait for one, as may be; or this machine has no room
    /// for one more.
    Saturated = 12,
    /// Its time was up before a connection was free for it.
    Unsent = 13,
    /// The caller went away before the auction closed.
    Abandoned = 14,
}

impl CallOutcome {
    /// Every outcome, in declaration order.
    pub const ALL: [Self; 14] = *Self::VARIANTS.as_array().expect("that is how many there are");

    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

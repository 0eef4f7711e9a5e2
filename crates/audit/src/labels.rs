//! What people call the values of a record's enumerations: the words of rows, filters and lines.
//! Fates and reasons not to ask have theirs from the rules. Words are never changed, for files and
//! filters hold them.

use exchange_core::record::{CallOutcome, Ending};
use exchange_core::{AuctionType, BidsReturned, NoticeMode, ResponseFate};
use openrtb::codes::MediaType;

/// Every way in which a recorded auction ends.
pub(crate) const ENDINGS: [Ending; 4] =
    [Ending::Filled, Ending::NoBid, Ending::Refused, Ending::Abandoned];

/// How an auction ended.
pub const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Unspecified => "unspecified",
        Ending::Filled => "filled",
        Ending::NoBid => "no_bid",
        Ending::Refused => "refused",
        Ending::Abandoned => "abandoned",
    }
}

/// How a price was made.
pub const fn auction_type(auction_type: AuctionType) -> &'static str {
    match auction_type {
        AuctionType::FirstPrice => "first_price",
        AuctionType::SecondPrice => "second_price",
        AuctionType::Agreed => "agreed",
    }
}

/// Who fired notices; as configurations have it.
pub const fn notice_mode(mode: NoticeMode) -> &'static str {
    match mode {
        NoticeMode::PassThrough => "pass_through",
        NoticeMode::Final => "final",
        NoticeMode::Upstream => "upstream",
    }
}

/// How many bids an impression was answered with; as configurations have it.
pub const fn bids_returned(bids: BidsReturned) -> &'static str {
    match bids {
        BidsReturned::Winner => "winner",
        BidsReturned::All => "all",
    }
}

/// What became of a call; as metrics have it.
pub const fn call_outcome(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Unspecified => "unspecified",
        CallOutcome::Answered => "answered",
        CallOutcome::NoBid => "no_bid",
        CallOutcome::Late => "late",
        CallOutcome::Status => "status",
        CallOutcome::Malformed => "malformed",
        CallOutcome::TooLarge => "too_large",
        CallOutcome::Encoded => "encoded",
        CallOutcome::Trickle => "trickle",
        CallOutcome::Reset => "reset",
        CallOutcome::Unreachable => "unreachable",
        CallOutcome::Unresolved => "unresolved",
        CallOutcome::Saturated => "saturated",
        CallOutcome::Unsent => "unsent",
        CallOutcome::Abandoned => "abandoned",
    }
}

/// What the body of an answer was.
pub const fn response_fate(fate: ResponseFate) -> &'static str {
    match fate {
        ResponseFate::Malformed => "malformed",
        ResponseFate::TooManyBids => "too_many_bids",
        ResponseFate::NoBid => "no_bid",
        ResponseFate::Bids => "bids",
    }
}

/// What an impression takes.
pub const fn format(format: MediaType) -> &'static str {
    match format {
        MediaType::Banner => "banner",
        MediaType::Video => "video",
        MediaType::Audio => "audio",
        MediaType::Native => "native",
    }
}

//! The numbers that frames carry for decisions, settlements and errors. A number is never reused.

use strum::{IntoStaticStr, VariantArray};

use crate::frame::FrameError;

/// The number of a variant, and back.
macro_rules! numbered {
    ($name:ident) => {
        impl $name {
            /// The variant with this number.
            pub fn from_number(number: u8) -> Option<Self> {
                Self::VARIANTS.iter().copied().find(|code| *code as u8 == number)
            }
        }

        units::labelled!($name);
    };
}

/// The decision on a request. Among several refused candidates the highest number is reported: that
/// of the candidate which came closest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum DecisionCode {
    /// A candidate may bid, at the price of the decision.
    Authorised = 0,
    /// Its kind, amount or minimum is out of range.
    Invalid = 1,
    /// The client has no such campaign.
    Unknown = 2,
    /// The campaign or its account is paused.
    Paused = 3,
    /// Before its start, or after its end.
    OutOfFlight = 4,
    /// Not in this hour of the week.
    OutOfDaypart = 5,
    /// Its total budget, or its account's, is used up.
    BudgetExhausted = 6,
    /// The day's budget is used up.
    DayExhausted = 7,
    /// The hour's budget is used up.
    HourExhausted = 8,
    /// Its strategy skips this request.
    Throttled = 9,
    /// The price is below the minimum.
    BelowMinimum = 10,
    /// No budget has arrived yet, or nothing can be made durable.
    Unavailable = 11,
    /// The deadline had passed: no candidate was considered.
    Late = 12,
}

/// How the auction of a reservation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[repr(u8)]
pub enum SettlementOutcome {
    /// Won, and billed at the given cost.
    Won = 1,
    /// Lost: the reservation is released.
    Lost = 2,
}

impl SettlementOutcome {
    /// The outcome with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|outcome| *outcome as u8 == number)
    }
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum SettlementCode {
    /// A win, booked and durable.
    Booked = 0,
    /// A win, booked and durable, whose reservation had expired or was released.
    BookedLate = 1,
    /// A loss: the reservation is released.
    Released = 2,
    /// A repeated win: the first one counts, whatever its cost.
    AlreadyBooked = 3,
    /// A loss of a reservation that is won, released or expired already. Nothing changes.
    AlreadyEnded = 4,
    /// The same token is being settled: send it again later.
    Pending = 5,
    /// The token is not one of the client's.
    Rejected = 6,
    /// Past the late window: nothing is booked.
    TooOld = 7,
    /// Its outcome is not a known number. Nothing changes.
    Invalid = 8,
}

/// Why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum ProtocolError {
    /// The server ends. Connect again, also elsewhere.
    Closing = 1,
    /// Not a frame of this protocol.
    Magic = 2,
    /// No common version.
    Version = 3,
    /// An unknown kind, or one that the client must not send here.
    Kind = 4,
    /// The lengths of the frame contradict each other.
    Length = 5,
    /// The frame is longer than the welcome allows.
    TooLong = 6,
    /// The checksum does not hold.
    Checksum = 7,
    /// A number of entries is not allowed.
    Count = 8,
    /// A text is not UTF-8.
    Text = 9,
    /// Not the next sequence number.
    Sequence = 10,
    /// More frames are unanswered than any credit allowed.
    Credit = 11,
    /// No hello within its time, or an incomplete frame for too long.
    Slow = 12,
    /// Unknown client, or wrong secret.
    Denied = 13,
    /// No frame within `idle_ms`.
    Idle = 14,
    /// The server has too many connections of this client.
    TooMany = 15,
}

numbered!(DecisionCode);
numbered!(SettlementCode);
numbered!(ProtocolError);

impl From<FrameError> for ProtocolError {
    fn from(error: FrameError) -> Self {
        use FrameError as E;
        match error {
            E::Magic => Self::Magic,
            E::Version(_) => Self::Version,
            E::Kind(_) => Self::Kind,
            E::TooLong { .. } => Self::TooLong,
            E::Length => Self::Length,
            E::Checksum => Self::Checksum,
            E::Count(_) => Self::Count,
            E::Text => Self::Text,
        }
    }
}

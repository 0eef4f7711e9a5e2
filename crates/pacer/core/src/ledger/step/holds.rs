//! Messages about money on hold for bids of lots.

use std::sync::Arc;

use units::{Currency, Nanos};

use crate::ledger::limits::definition::LimitSpan;
use crate::store::{AttemptNumber, HoldName, HoldState};

/// Money to hold until its end is reported. A hold never expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldPlacement {
    /// The bid.
    pub name: HoldName,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The identifier of the account that pays.
    pub account: Arc<str>,
    /// The currency of `amount`, which must be the account's.
    pub currency: Currency,
    /// The amount.
    pub amount: Nanos,
    /// Number of the bid of this lot whose hold this one replaces. While both stand, only the
    /// larger amount counts. None if it replaces none.
    pub replaces: Option<u32>,
}

/// A message about holds, from the owner of the lots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldInput {
    /// Hold money. Answered once it is durable, or refused.
    Place(HoldPlacement),
    /// A bid of the log stands: its money is on hold, whatever the limits.
    Standing(HoldPlacement),
    /// End a hold. Answered once that is durable. Ending a hold that is unknown or has ended is no
    /// error.
    End {
        /// The bid.
        name: HoldName,
        /// The attempt.
        attempt: AttemptNumber,
        /// Released or charged: at most the amount.
        end: HoldState,
    },
    /// All standing bids of the log were reported: other holds of this node are released.
    Replayed,
}

/// The reply to a placement or an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldAnswer {
    /// The bid.
    pub name: HoldName,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The outcome.
    pub outcome: HoldOutcome,
}

/// The outcome of a placement or an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The money is on hold, durably.
    Held,
    /// Nothing is on hold for this attempt.
    Refused(HoldDenial),
    /// The hold has ended, durably.
    Ended,
}

/// Why money is not held. The order is precedence: the first that applies is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldDenial {
    /// The ledger starts, ends, or cannot write.
    #[error("{0}")]
    Unavailable(&'static str),
    /// There is no such account.
    #[error("there is no such account")]
    UnknownAccount,
    /// The account is paused or removed.
    #[error("the account is closed")]
    AccountClosed,
    /// The account has another currency.
    #[error("the account is in {0}")]
    WrongCurrency(Currency),
    /// The amount is beyond what an account can hold.
    #[error("the amount is larger than any account can hold")]
    TooLarge,
    /// A limit of the account leaves less than the amount.
    #[error("the account has {headroom} left of its {} limit", .span.label())]
    OverAccount {
        /// The limit.
        span: LimitSpan,
        /// What it leaves.
        headroom: Nanos,
    },
}

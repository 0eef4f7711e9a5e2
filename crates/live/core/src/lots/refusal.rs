//! Why a command is refused. The order is precedence: the first that applies is reported.

use strum::IntoStaticStr;
use thiserror::Error;
use units::{Cpm, Currency};

use super::outcome::LotStatus;

/// Why a lot refuses a command. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LotRefusal {
    /// The lot does not take this command in its status.
    #[error("the lot is {}", .status.label())]
    NotOpen {
        /// Closed from the lot's end on, even if its close has not been logged.
        status: LotStatus,
    },
    /// The lot has a list of bidders, without this one.
    #[error("this bidder is not invited")]
    NotInvited,
    /// Bids are in the lot's currency.
    #[error("the currency of the lot is {expected}")]
    WrongCurrency {
        /// The lot's currency.
        expected: Currency,
    },
    /// The bidder used the idempotency key for another bid.
    #[error("the idempotency key came before, with bid {number}: take a new key")]
    KeyReused {
        /// Number of the accepted bid that has the key.
        number: u32,
    },
    /// The lot has accepted as many bids as it may.
    #[error("the lot has taken all its {limit} bids")]
    TooManyBids {
        /// The lot's limit.
        limit: u32,
    },
    /// The cost of the lot would not fit.
    #[error("bid at most {maximum}: the cost of more does not fit")]
    TooHigh {
        /// The highest bid of which the cost fits.
        maximum: Cpm,
    },
    /// The bid is below the start price.
    #[error("bid at least the start price, {minimum}")]
    BelowStart {
        /// The start price.
        minimum: Cpm,
    },
    /// The bid does not exceed the price by the increment.
    #[error("bid at least {minimum}: the price and one increment")]
    BelowIncrement {
        /// The lowest bid that the lot accepts now.
        minimum: Cpm,
    },
    /// The leader, or a sealed bidder, may only raise its bid.
    #[error("bid more than your own maximum, {maximum}: bids are only raised")]
    Retraction {
        /// The bidder's own maximum.
        maximum: Cpm,
    },
    /// The operator opens a lot that is open.
    #[error("the lot is open already")]
    AlreadyOpen,
    /// The operator's new end is not later than the present one.
    #[error("the lot ends at {ends_ms}: give a later time")]
    NotLater {
        /// The end in Unix milliseconds.
        ends_ms: u64,
    },
}

impl LotRefusal {
    /// Its name in metrics and APIs.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

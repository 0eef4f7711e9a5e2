//! What lots need of others: a ledger that holds the money of standing bids, and an exchange that
//! delivers the deals of lots that are sold.
//!
//! Both work on threads of their own: messages go one way, replies come the other, and neither
//! waits. Both sides may start again at any time, so every message may come twice.

use std::fmt::Debug;

use strum::IntoStaticStr;
use units::{Cpm, Currency, Nanos};

use crate::lots::{HoldFate, LotDeal, LotId, LotPayment};

/// Names the bid for which money is on hold. Bids of other nodes are other bids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldKey {
    /// The lot.
    pub lot: LotId,
    /// Number of the bid. One that was not logged is used again, by a later attempt.
    pub bid: u32,
}

/// Tells attempts for the same key apart: the later one is the greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldAttempt {
    /// The epoch of the durable lane.
    pub epoch: u64,
    /// Counts attempts of an epoch.
    pub counter: u64,
}

/// Money to hold until its end is told. A hold never expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// The bid.
    pub key: HoldKey,
    /// The attempt.
    pub attempt: HoldAttempt,
    /// The account that pays.
    pub account: String,
    /// The currency of `amount`, which must be the account's.
    pub currency: Currency,
    /// The cost of all impressions at the bidder's maximum.
    pub amount: Nanos,
    /// Number of the bid of this lot whose hold this one replaces: its money counts as free. None
    /// if it replaces none.
    pub replaces: Option<u32>,
}

/// A message to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldMessage {
    /// Hold money. Answered once it is durable, or refused.
    Place(HoldRequest),
    /// A logged bid stands: after a start, before [`HoldMessage::Replayed`].
    Standing(HoldRequest),
    /// End a hold. Answered once that is durable. Ending a hold that is unknown or has ended is no
    /// error.
    End {
        /// The bid.
        key: HoldKey,
        /// The attempt.
        attempt: HoldAttempt,
        /// What becomes of the money.
        fate: HoldFate,
    },
    /// All standing bids of the log were told: other holds of this node are released.
    Replayed,
}

/// A reply of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReply {
    /// The money is on hold, durably.
    Held {
        /// The bid.
        key: HoldKey,
        /// The attempt.
        attempt: HoldAttempt,
    },
    /// Nothing is on hold for this attempt.
    Refused {
        /// The bid.
        key: HoldKey,
        /// The attempt.
        attempt: HoldAttempt,
        /// Why.
        refusal: HoldRefusal,
    },
    /// The hold has ended, durably.
    Ended {
        /// The bid.
        key: HoldKey,
        /// The attempt.
        attempt: HoldAttempt,
    },
}

/// Why money is not held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum HoldRefusal {
    /// The ledger starts, ends, or cannot write.
    #[error("the ledger takes no bids now: {0}")]
    Unavailable(String),
    /// There is no such account.
    #[error("the account of the token is not known here")]
    UnknownAccount,
    /// The account is closed.
    #[error("the account is closed")]
    AccountClosed,
    /// The account has another currency.
    #[error("the account is in {expected}")]
    WrongCurrency {
        /// The account's currency.
        expected: Currency,
    },
    /// The amount is beyond what an account can hold.
    #[error("the bid is larger than any account can hold")]
    TooLarge,
    /// A limit of the account leaves less than the amount.
    #[error("the account's {span} limit has {headroom} left")]
    OverAccount {
        /// The span of the limit: `hour`, `day` or `life`.
        span: &'static str,
        /// What it leaves.
        headroom: Nanos,
    },
}

impl HoldRefusal {
    /// Its name in metrics and APIs.
    pub fn label(&self) -> &'static str {
        self.into()
    }
}

/// A ledger that holds money.
pub trait HoldPort: Send + Debug {
    /// Sends a message. Returns it if too many are without a reply.
    fn send(&mut self, message: HoldMessage) -> Result<(), HoldMessage>;

    /// The next reply.
    fn poll(&mut self) -> Option<HoldReply>;

    /// Calls `wake` from the ledger's thread whenever a reply has come.
    fn wake_with(&mut self, wake: Box<dyn Fn() + Send + Sync>);

    /// Whether it has ended: no reply will come.
    fn is_stopped(&self) -> bool;
}

/// A lot that is sold, as the exchange delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldLot {
    /// The lot.
    pub lot: LotId,
    /// What is delivered.
    pub deal: LotDeal,
    /// The winner: `dsp/seat`.
    pub winner: String,
    /// The winner's account.
    pub account: String,
    /// What the winner pays for 1000 impressions.
    pub price: Cpm,
    /// The currency of `price`.
    pub currency: Currency,
    /// Number of impressions.
    pub impressions: u64,
    /// When the winner pays.
    pub payment: LotPayment,
}

/// What became of a sold lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoldLotReply {
    /// The lot.
    pub lot: LotId,
    /// The deal is durably offered, or why it cannot be.
    pub offered: Result<(), String>,
}

/// An exchange that delivers sold lots.
pub trait SoldLotPort: Send + Debug {
    /// Offers the lot's deal from now on, until its end. Offering it again changes nothing. A
    /// failure that may pass is tried again before there is a reply.
    fn offer(&mut self, sold: SoldLot);

    /// The next reply.
    fn poll(&mut self) -> Option<SoldLotReply>;

    /// Calls `wake` whenever a reply has come.
    fn wake_with(&mut self, wake: Box<dyn Fn() + Send + Sync>);
}

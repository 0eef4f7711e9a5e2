//! Commands to a lot, and the events that it logs for them.
//!
//! Events hold what cannot be computed: who did what, and when the server received it. Prices,
//! winners and ends follow from the rules.

use units::{Cpm, Currency};

/// A command to a lot. The caller has checked the right to give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotCommand {
    /// The operator opens the lot early. By schedule, `Lot::due` opens it.
    Open,
    /// A bidder bids.
    Bid(LotBid),
    /// The operator postpones the end.
    Extend {
        /// The new end in Unix milliseconds.
        closes_ms: u64,
    },
    /// The operator closes the lot early. By schedule, `Lot::due` closes it.
    Close,
    /// The operator ends the lot without a sale.
    Cancel {
        /// Published with the lot. The caller bounds its length.
        reason: String,
    },
}

/// A bid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotBid {
    /// The bidder's name.
    pub bidder: String,
    /// The account that pays, and on which the maximum is held.
    pub account: String,
    /// The most that it pays for 1000 impressions. Secret.
    pub maximum: Cpm,
    /// The currency of `maximum`.
    pub currency: Currency,
    /// Idempotency key, among those of the bidder for this lot.
    pub key: String,
}

/// The answer to a command that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotDecision {
    /// The event to log and to apply.
    Event(LotEvent),
    /// The same bid was accepted before with the same key. There is nothing to log.
    Repeated {
        /// Number of that bid.
        number: u32,
    },
}

/// An event of a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotEvent {
    /// When the server received its cause, in Unix milliseconds. Never before the lot's last event.
    pub at_ms: u64,
    /// What happened.
    pub kind: LotEventKind,
}

/// What happened to a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotEventKind {
    /// It takes bids.
    Opened,
    /// It accepted a bid.
    Bid {
        /// From 1, in the order of acceptance.
        number: u32,
        /// The bid.
        bid: LotBid,
    },
    /// The operator postponed the end.
    Extended {
        /// The new end in Unix milliseconds.
        closes_ms: u64,
    },
    /// It takes no more bids, and its result is final.
    Closed,
    /// The operator ended it without a sale.
    Cancelled {
        /// In the operator's words.
        reason: String,
    },
}

impl LotEventKind {
    /// Its name in the API.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Bid { .. } => "bid",
            Self::Extended { .. } => "extended",
            Self::Closed => "closed",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}

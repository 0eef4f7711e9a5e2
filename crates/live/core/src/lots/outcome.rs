//! What becomes of a lot, and what each event changes.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};
use units::{Cpm, Nanos};

use super::standing::LotAlias;

/// Where a lot is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LotStatus {
    /// It takes no bids yet.
    Scheduled,
    /// It takes bids.
    Open,
    /// It is sold or unsold.
    Closed,
    /// The operator ended it without a sale.
    Cancelled,
}

units::labelled!(LotStatus);

/// How a lot ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotResult {
    /// It is sold.
    Sold(LotSale),
    /// It closed without a sale.
    Unsold(UnsoldReason),
    /// The operator cancelled it.
    Cancelled {
        /// In the operator's words.
        reason: String,
    },
}

/// A sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotSale {
    /// Number of the bid that won.
    pub number: u32,
    /// The winner's name.
    pub winner: String,
    /// The winner's account.
    pub account: String,
    /// What the winner pays for 1000 impressions: at most its maximum, at least the start price and
    /// the reserve.
    pub price: Cpm,
    /// The winner's maximum. Secret.
    pub maximum: Cpm,
}

/// Why a closed lot is not sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsoldReason {
    /// No bid was accepted.
    NoBids,
    /// The highest bid is below the reserve.
    ReserveNotMet,
}

/// What an event changes outside the lot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LotChange {
    /// Holds that end, at most one per bid.
    pub ended_holds: Vec<EndedHold>,
    /// What the public learns. Empty if the event is secret, such as a higher sealed bid.
    pub news: Vec<LotNews>,
}

/// The end of the hold for an accepted bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// Number of the bid.
    pub number: u32,
    /// What becomes of the money.
    pub fate: HoldFate,
}

/// What becomes of money on hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldFate {
    /// All of it returns to the bidder.
    Released,
    /// The bidder pays this part, and the rest returns.
    Charged {
        /// The cost of all impressions at the price.
        cost: Nanos,
    },
}

/// What the public learns from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LotNews {
    /// The lot has another status.
    Status(LotStatus),
    /// Number of bidders, one more than before.
    Bidders(u32),
    /// Number of accepted bids, one more than before.
    Bids(u32),
    /// The price, higher than before.
    Price(Cpm),
    /// The leader, another than before.
    Leader(LotAlias),
    /// The highest bid meets the reserve for the first time.
    ReserveMet,
    /// The end in Unix milliseconds, later than before.
    Ends(u64),
}

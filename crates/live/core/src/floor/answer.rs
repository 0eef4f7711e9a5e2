//! What the floor is asked, and what it answers.

use serde::Serialize;
use strum::IntoStaticStr;
use thiserror::Error;

use crate::lots::{
    LotBidderView, LotCommand, LotHistoryEntry, LotId, LotProblem, LotRefusal, LotTerms, LotView,
};
use crate::ports::HoldRefusal;

/// Bids of a page, the latest.
pub const HISTORY_MAX: usize = 100;
/// Lots of one answer.
pub const LOTS_SHOWN_MAX: usize = 200;

/// A command to the floor. The caller has checked the right to give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FloorCommand {
    /// The operator creates a lot. Creating it again with the same terms changes nothing.
    Create(Box<LotTerms>),
    /// A command to a lot.
    Lot(LotId, LotCommand),
    /// Shows a lot, as this bidder may see it.
    Show {
        /// The lot.
        lot: LotId,
        /// None for everyone.
        bidder: Option<String>,
    },
    /// Shows lots by id, at most [`LOTS_SHOWN_MAX`].
    List {
        /// Behind this one. None from the first one on.
        after: Option<LotId>,
    },
}

/// The answer to a command that is not refused. All of it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FloorAnswer {
    /// The bid is accepted.
    Accepted(Box<AcceptedBid>),
    /// A lot.
    Lot(Box<LotPage>),
    /// Lots, by id.
    Lots {
        /// As everyone may see them.
        lots: Vec<LotView>,
        /// Whether there are others behind them.
        more: bool,
    },
}

/// A bid that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcceptedBid {
    /// Number of the bid.
    pub number: u32,
    /// It was accepted before, with the same idempotency key.
    pub repeated: bool,
    /// The lot after it.
    pub lot: LotView,
    /// As its bidder sees it.
    pub own: Option<LotBidderView>,
}

/// A lot with its latest bids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LotPage {
    /// The lot.
    pub lot: LotView,
    /// As the bidder who asks sees it. None if it has not bid.
    pub own: Option<LotBidderView>,
    /// The latest bids, at most [`HISTORY_MAX`], in order. Empty while they are secret.
    pub history: Vec<LotHistoryEntry>,
    /// What became of the deal. None unless the lot is sold, and after a start later than the
    /// deal's end.
    pub offer: Option<OfferState>,
}

/// Whether the exchange offers the deal of a lot that is sold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum OfferState {
    /// Not yet.
    Pending,
    /// In the deal's time, it does.
    Offered,
    /// It cannot.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Why the floor refuses a command. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum FloorRefusal {
    /// There is no such lot.
    #[error("there is no such lot")]
    UnknownLot,
    /// A lot of this id has other terms.
    #[error("there is a lot of this id, with other terms: choose another id")]
    LotExists,
    /// There are as many lots as there may be.
    #[error("there are {limit} lots already (`live.lots.count_max`)")]
    TooManyLots {
        /// The limit.
        limit: usize,
    },
    /// The terms have problems.
    #[error("{}", problems_text(.0))]
    Terms(Vec<LotProblem>),
    /// The lot refuses it.
    #[error(transparent)]
    Lot(LotRefusal),
    /// The ledger refuses it.
    #[error(transparent)]
    Hold(HoldRefusal),
    /// Nothing can be logged.
    #[error("lots are paused: {0}")]
    Paused(String),
    /// Too many commands wait for the lot, or for the ledger.
    #[error("too many commands wait: try again in a second")]
    Busy,
}

fn problems_text(problems: &[LotProblem]) -> String {
    let texts: Vec<_> = problems.iter().map(LotProblem::to_string).collect();
    texts.join("; ")
}

impl FloorRefusal {
    /// Its name in metrics and APIs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Lot(refusal) => refusal.label(),
            Self::Hold(refusal) => refusal.label(),
            other => other.into(),
        }
    }
}

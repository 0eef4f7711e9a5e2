//! Lots: what is sold in an open auction, and the rules by which bids win it.
//!
//! A lot's state follows from its terms and its logged events alone. [`Lot::decide`] turns a
//! command into an event or a refusal, [`Lot::due`] does so for the schedule, and [`Lot::apply`]
//! changes the state. Must not know where events are logged, who may command, or who holds money.

mod auction;
mod bids;
mod end;
mod event;
mod increments;
mod lot;
mod outcome;
mod refusal;
mod standing;
mod terms;
mod view;

pub use event::{LotBid, LotCommand, LotDecision, LotEvent, LotEventKind};
pub use increments::{INCREMENT_BANDS_MAX, IncrementBand, IncrementBands};
pub use lot::{Lot, LotHold};
pub use outcome::{
    EndedHold, HoldFate, LotChange, LotNews, LotResult, LotSale, LotStatus, UnsoldReason,
};
pub use refusal::LotRefusal;
pub use standing::LotAlias;
pub use terms::{
    EnglishTerms, LOT_BIDS_MAX, LOT_ID_BYTES_MAX, LOT_INVITED_MAX, LOT_TITLE_BYTES_MAX, LotDeal,
    LotId, LotPayment, LotProblem, LotRules, LotTerms, SoftClose,
};
pub use view::{LotBidderView, LotHistoryEntry, LotResultView, LotState, LotView, PriceText};

#[cfg(test)]
mod tests;

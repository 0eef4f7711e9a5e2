//! Lots: what is sold in an open auction, and the rules by which bids win it.

mod event;
mod increments;
mod outcome;
mod refusal;
mod standing;
mod terms;

pub use event::{LotBid, LotCommand, LotDecision, LotEvent, LotEventKind};
pub use increments::{INCREMENT_BANDS_MAX, IncrementBand, IncrementBands};
pub use outcome::{
    EndedHold, HoldFate, LotChange, LotNews, LotResult, LotSale, LotStatus, UnsoldReason,
};
pub use refusal::LotRefusal;
pub use standing::LotAlias;
pub use terms::{
    EnglishTerms, LOT_BIDS_MAX, LOT_ID_BYTES_MAX, LOT_INVITED_MAX, LOT_TITLE_BYTES_MAX, LotDeal,
    LotId, LotPayment, LotProblem, LotRules, LotTerms, SoftClose,
};

#[cfg(test)]
mod tests;

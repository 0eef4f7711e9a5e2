//! Lots: what is sold in an open auction, and the rules by which bids win it.

mod increments;
mod terms;

pub use increments::{INCREMENT_BANDS_MAX, IncrementBand, IncrementBands};
pub use terms::{
    EnglishTerms, LOT_BIDS_MAX, LOT_ID_BYTES_MAX, LOT_INVITED_MAX, LOT_TITLE_BYTES_MAX, LotDeal,
    LotId, LotPayment, LotProblem, LotRules, LotTerms, SoftClose,
};

#[cfg(test)]
mod tests;

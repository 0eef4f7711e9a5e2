//! The record of an auction: its inputs and results, from which it can be replayed. `proto/`
//! defines the schema. Knows nothing of where records are stored.
//!
//! [`encode`] writes a record from an auction into a reused buffer; [`AuctionRecord`] is a decoded
//! record. [`replay`] recomputes it from its [`GenerationRecord`] and reports differing fates or
//! prices. [`Masks`](crate::Masks) remove personal data from a request.

mod auction;
mod codes;
mod contest;
mod decode;
mod difference;
mod elements;
mod encode;
mod generation;
mod inputs;
mod limits;
mod outcome;
mod replay;
#[cfg(test)]
mod tests;

pub use auction::{
    AuctionRecord, BidRecord, CallRecord, DealRecord, EnrichmentResult, GroupRecord, ImpRecord,
    RefusalRecord, SaleRecord, TermsRecord,
};
pub use contest::{Contest, NoContest};
pub use decode::RecordDecodeError;
pub use difference::ReplayDifference;
pub use encode::{
    AuctionContext, JudgedAuction, RecordedBodies, RecordedCall, RecordedExtent, Timings, encode,
};
pub use generation::{
    DspRecord, ENRICHMENT_NAME_MAX, EnrichmentRecord, GenerationInForce, GenerationRecord,
    SOLD_DEAL_TEXT_MAX, SOLD_DEALS_MAX, UnrecordableGeneration, encode_generation,
};
pub use inputs::{BudgetRefusal, BudgetRefusals};
pub use limits::{BIDS_MAX, ID_BYTES_MAX};
pub use outcome::{AuctionEnding, CallOutcome};
pub use replay::{ReplayOutcome, replay};

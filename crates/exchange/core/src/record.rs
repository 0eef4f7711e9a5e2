//! The record of an auction: what it was cleared from and what came of it, written as it ends, and
//! held again from that alone.
//!
//! [`encode`] writes a record straight from an auction, into a buffer that is used again.
//! [`AuctionRecord`] is one read back, and [`replay`] holds it once more by the rules and by the
//! [`GenerationRecord`] that it names: fates and prices are the same, bit for bit, or the difference
//! is told. [`Masks`](crate::Masks) take out of a request what must not be recorded with it.
//!
//! What a record says is in `proto/`; where records are kept is not known here.

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
    AuctionRecord, BidRecord, CallRecord, DealRecord, GroupRecord, ImpRecord, RefusalRecord,
    SaleRecord, TermsRecord,
};
pub use contest::{Contest, NoContest};
pub use decode::RecordDecodeError;
pub use difference::{ChangedValue, ReplayDifference, ValueChange};
pub use encode::{
    AuctionContext, JudgedAuction, RecordedBodies, RecordedCall, RecordedExtent, Timings, encode,
};
pub use generation::{
    DspRecord, GenerationInForce, GenerationRecord, UnrecordableGeneration, encode_generation,
};
pub use inputs::{
    BidInputs, BudgetRefusal, BudgetRefusals, ClearingInputs, InvalidInputs, RecomputedClearing,
};
pub use limits::{BIDS_MAX, ID_BYTES_MAX};
pub use outcome::{AuctionEnding, CallOutcome};
pub use replay::{ReplayOutcome, replay};

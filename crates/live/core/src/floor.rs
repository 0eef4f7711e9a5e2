//! The sequencer of lots: takes commands in the order of their receipt, holds money before a bid is
//! logged, and answers only what is durable.
//!
//! Owns the order of a bid's steps: decided, money on hold, logged, durable, answered. Which bid is
//! accepted is decided in `lots`. Must not know clocks, threads, or how anything is encoded.

mod answer;
mod desk;
mod outlet;
mod record;
mod sequencer;
mod state;

pub use answer::{
    AcceptedBid, FloorAnswer, FloorCommand, FloorRefusal, HISTORY_MAX, LOTS_SHOWN_MAX, LotPage,
    OfferState,
};
pub use outlet::FloorOutlet;
pub use record::{LotRecord, LotRecordBody};
pub use sequencer::{FloorSettings, LotFloor, LotReplayProblem};

#[cfg(test)]
mod tests;

//! What the floor does to the world, in one step.

use super::answer::{FloorAnswer, FloorRefusal};
use super::record::LotRecord;
use crate::ports::{HoldMessage, SoldLot};

/// Where the floor's output goes. `R` is the address of an answer.
pub trait FloorOutlet<R> {
    /// Why nothing can be logged now. None if it can.
    fn paused(&self) -> Option<String>;

    /// Appends a record to the log. Returns false if it is not taken; it is offered again later.
    fn log(&mut self, record: &LotRecord) -> bool;

    /// Sends a message to the ledger. Returns it if it is not taken.
    fn hold(&mut self, message: HoldMessage) -> Result<(), HoldMessage>;

    /// Has the deal of a sold lot offered.
    fn offer(&mut self, sold: SoldLot);

    /// Answers a command.
    fn answer(&mut self, to: R, answer: Result<FloorAnswer, FloorRefusal>);
}

//! Who books what billable events settle, as the dispatcher sees it.
//!
//! What becomes of the money is not known here.

use exchange_core::Reservation;

/// Takes settlements in the order of the log.
///
/// At a start come all that the log still holds above [`Self::applied_seq`], then [`Self::replayed`], then
/// those of this life. What was booked before and is not known to be booked for good is told again, under
/// the same sequence.
pub trait Settlements: Send {
    /// The log's record at `sequence`, above all that were told before, is durable, and settles this.
    /// None may be lost: where there is no room this waits.
    fn settled(&mut self, sequence: u64, reservation: &Reservation);

    /// The log is durable up to `sequence`, and all that settles up to there has been told. Never less than
    /// before, nor than what was told.
    fn reached(&mut self, sequence: u64);

    /// All that the log held at the start has been told.
    fn replayed(&mut self);

    /// Up to here all is booked for good: nothing of it has to be told at a later start, and the log may
    /// forget it. Never goes back.
    fn applied_seq(&self) -> u64;
}

/// Without budgets nothing is reserved, nothing is settled, and the log is kept for nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unbudgeted;

impl Settlements for Unbudgeted {
    fn settled(&mut self, _: u64, _: &Reservation) {}

    fn reached(&mut self, _: u64) {}

    fn replayed(&mut self) {}

    fn applied_seq(&self) -> u64 {
        u64::MAX
    }
}

//! Books settlements of billable events, as the dispatcher sees it.
//!
//! Must not know what becomes of the money.

use exchange_core::Reservation;

/// Takes settlements in the order of the log.
///
/// A start first passes all settlements that the log holds above [`Self::applied_seq`], calls
/// [`Self::replayed`], then passes new ones. Settlements booked before but not durably come again
/// under the same sequence.
pub trait Settlements: Send {
    /// The log's record at `sequence` is durable and settles `reservation`. Sequences increase.
    /// None may be lost: without room this blocks.
    fn settled(&mut self, sequence: u64, reservation: &Reservation);

    /// The log is durable up to `sequence`, and all settlements up to it were passed. Never
    /// decreases, and is never below a passed sequence.
    fn reached(&mut self, sequence: u64);

    /// The start has passed all that the log held.
    fn replayed(&mut self);

    /// Sequence up to which all is booked durably: a later start skips it, and the log may drop it.
    /// Never decreases.
    fn applied_seq(&self) -> u64;
}

/// Without budgets nothing is reserved or settled, and the log need not be kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBudgets;

impl Settlements for NoBudgets {
    fn settled(&mut self, _: u64, _: &Reservation) {}

    fn reached(&mut self, _: u64) {}

    fn replayed(&mut self) {}

    fn applied_seq(&self) -> u64 {
        u64::MAX
    }
}

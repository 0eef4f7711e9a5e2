//! The stored lifetime of each epoch, and the horizon of its reservations.
//!
//! Owns how two lifetimes merge. The ledger draws the conclusions at a start.

/// How long an epoch has lasted so far, and its horizon. Both only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochLifetime {
    /// Milliseconds from the epoch's start to the batch, on a monotonic clock: a lower bound.
    pub lasted_ms: u64,
    /// Milliseconds after the epoch's end in which a win of its reservations may still be in time
    /// and reach the ledger through the log.
    pub horizon_ms: u64,
}

impl EpochLifetime {
    /// The larger of each figure, in whichever order the two arrived.
    #[must_use]
    pub fn latest(self, other: Self) -> Self {
        Self {
            lasted_ms: self.lasted_ms.max(other.lasted_ms),
            horizon_ms: self.horizon_ms.max(other.horizon_ms),
        }
    }
}

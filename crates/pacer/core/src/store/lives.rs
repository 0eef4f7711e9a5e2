//! What a store keeps of each epoch: how long it has lasted, and how long its reservations last.
//!
//! Owns what a [`EpochLifetime`] says, and which of two is the newer. What a start concludes from lives is the
//! ledger's.

/// How long an epoch has lasted so far, and how long its reservations may. Both only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochLifetime {
    /// Milliseconds from the epoch's start to the batch that says so, by a clock that never goes back:
    /// it lasted at least so long.
    pub lasted_ms: u64,
    /// Milliseconds after the epoch's end in which a win of one of its reservations may still be in
    /// time and reach the ledger through the log.
    pub horizon_ms: u64,
}

impl EpochLifetime {
    /// The later of both, figure by figure, whichever came first.
    #[must_use]
    pub fn latest(self, other: Self) -> Self {
        Self {
            lasted_ms: self.lasted_ms.max(other.lasted_ms),
            horizon_ms: self.horizon_ms.max(other.horizon_ms),
        }
    }
}

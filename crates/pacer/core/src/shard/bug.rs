//! Mistakes that tests plant in a shard and its tokens. Without the feature `testing` none exists.

/// A possible mistake of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardBug {
    /// Settles a token twice.
    SettleTwice,
    /// Keeps the remainder of a win below the reservation.
    LoseRemainder,
    /// Books a win to the newest period, not to the reservation's.
    WrongPeriod,
    /// Reuses the number of the previous reservation.
    ReuseSequence,
    /// Gives back an expired amount again when it is forgotten.
    ExpireTwice,
    /// Settles a late win as if it were still reserved.
    SettleLateAsOpen,
    /// Makes returns spendable after their period.
    KeepAfterPeriod,
    /// Reserves after the period.
    ReserveAfterPeriod,
    /// Spends the next period's budget before it begins.
    SpendEarly,
    /// Adds a grant instead of taking it as the total.
    AddGrant,
    /// Takes an older gate for the newest.
    TrustOldGate,
    /// Keeps free budget despite a recall.
    IgnoreRecall,
    /// Expires claimed reservations.
    ExpireClaimed,
    /// Keeps a given-up claim reserved after its time.
    StrandUnclaimed,
    /// Settles a price above the reservation in full.
    SettleOver,
    /// Forgets wins at expiry.
    ForgetWins,
    /// Gives back a won reservation on a loss notice.
    ReleaseWon,
    /// Gives back open reservations at the end.
    CloseReserved,
    /// Restarts a period's sums when an old grant is repeated.
    ReviveRetired,
    /// Trusts tokens without a check.
    TrustText,
}

#[cfg(any(test, feature = "testing"))]
impl ShardBug {
    /// All bugs of a spending shard; [`ShardBug::TrustText`] is a token's.
    pub const OF_SHARDS: [Self; 18] = [
        Self::SettleTwice,
        Self::LoseRemainder,
        Self::WrongPeriod,
        Self::ReuseSequence,
        Self::ExpireTwice,
        Self::SettleLateAsOpen,
        Self::KeepAfterPeriod,
        Self::ReserveAfterPeriod,
        Self::SpendEarly,
        Self::AddGrant,
        Self::TrustOldGate,
        Self::IgnoreRecall,
        Self::ExpireClaimed,
        Self::StrandUnclaimed,
        Self::SettleOver,
        Self::ForgetWins,
        Self::ReleaseWon,
        Self::ReviveRetired,
    ];
}

#[cfg(any(test, feature = "testing"))]
faults::plantable!(ShardBug, pub, pub(crate));

#[cfg(not(any(test, feature = "testing")))]
pub(crate) const fn planted(_: ShardBug) -> bool {
    false
}

//! Faults that tests plant in a shard and its tokens, to see that they would be found. Without the
//! feature `testing` there are none, and the question below costs nothing.

/// A mistake that an implementation of a shard could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardBug {
    /// Settling a token again that was settled already.
    SettleTwice,
    /// Not giving back what a win costs less than was reserved.
    LoseRemainder,
    /// Booking a win to the newest period, not to the reservation's.
    WrongPeriod,
    /// Giving a reservation the number of the one before.
    ReuseSequence,
    /// Giving back what has expired a second time when it is forgotten.
    ExpireTwice,
    /// Settling a late win as if its money were still reserved.
    SettleLateAsOpen,
    /// Giving money of a period that is over to be spent again.
    KeepAfterPeriod,
    /// Reserving though the period is over.
    ReserveAfterPeriod,
    /// Spending the next period's money before it begins.
    SpendEarly,
    /// Adding a grant to what was granted before, though it says all.
    AddGrant,
    /// Taking an older gate for the newest.
    TrustOldGate,
    /// Keeping what is free though it is recalled.
    IgnoreRecall,
    /// Letting what is being settled expire meanwhile.
    ExpireClaimed,
    /// Keeping what was not settled in the end reserved, though its time is over.
    StrandUnclaimed,
    /// Settling a price above what was reserved in full.
    SettleOver,
    /// Forgetting at expiry what was won.
    ForgetWins,
    /// Giving back what was won when its loss is told, too.
    ReleaseWon,
    /// Giving back at the end what reservations hold.
    CloseReserved,
    /// Beginning a period's sums anew when an old grant of it is repeated.
    ReviveRetired,
    /// Believing tokens without looking at their check.
    TrustText,
}

#[cfg(any(test, feature = "testing"))]
impl ShardBug {
    /// All that a shard can have while it spends; [`ShardBug::TrustText`] is a token's.
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

//! Mistakes that tests plant in the ledger, to see that they would be found. Without the feature
//! `testing` there are none, and the questions below cost nothing.

/// A mistake that a ledger could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Granting what a batch leases before the batch is durable.
    GrantEarly,
    /// Taking a batch of which nobody knows for one that was refused.
    UnknownIsRefused,
    /// Taking a batch of which nobody knows for one that is durable.
    UnknownIsCommitted,
    /// Not saving once more what a refused batch should have saved.
    ForgetUnsaved,
    /// Holding on to what a refused batch should have leased.
    KeepRefused,
    /// Counting by days of UTC.
    UtcDay,
    /// Believing a clock that goes back.
    ReopenPeriod,
    /// Reclaiming what a dead epoch had outstanding before its tokens have expired.
    ReclaimBeforeHorizon,
    /// Reclaiming it before the log has been replayed.
    ReclaimBeforeReplay,
    /// Not counting what dead epochs hold.
    ForgetFrozen,
    /// Applying a record of the log once more.
    SettleTwice,
    /// Taking recalled rights for returned ones.
    RecallNotAwaited,
    /// Adding up reports that tell the same again.
    AddReports,
    /// Not applying a limit that is lower than the one before.
    IgnoreCut,
    /// Letting an older version of a definition overrule a newer one.
    OlderWins,
    /// Not counting late wins and overprices.
    ForgetLate,
    /// Granting what is held back for late wins.
    IgnoreHoldback,
    /// Not looking at the account's limits.
    IgnoreAccount,
    /// Granting in a period that is over.
    GrantOldPeriod,
    /// Keeping what is left of a period that is over.
    KeepOldPeriod,
}

#[cfg(any(test, feature = "testing"))]
impl Bug {
    /// All there are.
    pub const ALL: [Self; 20] = [
        Self::GrantEarly,
        Self::UnknownIsRefused,
        Self::UnknownIsCommitted,
        Self::ForgetUnsaved,
        Self::KeepRefused,
        Self::UtcDay,
        Self::ReopenPeriod,
        Self::ReclaimBeforeHorizon,
        Self::ReclaimBeforeReplay,
        Self::ForgetFrozen,
        Self::SettleTwice,
        Self::RecallNotAwaited,
        Self::AddReports,
        Self::IgnoreCut,
        Self::OlderWins,
        Self::ForgetLate,
        Self::IgnoreHoldback,
        Self::IgnoreAccount,
        Self::GrantOldPeriod,
        Self::KeepOldPeriod,
    ];
}

#[cfg(any(test, feature = "testing"))]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for the ledgers that run on this thread.
#[cfg(any(test, feature = "testing"))]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

#[cfg(any(test, feature = "testing"))]
pub(super) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(not(any(test, feature = "testing")))]
pub(super) const fn planted(_: Bug) -> bool {
    false
}

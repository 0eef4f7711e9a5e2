//! Mistakes that tests plant in the ledger. Without the feature `testing` none exists.

/// A possible mistake of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum LedgerBug {
    /// Grants a lease before its batch is durable.
    GrantEarly,
    /// Treats an unknown outcome as refused.
    UnknownIsRefused,
    /// Treats an unknown outcome as committed.
    UnknownIsCommitted,
    /// Does not save again what a refused batch contained.
    ForgetUnsaved,
    /// Keeps leases of a refused batch.
    KeepRefused,
    /// Counts by UTC days.
    UtcDay,
    /// Follows a clock that goes back.
    ReopenPeriod,
    /// Reclaims a dead epoch's budget before its tokens have expired.
    ReclaimBeforeHorizon,
    /// Reclaims all dead epochs' budget with the first of them.
    ReclaimAllAtFirst,
    /// Doubles the lifetimes of epochs.
    CountLivesTwice,
    /// Reclaims before the log has been replayed.
    ReclaimBeforeReplay,
    /// Does not return the pools at shutdown.
    KeepAtClose,
    /// Treats what a shard holds at its end as never taken.
    ReturnTaken,
    /// Does not count what dead epochs hold.
    ForgetFrozen,
    /// Applies a log record twice.
    SettleTwice,
    /// Treats recalled budget as returned.
    RecallNotAwaited,
    /// Adds up repeated reports.
    AddReports,
    /// Ignores a lowered limit.
    IgnoreCut,
    /// Lets an older definition replace a newer one.
    OlderWins,
    /// Does not count late wins and overprices.
    ForgetLate,
    /// Treats what a late win has used as returned.
    ReturnLate,
    /// Drops wins of forgotten leases.
    ForgetStray,
    /// Grants a campaign's holdback.
    IgnoreHoldback,
    /// Grants an account's holdback.
    IgnoreAccountHoldback,
    /// Ignores the account's limits.
    IgnoreAccount,
    /// Grants in a period that is over.
    GrantOldPeriod,
    /// Keeps the remainder of a period that is over.
    KeepOldPeriod,
    /// Closes a period while wins may still come late.
    CloseEarly,
    /// Folds a period that a clock put back may show again.
    FoldEarly,
    /// Ignores folded sums at a start.
    ForgetSums,
}

#[cfg(any(test, feature = "testing"))]
impl LedgerBug {
    /// All bugs.
    pub const ALL: [Self; 30] =
        *<Self as strum::VariantArray>::VARIANTS.as_array().expect("that is how many there are");
}

#[cfg(any(test, feature = "testing"))]
faults::plantable!(LedgerBug, pub, pub(super));

#[cfg(not(any(test, feature = "testing")))]
pub(super) const fn planted(_: LedgerBug) -> bool {
    false
}

//! Mistakes that tests plant in the ledger, to see that they would be found. Without the feature
//! `testing` there are none, and the questions below cost nothing.

/// A mistake that a ledger could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum LedgerBug {
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
    /// Reclaiming what all dead epochs had outstanding with the first of them.
    ReclaimAllAtFirst,
    /// Taking epochs for twice as long as they lasted.
    CountLivesTwice,
    /// Reclaiming it before the log has been replayed.
    ReclaimBeforeReplay,
    /// Not giving back at the end what no shard holds.
    KeepAtClose,
    /// Taking what a shard holds at its end for what never came to it.
    ReturnTaken,
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
    /// Taking what a late win has used for what a shard gave back.
    ReturnLate,
    /// Not keeping what was spent out of leases that were forgotten.
    ForgetStray,
    /// Granting what is held back for late wins.
    IgnoreHoldback,
    /// Granting what an account holds back for late wins.
    IgnoreAccountHoldback,
    /// Not looking at the account's limits.
    IgnoreAccount,
    /// Granting in a period that is over.
    GrantOldPeriod,
    /// Keeping what is left of a period that is over.
    KeepOldPeriod,
    /// Closing a period while wins may still come late.
    CloseEarly,
    /// Folding a period whose hour may be shown again by a clock that is put back.
    FoldEarly,
    /// Not counting at a start what was folded.
    ForgetSums,
}

#[cfg(any(test, feature = "testing"))]
impl LedgerBug {
    /// All there are.
    pub const ALL: [Self; 30] =
        *<Self as strum::VariantArray>::VARIANTS.as_array().expect("that is how many there are");
}

#[cfg(any(test, feature = "testing"))]
faults::plantable!(LedgerBug, pub, pub(super));

#[cfg(not(any(test, feature = "testing")))]
pub(super) const fn planted(_: LedgerBug) -> bool {
    false
}

//! Faults planted in delivery by the simulation, to prove that it finds them. None exist outside
//! this crate's tests, where the check below costs nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryBug {
    SendEarly,
    AcknowledgeEarly,
    ForgetDelivered,
    ForgetAtStart,
    ForgetOwed,
    SkipSettled,
    NeverRetry,
    UnpinOwed,
    ShareNothing,
    Unbounded,
    ForgetPending,
    WaitWhileFailing,
    CallAgainFirst,
    UnpinOnTheWay,
    /// Checkpoints are too late for a start.
    CheckpointLate,
    /// A group's records get the sequence of its last.
    MisplaceGroup,
    SettleMoved,
    /// Only records with a waiting call settle.
    SettleAwaited,
    SettleAgain,
    SettleBackward,
    SettleEarly,
    /// Durable records count as settled before they are reported.
    ReachEarly,
    /// Records with unapplied settlements are deleted.
    KeepNeededAlone,
    ReadNeededAlone,
    SkipReplayed,
}

/// A beacon's reservation, for bugs that need it later. In tests the id determines it.
#[cfg(test)]
pub(crate) fn carried(
    id: crate::notices::token::TokenId,
) -> Option<crate::notices::reservation::Reservation> {
    Some(super::tests::fixtures::reservation(id.0[0]))
}

#[cfg(not(test))]
pub(crate) const fn carried(
    _: crate::notices::token::TokenId,
) -> Option<crate::notices::reservation::Reservation> {
    None
}

#[cfg(test)]
faults::plantable!(DeliveryBug, pub(crate), pub(crate));

#[cfg(not(test))]
pub(crate) const fn planted(_: DeliveryBug) -> bool {
    false
}

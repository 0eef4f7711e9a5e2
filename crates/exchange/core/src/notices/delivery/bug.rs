//! Faults planted in delivery by the simulation, to prove that it finds them. None exist outside
//! this crate's tests, where the check below costs nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryBug {
    SendEarly,
    AcknowledgeEarly,
    ForgetDelivered,
    ForgetAtStart,
    ForgetOwed,
    /// No journal record of a delivery.
    SkipSettled,
    NeverRetry,
    /// Needed records are declared deletable.
    UnpinOwed,
    ShareNothing,
    Unbounded,
    /// Forgetting beacons whose record may still become durable.
    ForgetPending,
    /// Calls wait while the log cannot be written.
    WaitWhileFailing,
    /// Later calls of a beacon count as its first.
    CallAgainFirst,
    /// Pending records are declared deletable.
    UnpinOnTheWay,
    /// Checkpoints are too late for a start.
    CheckpointLate,
    /// A group's records get the sequence of its last.
    MisplaceGroup,
    /// Rewritten records carry their reservation.
    SettleMoved,
    /// Only records with a waiting call settle.
    SettleAwaited,
    /// Each later call settles again.
    SettleAgain,
    /// Groups settle from their end.
    SettleBackward,
    /// Records settle before they are durable.
    SettleEarly,
    /// Durable records count as settled before they are reported.
    ReachEarly,
    /// Records with unapplied settlements are deleted.
    KeepNeededAlone,
    /// A start skips records with unapplied settlements.
    ReadNeededAlone,
    /// A start emits no settlements.
    SkipReplayed,
}

/// A beacon's reservation, for bugs that need it later: delivery forgets it. In tests the id
/// determines it.
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

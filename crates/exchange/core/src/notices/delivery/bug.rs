//! Faults that the simulation plants in delivery, to see that they would be found. Outside of this
//! package's own tests there are none, and the question below costs nothing.

/// A mistake that delivery could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryBug {
    /// Sending before the record is durable.
    SendEarly,
    /// Answering the beacon before the record is durable.
    AcknowledgeEarly,
    /// Forgetting a token once its notice is delivered.
    ForgetDelivered,
    /// Forgetting delivered tokens at a start.
    ForgetAtStart,
    /// Forgetting owed notices at a start.
    ForgetOwed,
    /// Not saying in the journal that a notice was delivered.
    SkipSettled,
    /// Giving up after the first failure.
    NeverRetry,
    /// Declaring records unneeded that are needed.
    UnpinOwed,
    /// Treating DSPs that fail like those that do not.
    ShareNothing,
    /// Counting no limit on what is owed.
    Unbounded,
    /// Forgetting beacons whose record may yet become durable.
    ForgetPending,
    /// Letting calls wait for a log that is not written.
    WaitWhileFailing,
    /// Telling of each call that comes after the first of a beacon that it is the first.
    CallAgainFirst,
    /// Declaring unneeded what is on its way.
    UnpinOnTheWay,
    /// Writing checkpoints behind what a start needs.
    CheckpointLate,
    /// Taking the last record of a group for where all of it stands.
    MisplaceGroup,
    /// Writing a reservation anew with its notice.
    SettleMoved,
    /// Settling only what somebody waits for.
    SettleAwaited,
    /// Settling once more with each call that comes after the first.
    SettleAgain,
    /// Settling a group of records from its end.
    SettleBackward,
    /// Settling what is handed over, before it is durable.
    SettleEarly,
    /// Telling of all as settled that is durable, though not all of it was heard of.
    ReachEarly,
    /// Letting records go that settle what is not booked.
    KeepNeededAlone,
    /// Starting to read behind what is not booked.
    ReadNeededAlone,
    /// Passing over what settles at a start.
    SkipReplayed,
}

/// What a beacon carried, for bugs that must know it later: delivery does not. Beacons of tests carry what
/// their id says.
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

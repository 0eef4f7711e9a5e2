//! Faults that the tests plant in the store, to see that they would be found. Outside of this
//! package's own tests there are none, and the question below costs nothing.

/// A mistake that an engine on a disk could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskBug {
    /// Committing without waiting for the medium.
    DropSync,
    /// Saying that a batch is committed though its commit failed.
    AcknowledgeEarly,
    /// Saying that a batch is refused though it is not known.
    RefuseUnknown,
    /// Going on in the same file after a failed sync.
    TrustPageCache,
    /// Not making the name of a file written anew durable.
    SkipDirectorySync,
    /// Putting a file in place of the old one before it is whole.
    RenameEarly,
    /// Committing each half of a batch by itself.
    CommitHalves,
    /// Taking what a commit left behind for torn, whatever it is, and going back by one.
    OnePhase,
}

#[cfg(test)]
faults::plantable!(DiskBug, pub(crate), pub(crate));

#[cfg(not(test))]
pub(crate) const fn planted(_: DiskBug) -> bool {
    false
}

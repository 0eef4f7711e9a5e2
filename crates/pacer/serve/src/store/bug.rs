//! Faults that this package's tests plant in the store, to prove that they would be found.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskBug {
    /// Commits without waiting for the medium.
    DropSync,
    /// Reports a failed commit as committed.
    AcknowledgeEarly,
    /// Reports an unknown outcome as refused.
    RefuseUnknown,
    /// Continues in the same file after a failed sync.
    TrustPageCache,
    /// Does not sync the name of a new file.
    SkipDirectorySync,
    /// Renames a new file before it is complete.
    RenameEarly,
    /// Commits the halves of a batch separately.
    CommitHalves,
    /// Treats any leftover of a commit as torn, and returns to the one before.
    OnePhase,
}

#[cfg(test)]
faults::plantable!(DiskBug, pub(crate), pub(crate));

#[cfg(not(test))]
pub(crate) const fn planted(_: DiskBug) -> bool {
    false
}

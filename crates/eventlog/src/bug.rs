//! Faults that the tests plant in the log, to see that they would be found, and moments at which
//! they let other threads work. Outside of this package's own tests there are none, and the
//! questions below cost nothing.

/// A mistake that an implementation of a log could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Committing without waiting for the medium.
    DropSync,
    /// Telling that a commit held though it failed.
    AcknowledgeEarly,
    /// Calling sync again after it failed, and believing the second answer.
    RetrySync,
    /// Not making a new file's name durable.
    SkipDirectorySync,
    /// Believing frames without looking at their checks.
    SkipCheck,
    /// Going on at the last sequence found, not behind it.
    ReuseSequence,
    /// Taking what the page cache shows after a start for what the medium holds.
    TrustPageCache,
    /// Taking the tail of a segment for good though a later segment overrules it.
    KeepOverruled,
    /// Taking the newest file for the newest segment without looking at it.
    TrustNewestName,
    /// Believing an index without holding it against its segment.
    TrustIndex,
    /// Removing the oldest segments whatever is still wanted of them.
    RemoveWanted,
    /// Removing segments before it is durable that they are not wanted.
    RemoveUndeclared,
    /// Telling producers that records are durable before their commit has returned.
    AcknowledgeBeforeCommit,
    /// Not keeping records whose commit failed.
    LoseRetained,
    /// Not counting as lost what a failed commit took with it.
    ForgetGap,
    /// Counting what was shed once more after a failed commit.
    RepeatGap,
    /// Sealing the log before its last records are durable.
    SealBeforeSync,
    /// Renaming the file of the end before its bytes are durable.
    SkipEndSync,
    /// Beginning a segment without the hash of the one before.
    SkipChain,
    /// Leaving a sealed end in place when the log goes on.
    KeepSeal,
    /// Saying of the other lane what is not durable in it.
    WatermarkAhead,
    /// Not looking at how far the log reached.
    IgnoreEnd,
}

/// Where a test lets another thread's work happen, as if it were just there.
#[cfg(test)]
pub(crate) fn meanwhile() {
    if let Some(happens) = MEANWHILE.take() {
        happens();
    }
}

#[cfg(not(test))]
pub(crate) const fn meanwhile() {}

/// What happens the next time that this thread comes to such a place.
#[cfg(test)]
pub(crate) fn happen(what: impl FnOnce() + 'static) {
    MEANWHILE.set(Some(Box::new(what)));
}

#[cfg(test)]
thread_local! {
    static MEANWHILE: std::cell::Cell<Option<Box<dyn FnOnce()>>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
faults::plantable!(Bug, pub(crate), pub(crate));

#[cfg(not(test))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

//! Mistakes that tests plant in the log to prove that they are found, and points at which tests run
//! another thread's work. Both cost nothing in production.

/// A mistake that an implementation of a log could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogBug {
    /// Committing without waiting for the medium.
    DropSync,
    /// Reporting success of a failed commit.
    AcknowledgeEarly,
    /// Retrying a failed sync and trusting the second result.
    RetrySync,
    /// Not making a new file's name durable.
    SkipDirectorySync,
    /// Trusting frames without their checks.
    SkipCheck,
    /// Continuing at the last sequence found, not after it.
    ReuseSequence,
    /// Trusting the page cache after a start.
    TrustPageCache,
    /// Accepting the tail of a segment that a later segment overrules.
    KeepOverruled,
    /// Accepting the newest file as the newest segment unread.
    TrustNewestName,
    /// Trusting an index without comparing it with its segment.
    TrustIndex,
    /// Removing the oldest segments though they are wanted.
    RemoveWanted,
    /// Removing segments before they are durably declared unwanted.
    RemoveUndeclared,
    /// Acknowledging records before their commit has returned.
    AcknowledgeBeforeCommit,
    /// Dropping records whose commit failed.
    LoseRetained,
    /// Not reporting records that a failed commit lost.
    ForgetGap,
    /// Reporting shed records again after a failed commit.
    RepeatGap,
    /// Sealing the log before its last records are durable.
    SealBeforeSync,
    /// Renaming the file `end` before its bytes are durable.
    SkipEndSync,
    /// Beginning a segment without the hash of the previous one.
    SkipChain,
    /// Leaving the sealed `end` in place when the log continues.
    KeepSeal,
    /// A watermark ahead of what is durable.
    WatermarkAhead,
    /// Ignoring how far the log had reached.
    IgnoreEnd,
}

/// A point at which a test may run another thread's work.
#[cfg(test)]
pub(crate) fn meanwhile() {
    if let Some(happens) = MEANWHILE.take() {
        happens();
    }
}

#[cfg(not(test))]
pub(crate) const fn meanwhile() {}

/// Runs `what` the next time this thread reaches such a point.
#[cfg(test)]
pub(crate) fn happen(what: impl FnOnce() + 'static) {
    MEANWHILE.set(Some(Box::new(what)));
}

#[cfg(test)]
thread_local! {
    static MEANWHILE: std::cell::Cell<Option<Box<dyn FnOnce()>>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
faults::plantable!(LogBug, pub(crate), pub(crate));

#[cfg(not(test))]
pub(crate) const fn planted(_: LogBug) -> bool {
    false
}

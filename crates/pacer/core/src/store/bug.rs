//! Mistakes that an engine could make, for the in-memory store to make on purpose: to see that the
//! suite, and simulations, would find them.

/// A mistake that an implementation of a store could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum StoreBug {
    /// Applying the first half of a batch that is refused.
    ApplyHalf,
    /// Keeping the first half of a batch only, whole as it was.
    LoseHalf,
    /// Letting older epochs write.
    ForgetFence,
    /// Giving an epoch twice.
    ReuseEpoch,
    /// Forgetting at a restart which epoch was given.
    ForgetEpoch,
    /// Letting an older cumulative overwrite a newer.
    OverwriteNewer,
    /// Adding up what is cumulative.
    AddUp,
    /// Saying that a batch is committed before it is durable.
    CommitEarly,
    /// Taking leases of epochs that never began.
    TakeAnyEpoch,
    /// Taking leases of which more is gone than was granted.
    TakeUnbalanced,
    /// Going back with what was applied of the log.
    LowerAppliedSeq,
    /// Taking one node's leases for another's.
    MixNodes,
    /// Putting a definition whatever version stands there.
    IgnoreExpected,
    /// Letting an older definition overwrite a newer.
    OlderDefinition,
    /// Keeping what a change had put before its conflict.
    KeepHalfChange,
    /// Calling a change that is there already a conflict.
    ConflictWithItself,
    /// Appending audit entries again when their change comes again.
    RepeatAudit,
    /// Appending audit entries of a change that was refused.
    AuditRefused,
    /// Taking accounts and campaigns of the same name for one.
    MixKinds,
    /// Never answering what was refused.
    SwallowRefusal,
    /// Adding what is folded to its sum and keeping it where it stood.
    FoldTwice,
    /// Not adding late wins and overprices to the sum of what is folded.
    FoldDropsLate,
    /// Folding what has something left.
    FoldOpen,
    /// Applying older batches behind one that folded.
    ForgetFolded,
    /// Counting a stray once more with each batch that says it.
    StrayTwice,
    /// Not keeping how long epochs lasted.
    ForgetLives,
    /// Letting an older batch say that its epoch lasted less.
    ShortenLives,
}

impl StoreBug {
    /// All there are.
    pub const ALL: [Self; 27] =
        *<Self as strum::VariantArray>::VARIANTS.as_array().expect("that is how many there are");
}

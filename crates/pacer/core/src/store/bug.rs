//! Mistakes that the in-memory store makes on purpose, to prove that tests detect them.

/// A possible mistake of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum StoreBug {
    /// Applies the first half of a refused batch.
    ApplyHalf,
    /// Applies only the first half of a batch.
    LoseHalf,
    /// Lets older epochs write.
    ForgetFence,
    /// Gives an epoch twice.
    ReuseEpoch,
    /// Forgets a given epoch at a restart.
    ForgetEpoch,
    /// Lets older figures overwrite newer ones.
    OverwriteNewer,
    /// Adds up cumulative figures.
    AddUp,
    /// Reports a batch as committed before it is durable.
    CommitEarly,
    /// Accepts leases of epochs that never began.
    TakeAnyEpoch,
    /// Accepts unbalanced leases.
    TakeUnbalanced,
    /// Lowers the applied log record.
    LowerAppliedSeq,
    /// Mixes the leases of nodes.
    MixNodes,
    /// Ignores the expected version of a definition.
    IgnoreExpected,
    /// Lets an older definition overwrite a newer one.
    OlderDefinition,
    /// Keeps what a change wrote before its conflict.
    KeepHalfChange,
    /// Reports a repeated change as a conflict.
    ConflictWithItself,
    /// Repeats audit entries of a repeated change.
    RepeatAudit,
    /// Appends audit entries of a refused change.
    AuditRefused,
    /// Mixes accounts and campaigns of the same name.
    MixKinds,
    /// Never answers refused requests.
    SwallowRefusal,
    /// Adds a folded row to its sum, but keeps it.
    FoldTwice,
    /// Folds without late wins and overprices.
    FoldDropsLate,
    /// Folds open leases.
    FoldOpen,
    /// Applies batches older than one that folded.
    ForgetFolded,
    /// Counts an unattributed win once per batch.
    StrayTwice,
    /// Drops epoch lifetimes.
    ForgetLives,
    /// Lets an older batch shorten a lifetime.
    ShortenLives,
}

impl StoreBug {
    /// All bugs.
    pub const ALL: [Self; 27] =
        *<Self as strum::VariantArray>::VARIANTS.as_array().expect("that is how many there are");
}

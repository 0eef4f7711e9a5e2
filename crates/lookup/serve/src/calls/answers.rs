//! What a call gives.

use std::sync::Arc;

use lookup_core::map::CallId;
use lookup_core::records::RecordSet;

/// A call, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub call: CallId,
    /// Index of the provider's instance.
    pub instance: usize,
    /// Path and query.
    pub target: String,
}

/// The records of an answer.
#[derive(Clone, Debug)]
pub(crate) struct CallRecords {
    pub set: Arc<RecordSet>,
    /// Of memory.
    pub bytes: usize,
    /// When they were fetched, in milliseconds since 1970.
    pub fetched_unix_ms: u64,
    /// Until when they count, in milliseconds since 1970.
    pub expires_unix_ms: u64,
}

/// Where records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerSource {
    Provider,
    Cache,
    /// From the cache too, and expired; new ones are being fetched.
    Stale,
}

/// What a call gave.
#[derive(Clone, Debug)]
pub(crate) struct ProviderCallAnswer {
    pub records: CallRecords,
    pub source: AnswerSource,
    pub attempts: u32,
}

/// Why a call gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// There was no answer in time.
    Timeout,
    /// It was not made, or not again: the provider has too much to do, or is left alone.
    Shed,
    Error,
}

#[derive(Clone, Debug)]
pub(crate) struct ProviderCallFailure {
    pub kind: FailureKind,
    pub reason: Arc<str>,
    pub attempts: u32,
    /// Whether only the deadline of the one who began the call passed.
    pub is_late: bool,
}

impl ProviderCallFailure {
    pub fn new(kind: FailureKind, reason: impl Into<Arc<str>>, attempts: u32) -> Self {
        Self { kind, reason: reason.into(), attempts, is_late: false }
    }
}

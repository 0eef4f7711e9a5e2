//! Entries of the memory.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use quick_cache::{Equivalent, Weighter};

/// A value of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemoryKey {
    pub rule: u32,
    pub value: Box<str>,
}

/// The same, borrowed. Has the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemoryKeyRef<'v> {
    pub rule: u32,
    pub value: &'v str,
}

impl Equivalent<MemoryKey> for MemoryKeyRef<'_> {
    fn equivalent(&self, key: &MemoryKey) -> bool {
        self.rule == key.rule && *self.value == *key.value
    }
}

impl MemoryKeyRef<'_> {
    pub fn to_owned(self) -> MemoryKey {
        MemoryKey { rule: self.rule, value: self.value.into() }
    }
}

/// A value is not looked up again before so long.
pub(super) const AGAIN_AFTER_MS: u64 = 2_000;
/// A value that is being looked up.
const UNDER_WAY: u64 = u64::MAX;
/// A value that never was.
const NEVER: u64 = 0;

/// What is known about a value. Times are milliseconds since 1970.
#[derive(Debug)]
pub(super) struct MemoryEntry {
    /// None if nothing is.
    pub text: Option<Arc<str>>,
    /// When it was fetched; 0 if it never was.
    pub fetched: u64,
    /// From then on it is looked up again.
    pub expires: u64,
    /// Whether a provider did not say its part.
    pub lacks_part: bool,
    /// Not before then, or [`UNDER_WAY`].
    again: AtomicU64,
}

impl MemoryEntry {
    /// Of a value that is being looked up for the first time.
    pub fn unknown() -> Self {
        Self::found(None, NEVER, NEVER, UNDER_WAY)
    }

    /// Of a value that has been looked up, and is not before `again`.
    pub fn found(text: Option<Arc<str>>, fetched: u64, expires: u64, again: u64) -> Self {
        Self { text, fetched, expires, lacks_part: false, again: AtomicU64::new(again) }
    }

    /// Whether it is to be looked up again.
    pub const fn is_stale(&self, now: u64) -> bool {
        self.lacks_part || self.expires <= now
    }

    pub const fn is_known(&self) -> bool {
        self.fetched != NEVER
    }

    /// Whether it is to be looked up now. Says so to one of those who ask.
    pub fn is_due(&self, now: u64) -> bool {
        let again = self.again.load(Relaxed);
        again <= now && self.again.compare_exchange(again, UNDER_WAY, Relaxed, Relaxed).is_ok()
    }

    /// It is not under way any more, and may be looked up a little after `now`.
    pub fn ask_after(&self, now: u64) {
        self.again.store(now.saturating_add(AGAIN_AFTER_MS), Relaxed);
    }
}

/// Bytes of an entry and its key.
#[derive(Clone)]
pub(super) struct MemoryWeight;

/// Bytes around them: of the cache, and of three allocations.
const OVERHEAD: usize = 128;

impl Weighter<MemoryKey, Arc<MemoryEntry>> for MemoryWeight {
    fn weight(&self, key: &MemoryKey, entry: &Arc<MemoryEntry>) -> u64 {
        let text = entry.text.as_ref().map_or(0, |text| text.len());
        let fixed = size_of::<MemoryKey>() + size_of::<MemoryEntry>() + OVERHEAD;
        (fixed + key.value.len() + text) as u64
    }
}

//! How shards wake the log thread: rarely, and without waiting for it.
//!
//! Before the thread parks it sets a threshold for each ring, and then checks the rings once more.
//! The shard that reaches its threshold wakes the thread, once. Both sides put a fence between
//! their write and their read, so either the shard sees the threshold or the thread sees the
//! shard's records.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread::Thread;

/// Wakes the thread, if one is attached.
#[derive(Debug, Default)]
pub(super) struct ThreadWaker {
    thread: OnceLock<Thread>,
    rung: AtomicU64,
}

impl ThreadWaker {
    /// Wakes the current thread from now on.
    pub fn attach_current_thread(&self) {
        // Only the thread itself calls this, once.
        let _other = self.thread.set(std::thread::current());
    }

    pub fn wake(&self) {
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// How often the thread was woken.
    pub fn wakes(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

/// A word that both ends write without ordering; the ordering comes from fences. Loom tests replace
/// it.
pub(crate) trait AtomicWord {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    /// Makes earlier writes visible to a thread that reads after a later fence.
    fn fence();
}

impl AtomicWord for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::Relaxed)
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// How far a ring may be filled without waking the thread, in bytes since it was made.
#[derive(Debug)]
pub(crate) struct WakeThreshold<W = AtomicU64>(W);

impl<W: AtomicWord> Default for WakeThreshold<W> {
    fn default() -> Self {
        Self(W::new(u64::MAX))
    }
}

impl<W: AtomicWord> WakeThreshold<W> {
    /// Asks to be woken at `bytes`. Call [`Self::fence`] after the last ring.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes);
    }

    /// Separates the thresholds from the last check of the rings: records that came before a shard
    /// could see its threshold are seen now.
    pub fn fence() {
        W::fence();
    }

    /// A shard has written up to `bytes`.
    pub fn reached(&self, bytes: u64, ring: impl FnOnce()) {
        W::fence();
        if bytes >= self.0.load() && self.0.swap(u64::MAX) != u64::MAX {
            ring();
        }
    }
}

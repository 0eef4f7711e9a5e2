//! How shards wake the log thread: rarely, and without waiting for it.
//!
//! Owns the protocol. Before it parks the thread says, for each ring, how many bytes of it are
//! worth waking for, and looks at the rings once more; the shard that gets there wakes it, once.
//! Either the shard sees what the thread said or the thread sees what the shard handed over, for
//! both put a fence between what they write and what they read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread::Thread;

/// Wakes the thread, when there is one.
#[derive(Debug, Default)]
pub(super) struct Bell {
    thread: OnceLock<Thread>,
    rung: AtomicU64,
}

impl Bell {
    /// From now on it wakes this thread.
    pub fn hang_here(&self) {
        // It is the thread's own, and hung once.
        let _other = self.thread.set(std::thread::current());
    }

    pub fn ring(&self) {
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// How often it was rung.
    pub fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

/// A word that both ends write, without any order of its own: that comes from fences. A model of
/// threads brings another than the machine's.
pub(crate) trait Word {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    /// All that was written before is seen by whoever reads behind a fence that comes later.
    fn fence();
}

impl Word for AtomicU64 {
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

/// Up to where a ring may be filled without waking anybody, in bytes since it was made.
#[derive(Debug)]
pub(crate) struct WakeAt<W = AtomicU64>(W);

impl<W: Word> Default for WakeAt<W> {
    fn default() -> Self {
        Self(W::new(u64::MAX))
    }
}

impl<W: Word> WakeAt<W> {
    /// The thread asks to be woken at `bytes`; to be followed by [`Self::asked`].
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes);
    }

    /// The thread has asked all rings, and looks at them once more: what came before a shard could
    /// see that is seen now.
    pub fn asked() {
        W::fence();
    }

    /// The shard has handed over `bytes`, which can be seen.
    pub fn reached(&self, bytes: u64, ring: impl FnOnce()) {
        W::fence();
        if bytes >= self.0.load() && self.0.swap(u64::MAX) != u64::MAX {
            ring();
        }
    }
}

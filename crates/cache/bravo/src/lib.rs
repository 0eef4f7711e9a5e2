//! Reader-writer locks for data that is read far more often than written: BRAVO (Dice and Kogan,
//! "BRAVO: Biased Locking for Reader-Writer Locks", USENIX ATC 2019) over `std`'s lock.
//!
//! While a lock is biased to its readers, a reader says in a slot of its own thread which lock it
//! reads, and writes nothing else: readers on different cores share no cache line that changes. A
//! writer takes the bias away and waits until no slot names the lock. Afterwards readers take the
//! lock beneath, until enough of them have done so that the bias pays again.
//!
//! Unlike the paper's, the slots are not hashed into: each thread owns a [`Handle`], with one slot
//! for all locks of a [`Locks`], so that a store is enough where the paper needs compare-and-swap.
//! A closure has its thread's handle while it reads or writes: it can neither take a second lock,
//! upgrade the one it has, nor wait for a future.

mod sync;

use std::sync::Arc;
use std::sync::PoisonError;

use sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, UnsafeCell, fence, yield_now};
use sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// In a slot: its thread reads nothing by the bias.
const IDLE: usize = usize::MAX;

/// How often a writer looks at a slot before it yields its core to the reader. The model of threads
/// has no cores.
const SPINS: u32 = if cfg!(test) { 0 } else { 64 };

/// A value on cache lines of its own: two, since cores fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Aligned<T>(T);

/// Per thread: the index of the lock that it reads by the bias, or [`IDLE`].
type ReaderSlot = Aligned<AtomicUsize>;

/// Values, each protected by a lock of its own.
#[derive(Debug)]
pub struct Locks<T> {
    locks: Box<[Lock<T>]>,
    slots: Arc<[ReaderSlot]>,
}

#[derive(Debug)]
struct Lock<T> {
    /// Whether readers may use their slots. Written rarely.
    is_biased: Aligned<AtomicBool>,
    beneath: Aligned<Beneath>,
    value: UnsafeCell<T>,
}

#[derive(Debug)]
struct Beneath {
    lock: RwLock<()>,
    /// Reads by the lock beneath until the bias returns.
    inhibited: AtomicU32,
}

/// The right of one thread at a time to use the locks that it was made with.
#[derive(Debug)]
pub struct Handle {
    slots: Arc<[ReaderSlot]>,
    at: usize,
}

// SAFETY: `T: Send`, since a writer on any thread may replace a value; `T: Sync`, since readers on
// several threads refer to it at once. The protocol keeps writers apart from everyone: see
// `Locks::write`, and the model in `tests.rs`.
#[allow(unsafe_code)]
unsafe impl<T: Send + Sync> Sync for Locks<T> {}

impl<T> Locks<T> {
    /// Protects each value by a lock, and makes handles for this many threads.
    pub fn new(values: impl IntoIterator<Item = T>, threads: usize) -> (Self, Vec<Handle>) {
        let slots: Arc<[ReaderSlot]> =
            (0..threads).map(|_| Aligned(AtomicUsize::new(IDLE))).collect();
        let lock = |value| Lock {
            is_biased: Aligned(AtomicBool::new(true)),
            beneath: Aligned(Beneath { lock: RwLock::new(()), inhibited: AtomicU32::new(0) }),
            value: UnsafeCell::new(value),
        };
        let handle = |at| Handle { slots: Arc::clone(&slots), at };
        let handles = (0..threads).map(handle).collect();
        (Self { locks: values.into_iter().map(lock).collect(), slots }, handles)
    }

    /// How many values there are.
    pub const fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether there is no value.
    pub const fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Reads the value at this index, together with other readers.
    ///
    /// # Panics
    ///
    /// If the index is out of bounds, or the handle is not of these locks.
    #[inline]
    pub fn read<R>(&self, handle: &mut Handle, at: usize, visit: impl FnOnce(&T) -> R) -> R {
        let slot = self.slot_of(handle);
        let lock = &self.locks[at];
        let _reading = match Biased::enter(slot, &lock.is_biased.0, at) {
            Some(biased) => Reading::Biased(biased),
            None => Reading::Beneath(self.read_beneath(lock)),
        };
        // SAFETY: a reader is in its slot or has the lock beneath, so no writer refers to the value.
        #[allow(unsafe_code)]
        lock.value.with(|value| visit(unsafe { &*value }))
    }

    /// Changes the value at this index, alone.
    ///
    /// # Panics
    ///
    /// If the index is out of bounds, or the handle is not of these locks.
    pub fn write<R>(&self, handle: &mut Handle, at: usize, visit: impl FnOnce(&mut T) -> R) -> R {
        self.slot_of(handle);
        let lock = &self.locks[at];
        let _writing: RwLockWriteGuard<'_, ()> =
            lock.beneath.0.lock.write().unwrap_or_else(PoisonError::into_inner);
        if lock.is_biased.0.load(Ordering::Relaxed) {
            self.revoke_bias(lock, at);
        }
        // SAFETY: the lock beneath keeps out writers and readers without a slot. It is not biased,
        // nor will it be before `_writing` ends, and no slot named it after the bias had been taken.
        #[allow(unsafe_code)]
        lock.value.with_mut(|value| visit(unsafe { &mut *value }))
    }

    /// Takes the bias away and waits for those who read by it. The caller has the lock beneath.
    #[cold]
    fn revoke_bias(&self, lock: &Lock<T>, at: usize) {
        lock.is_biased.0.store(false, Ordering::Relaxed);
        // With the fence of `Biased::enter`: either this writer sees the reader's slot, or the
        // reader sees that there is no bias.
        fence(Ordering::SeqCst);
        for slot in &*self.slots {
            let mut looks = 0_u32;
            // Acquires what the reader did before it left.
            while slot.0.load(Ordering::Acquire) == at {
                looks += 1;
                match looks > SPINS {
                    true => yield_now(),
                    false => std::hint::spin_loop(),
                }
            }
        }
        // A look at a slot costs about as much as a read by the lock beneath. The paper waits nine
        // times as long, for its writers; at 16 threads that cost readers most of their rate.
        let reads = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        lock.beneath.0.inhibited.store(reads, Ordering::Relaxed);
    }

    #[cold]
    fn read_beneath<'l>(&self, lock: &'l Lock<T>) -> RwLockReadGuard<'l, ()> {
        let reading = lock.beneath.0.lock.read().unwrap_or_else(PoisonError::into_inner);
        // Only a reader gives the bias, and with the lock beneath: no writer is at work.
        let before = lock.beneath.0.inhibited.load(Ordering::Relaxed);
        match before {
            0 => lock.is_biased.0.store(true, Ordering::Release),
            // Readers may both count one read: the bias returns a little later.
            _ => lock.beneath.0.inhibited.store(before - 1, Ordering::Relaxed),
        }
        reading
    }

    fn slot_of<'h>(&self, handle: &'h Handle) -> &'h AtomicUsize {
        assert!(Arc::ptr_eq(&self.slots, &handle.slots), "a handle is used with its own locks");
        &handle.slots[handle.at].0
    }
}

/// How a reader keeps writers out until it is dropped, also by a panic.
enum Reading<'l> {
    Biased(#[expect(dead_code, reason = "its drop ends the read")] Biased<'l>),
    Beneath(#[expect(dead_code, reason = "its drop ends the read")] RwLockReadGuard<'l, ()>),
}

/// A slot that names a lock.
struct Biased<'l> {
    slot: &'l AtomicUsize,
}

impl<'l> Biased<'l> {
    /// None if the lock is not biased.
    #[inline]
    fn enter(slot: &'l AtomicUsize, is_biased: &AtomicBool, at: usize) -> Option<Self> {
        if !is_biased.load(Ordering::Relaxed) {
            return None;
        }
        // Releases the thread's previous read too: a writer that waits for its end may meet this.
        slot.store(at, Ordering::Release);
        let entered = Self { slot };
        // With the fence of `revoke_bias`.
        fence(Ordering::SeqCst);
        // Acquires what the last writer did before a reader gave the bias.
        is_biased.load(Ordering::Acquire).then_some(entered)
    }
}

impl Drop for Biased<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(IDLE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;

//! The locks that the directory needs.

use bravo::{Handle, Locks};

/// Values, each under a lock of its own, which are read far more often than written. What visits a
/// value has its thread's handle: it can take no second lock.
pub trait ReadMostly<T>: Sized {
    /// What a thread needs to use the locks.
    type Handle;

    /// Protects the values, and makes handles for this many threads.
    fn new(values: impl IntoIterator<Item = T>, threads: usize) -> (Self, Vec<Self::Handle>);

    /// Reads the value at this index, together with other readers.
    fn read<R>(&self, handle: &mut Self::Handle, at: usize, visit: impl FnOnce(&T) -> R) -> R;

    /// Changes the value at this index, alone.
    fn write<R>(&self, handle: &mut Self::Handle, at: usize, visit: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> ReadMostly<T> for Locks<T> {
    type Handle = Handle;

    fn new(values: impl IntoIterator<Item = T>, threads: usize) -> (Self, Vec<Handle>) {
        Self::new(values, threads)
    }

    #[inline]
    fn read<R>(&self, handle: &mut Handle, at: usize, visit: impl FnOnce(&T) -> R) -> R {
        self.read(handle, at, visit)
    }

    fn write<R>(&self, handle: &mut Handle, at: usize, visit: impl FnOnce(&mut T) -> R) -> R {
        self.write(handle, at, visit)
    }
}

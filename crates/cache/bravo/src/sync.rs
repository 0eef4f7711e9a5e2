//! The memory that threads share: `std`'s, and loom's model of it in unit tests.

#[cfg(test)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence},
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread::yield_now,
};
#[cfg(not(test))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence},
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread::yield_now,
};

/// `std`'s cell, with the interface of loom's.
#[cfg(not(test))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(test))]
impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub fn with<R>(&self, visit: impl FnOnce(*const T) -> R) -> R {
        visit(self.0.get())
    }

    #[inline]
    pub fn with_mut<R>(&self, visit: impl FnOnce(*mut T) -> R) -> R {
        visit(self.0.get())
    }
}

//! A file that records its first error: after one, redb reports only that there was one.

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pacer_core::store::StoreFault;
use redb::{BackendError, StorageBackend};

use super::error::cause_of;

#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    /// A sync failed, or may have: pages in the cache may not be on the medium, and no later sync
    /// will write them.
    is_suspect: AtomicBool,
    /// First error since the last [`Self::take`].
    first: Mutex<Option<(StoreFault, String)>>,
}

impl DiskWatch {
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    pub(crate) fn set_suspect(&self, is_suspect: bool) {
        self.is_suspect.store(is_suspect, Ordering::Relaxed);
    }

    /// First error since the last call, if any.
    pub(crate) fn take(&self) -> Option<(StoreFault, String)> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| (cause_of(error), error.to_string()));
        }
        result
    }
}

#[derive(Debug)]
pub(crate) struct WatchedFile {
    pub file: Box<dyn StorageBackend>,
    pub watch: Arc<DiskWatch>,
}

impl StorageBackend for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.watch.note(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.watch.note(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.note(self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.watch.note(self.file.sync_data());
        if synced.is_err() {
            self.watch.set_suspect(true);
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.watch.note(self.file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.watch.note(self.file.close())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

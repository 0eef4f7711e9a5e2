//! Readers that follow a lane while it is written: the log thread wakes them, and gathers records
//! for no longer than the most impatient of them allows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes one reader.
type ReaderWaker = Box<dyn Fn() + Send + Sync>;

/// The watches of a lane.
#[derive(Default)]
pub(in crate::lane) struct LaneWatches {
    /// Longest time that records may wait in their rings, in microseconds: one more than the time,
    /// and 0 if no reader limits it.
    gather_us: AtomicU64,
    readers: Mutex<Vec<WatchingReader>>,
}

struct WatchingReader {
    id: u64,
    wake: ReaderWaker,
    /// None while it follows without haste.
    gather: Option<Duration>,
}

impl LaneWatches {
    pub(super) fn add(this: &Arc<Self>, wake: ReaderWaker) -> LaneWatch {
        let mut readers = this.readers();
        let id = readers.iter().map(|reader| reader.id + 1).max().unwrap_or(0);
        readers.push(WatchingReader { id, wake, gather: None });
        drop(readers);
        LaneWatch { watches: Arc::clone(this), id }
    }

    /// How long records may wait, given how long they do without readers.
    pub(in crate::lane) fn gather(&self, usual: Duration) -> Duration {
        match self.gather_us.load(Ordering::Relaxed) {
            0 => usual,
            limit => usual.min(Duration::from_micros(limit - 1)),
        }
    }

    /// Wakes all readers.
    pub(in crate::lane) fn wake(&self) {
        for reader in &*self.readers() {
            (reader.wake)();
        }
    }

    fn limit(&self, readers: &[WatchingReader]) {
        let shortest = readers.iter().filter_map(|reader| reader.gather).min();
        let limit = shortest.map_or(0, |gather| {
            u64::try_from(gather.as_micros()).unwrap_or(u64::MAX).saturating_add(1)
        });
        self.gather_us.store(limit, Ordering::Relaxed);
    }

    fn readers(&self) -> MutexGuard<'_, Vec<WatchingReader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LaneWatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneWatches").field("readers", &self.readers().len()).finish()
    }
}

/// A reader is woken until this is dropped.
#[derive(Debug)]
pub struct LaneWatch {
    watches: Arc<LaneWatches>,
    id: u64,
}

impl LaneWatch {
    /// Limits how long records wait in their rings before they are written. None: as configured.
    pub fn set_gather(&self, gather: Option<Duration>) {
        let mut readers = self.watches.readers();
        for reader in readers.iter_mut().filter(|reader| reader.id == self.id) {
            reader.gather = gather;
        }
        self.watches.limit(&readers);
    }
}

impl Drop for LaneWatch {
    fn drop(&mut self) {
        let mut readers = self.watches.readers();
        readers.retain(|reader| reader.id != self.id);
        self.watches.limit(&readers);
    }
}

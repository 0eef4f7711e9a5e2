//! A disk that measures how long its syncs take. The log itself has no clock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Disk, DiskFile};

/// Counts syncs and their time. One thread writes, any may read.
#[derive(Debug, Default)]
pub struct SyncMeter {
    syncs: AtomicU64,
    nanos: AtomicU64,
}

impl SyncMeter {
    /// Number of syncs so far, including failed ones.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Total time of these syncs.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.syncs.store(self.syncs().wrapping_add(1), Ordering::Relaxed);
        let sum = self.nanos.load(Ordering::Relaxed).saturating_add(nanos);
        self.nanos.store(sum, Ordering::Relaxed);
    }
}

/// Wraps another disk.
#[derive(Debug)]
pub struct TimedDisk<D> {
    disk: D,
    meter: Arc<SyncMeter>,
}

/// A file of a [`TimedDisk`].
#[derive(Debug)]
pub struct TimedFile<F> {
    file: F,
    meter: Arc<SyncMeter>,
}

impl<D> TimedDisk<D> {
    /// Wraps `disk`, and adds syncs of its files to `meter`.
    pub fn new(disk: D, meter: Arc<SyncMeter>) -> Self {
        Self { disk, meter }
    }

    fn timed<F>(&self, file: F) -> TimedFile<F> {
        TimedFile { file, meter: Arc::clone(&self.meter) }
    }
}

impl<D: Disk> Disk for TimedDisk<D> {
    type File = TimedFile<D::File>;
    type Lock = D::Lock;

    fn place(&self) -> String {
        self.disk.place()
    }

    fn lock(&self) -> io::Result<D::Lock> {
        self.disk.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Self::File> {
        Ok(self.timed(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        Ok(self.timed(self.disk.open(name)?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.replace(from, to)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
}

impl<F: DiskFile> DiskFile for TimedFile<F> {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let synced = self.file.sync_data();
        self.meter.add(begun.elapsed());
        synced
    }
}

//! The store on disk, as the cache uses it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cache_core::store::directory::Weigh as _;
use cache_core::store::history::PurgeHistory;
use cache_core::store::purges::{Purge, PurgeNumber};
use cache_core::store::response::Resource;
use eventlog::disk::{Disk, DiskFile};
use http::HeaderName;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use crate::admission::{DiskAdmission, SeenKeys};
use crate::index::{DiskIndex, Forgotten, KeyHash, Location};
use crate::log::SegmentLog;
use crate::reader::{ReadOutcome, ReadQueue, ReadRequest, Reader};
use crate::size::LogSize;
use crate::writer::{AnnouncedResource, UnrecordedPurge, WriteRequest, Writer, WriterStatus};

/// Longest wait of a purge until it is durable.
const PURGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the disk at the end, and between looks.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_INTERVAL: Duration = Duration::from_millis(1);

/// Limits of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Bytes of resources that wait to be written. Beyond it, resources are not.
    pub waiting_max: usize,
    /// Longest wait for a read.
    pub read_timeout: Duration,
    /// Threads that read.
    pub readers: usize,
    /// Which resources are written.
    pub admission: DiskAdmission,
}

impl DiskLimits {
    /// Most files that are open at once.
    pub fn files_max(&self) -> u64 {
        // The growing segment is open for writing too, and the lock.
        LogSize::of(self.bytes_max).segments_max as u64 + 2
    }
}

/// What the store contains, and has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// Resources.
    pub entries: usize,
    /// Of all files.
    pub bytes: u64,
    /// Resources that were read for a request.
    pub read: u64,
    /// Reads that came to nothing: too late, evicted meanwhile, or damaged.
    pub unread: u64,
    /// Resources that were written.
    pub written: u64,
    /// Resources that were to be written, but for a disk that is slow or fails.
    pub unwritten: u64,
    /// Why the disk fails. None while it is well.
    pub failure: Option<String>,
}

/// A resource that was read. Its key may have been replaced or removed since: see [`DiskTier::current`].
#[derive(Debug)]
pub struct LoadedResource {
    hash: KeyHash,
    location: Location,
    resource: Resource,
}

/// A purge that is on its way to the disk.
#[derive(Debug)]
pub struct PurgeReceipt(Receiver<Result<(), UnrecordedPurge>>);

impl PurgeReceipt {
    /// Waits until it is durable.
    ///
    /// # Errors
    /// The disk fails, or takes too long.
    pub fn wait(self) -> Result<(), UnrecordedPurge> {
        self.0.recv_timeout(PURGE_TIMEOUT).unwrap_or_else(|error| {
            Err(UnrecordedPurge(match error {
                RecvTimeoutError::Timeout => "it did not answer in time".to_owned(),
                RecvTimeoutError::Disconnected => "the process ends".to_owned(),
            }))
        })
    }
}

/// The store on disk.
pub struct DiskTier {
    limits: DiskLimits,
    payload_max: u64,
    index: Arc<DiskIndex>,
    seen: SeenKeys,
    history: Arc<Mutex<PurgeHistory>>,
    reads: Arc<ReadQueue>,
    writes: Sender<WriteRequest>,
    status: Arc<WriterStatus>,
    bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    read: AtomicU64,
    unread: AtomicU64,
    refused: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for DiskTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskTier").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl DiskTier {
    /// Opens the store of a directory, and starts its threads. `targets` are the targeted fields that
    /// count, in their order of precedence.
    ///
    /// # Errors
    /// What the disk says; [`io::ErrorKind::WouldBlock`] while another process has the directory.
    pub fn open<D>(disk: D, limits: DiskLimits, targets: &'static [HeaderName]) -> io::Result<Self>
    where
        D: Disk + Send + 'static,
        D::File: DiskFile + Send + Sync + 'static,
        D::Lock: Send,
    {
        let size = LogSize::of(limits.bytes_max);
        let index = Arc::new(DiskIndex::new());
        let mut history = PurgeHistory::default();
        let log = SegmentLog::open(disk, size, &index, &mut history)?;
        let segments = log.segments();
        let history = Arc::new(Mutex::new(history));
        let status = Arc::new(WriterStatus::default());
        let (writes, inbox) = channel();
        let parts = (Arc::clone(&index), Arc::clone(&history), Arc::clone(&status));
        let writer = Writer::new(log, parts.0, parts.1, parts.2, inbox);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let writer = thread("cache-write").spawn(move || writer.run())?;
        let reads = Arc::<ReadQueue>::default();
        let reader = || {
            let reader = Reader {
                queue: Arc::clone(&reads),
                index: Arc::clone(&index),
                segments: Arc::clone(&segments),
                writes: writes.clone(),
                targets,
            };
            thread("cache-read").spawn(move || reader.run())
        };
        let readers = (0..limits.readers).map(|_| reader()).collect::<io::Result<_>>()?;
        Ok(Self {
            limits,
            payload_max: size.payload_max(),
            index,
            seen: SeenKeys::new(),
            history,
            reads,
            writes,
            status,
            bytes: Box::new(move || segments.bytes()),
            read: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            writer: Mutex::new(Some(writer)),
            readers: Mutex::new(readers),
        })
    }

    /// The number of the newest purge that it knows.
    pub fn newest_purge(&self) -> PurgeNumber {
        self.history().newest()
    }

    /// Whether a key is on disk, or will be.
    pub fn contains(&self, key: &str) -> bool {
        self.index.contains(KeyHash::of(key))
    }

    /// Whether a key that was fetched just now is worth writing. Remembers the key.
    pub fn admits(&self, key: &str) -> bool {
        let was_seen = self.seen.see(KeyHash::of(key));
        was_seen || self.admits_all()
    }

    /// Whether it takes what was never asked for.
    pub fn admits_all(&self) -> bool {
        self.limits.admission == DiskAdmission::First
    }

    /// Whether a resource is not too large.
    pub fn has_room(&self, resource: &Resource) -> bool {
        resource.bytes() as u64 <= self.payload_max
    }

    /// Writes a resource in place of an earlier one; the caller keeps its key from being changed meanwhile.
    /// If it is too large or too many wait, only the earlier one is removed.
    pub fn write(&self, key: &str, resource: Resource) {
        let (bytes, hash) = (resource.bytes(), KeyHash::of(key));
        // An older one on disk must not count if this is not written.
        self.forget_hashed(hash);
        let waiting = self.status.waiting_bytes.load(Ordering::Relaxed);
        if !self.has_room(&resource) || waiting + bytes > self.limits.waiting_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // While this is held no purge overtakes: what is written after a purge has been through it.
        let history = self.history();
        let effect = |names: &_, through| history.effect_on(key, names, through);
        let Some(resource) = resource.purged(history.newest(), effect) else { return };
        let ticket = self.index.announce(hash);
        self.status.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let key = key.into();
        self.send(WriteRequest::Resource(AnnouncedResource { key, hash, ticket, bytes, resource }));
    }

    /// Waits until all resources are written, unless the disk fails or takes too long.
    pub fn drain(&self) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        let is_busy = || self.status.waiting_bytes.load(Ordering::Relaxed) > 0;
        while is_busy() && self.status.failure().is_none() && Instant::now() < end {
            std::thread::sleep(CLOSE_INTERVAL);
        }
    }

    /// Whether so much waits that more may soon be refused.
    pub fn is_pressed(&self) -> bool {
        self.status.waiting_bytes.load(Ordering::Relaxed) > self.limits.waiting_max / 2
    }

    /// Removes a key from the store. The caller keeps the key from being loaded meanwhile.
    pub fn forget(&self, key: &str) {
        self.forget_hashed(KeyHash::of(key));
    }

    fn forget_hashed(&self, hash: KeyHash) {
        if self.index.forget(hash) == Forgotten::Written {
            self.send(WriteRequest::Removal(hash));
        }
    }

    /// Reads a resource. None if it is not there, or is not there in time.
    pub async fn load(&self, key: &str) -> Option<LoadedResource> {
        self.load_hashed(key, KeyHash::of(key)).await
    }

    async fn load_hashed(&self, key: &str, hash: KeyHash) -> Option<LoadedResource> {
        let location = self.index.find(hash)?;
        let (done, outcome) = oneshot::channel();
        let request = ReadRequest { key: key.into(), hash, location, done };
        let outcome = match self.reads.push(request) {
            true => timeout(self.limits.read_timeout, outcome).await.ok().and_then(Result::ok),
            false => None,
        };
        let Some(ReadOutcome::Read(read)) = outcome else {
            self.unread.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.read.fetch_add(1, Ordering::Relaxed);
        Some(LoadedResource { hash, location: read.location, resource: read.resource })
    }

    /// Applies the purges since the resource was written. None if nothing is left, or the key was replaced
    /// or removed since it was loaded. The caller keeps the key from being changed meanwhile.
    pub fn current(&self, key: &str, loaded: LoadedResource) -> Option<Resource> {
        let LoadedResource { hash, location, resource } = loaded;
        if self.index.find(hash) != Some(location) {
            return None;
        }
        let history = self.history();
        let effect = |names: &_, through| history.effect_on(key, names, through);
        resource.purged(history.newest(), effect)
    }

    /// A purge, newer than all others, which counts from now on. A hard one of one key counts by
    /// [`Self::forget`], which must come before. The result says when it is durable.
    pub fn purge(&self, number: PurgeNumber, purge: Arc<Purge>) -> PurgeReceipt {
        let (done, durable) = channel();
        let mut history = self.history();
        if purge.is_hard_of_key() {
            history.reached(number);
        } else {
            history.list(number, &purge);
        }
        self.send(WriteRequest::Purge(number, purge, done));
        PurgeReceipt(durable)
    }

    /// What it contains and has done.
    pub fn figures(&self) -> DiskFigures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DiskFigures {
            entries: self.index.entries(),
            bytes: (self.bytes)(),
            read: count(&self.read),
            unread: count(&self.unread),
            written: count(&self.status.written),
            unwritten: count(&self.refused) + count(&self.status.lost),
            failure: self.status.failure(),
        }
    }

    /// Writes what waits and ends the threads. Nothing can be written or read any more. A disk that
    /// hangs is not waited for.
    pub fn close(&self) {
        self.reads.close();
        self.send(WriteRequest::End);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + CLOSE_TIMEOUT;
        for thread in writer.into_iter().chain(readers.drain(..)) {
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(CLOSE_INTERVAL);
            }
            if thread.is_finished() {
                // A thread that panicked has said so.
                let _panicked = thread.join();
            } else {
                warn!("the cache's disk hangs, and the process ends without it");
            }
        }
    }

    /// After the end nobody receives.
    fn send(&self, request: WriteRequest) {
        let _closed = self.writes.send(request);
    }

    fn history(&self) -> MutexGuard<'_, PurgeHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
impl DiskTier {
    /// How many purges it remembers, by scope.
    pub(crate) fn scopes(&self) -> usize {
        self.history().scopes()
    }

    /// As if the hash of a key were that of another.
    pub(crate) async fn load_as(&self, key: &str, other: &str) -> Option<LoadedResource> {
        self.load_hashed(key, KeyHash::of(other)).await
    }
}

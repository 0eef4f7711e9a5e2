//! The thread that writes the log: what waits, in one write; what must be durable, after one sync.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cache_core::store::history::PurgeHistory;
use cache_core::store::purges::{Purge, PurgeNumber, PurgeScope};
use cache_core::store::response::Resource;
use eventlog::disk::Disk;
use tracing::{info, warn};

use crate::format::{DiskRecordKind, RecordSubject};
use crate::index::{DiskIndex, KeyHash, Location, Ticket};
use crate::log::SegmentLog;

/// Bytes of records that are written together. Between two batches other threads of the core have
/// their turn: what a slow sync has held up would otherwise delay them by a slice of the scheduler.
const BATCH_BYTES: usize = 128 << 10;

/// What a loss of power may cost of warmth.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// Delays before a failed disk is tried again.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Removals and purges that are kept for a disk that fails. Beyond it the whole log is void instead.
pub(crate) const OWED_MAX: usize = 1 << 16;

/// The disk did not take a purge: it counts, but a restart may forget it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the purge is not on disk, and a restart may bring back what it concerns: {0}")]
pub struct UnrecordedPurge(pub(crate) String);

/// What the writer is asked for.
pub(crate) enum WriteRequest {
    Resource(AnnouncedResource),
    /// Earlier records of a key must not be served any more.
    Removal(KeyHash),
    /// A purge, and who waits until it is durable.
    Purge(PurgeNumber, Arc<Purge>, Sender<Result<(), UnrecordedPurge>>),
    /// Everything before is written and durable, then the thread ends.
    End,
}

/// A resource to write.
pub(crate) struct AnnouncedResource {
    pub key: Box<str>,
    pub hash: KeyHash,
    pub ticket: Ticket,
    /// In memory, while it waits.
    pub bytes: usize,
    pub resource: Resource,
}

/// What the writer tells others.
#[derive(Debug, Default)]
pub(crate) struct WriterStatus {
    /// Bytes of resources that wait.
    pub waiting_bytes: AtomicUsize,
    /// Resources that were written.
    pub written: AtomicU64,
    /// Resources that were not, because the disk failed, or they were too large.
    pub lost: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// A removal or a purge that is not durable yet: without it, the log would have responses that must not be
/// served after a restart.
struct OwedRecord {
    subject: RecordSubject,
    payload: Vec<u8>,
}

/// The writer's state.
pub(crate) struct Writer<D: Disk> {
    log: SegmentLog<D>,
    index: Arc<DiskIndex>,
    history: Arc<Mutex<PurgeHistory>>,
    status: Arc<WriterStatus>,
    inbox: Receiver<WriteRequest>,
    /// The oldest segment, as the index knows it.
    oldest: Option<(u32, u64)>,
    /// The newest purge of those that have come: resources that come later have been through it.
    purged_through: u64,
    /// Removals and purges that are not durable yet.
    owed: Vec<OwedRecord>,
    /// How many of them, from the first on, the growing segment has.
    appended: usize,
    /// More removals and purges came than are kept while the disk fails: the whole log must go.
    is_void: bool,
    /// Since when something was written that is not durable. None if nothing was.
    unsynced_since: Option<Instant>,
    suspended: Option<Suspension>,
}

/// The disk fails, and is left alone.
struct Suspension {
    until: Instant,
    delay: Duration,
}

/// Requests that are served together.
#[derive(Default)]
struct WriteTurn {
    requests: VecDeque<WriteRequest>,
    /// Resources in the log's buffer.
    buffered: Vec<(KeyHash, Ticket, Location)>,
    /// Purges whose answers are awaited.
    waiting: Vec<Sender<Result<(), UnrecordedPurge>>>,
    wants_sync: bool,
    is_last: bool,
}

impl<D: Disk> Writer<D> {
    pub(crate) fn new(
        log: SegmentLog<D>,
        index: Arc<DiskIndex>,
        history: Arc<Mutex<PurgeHistory>>,
        status: Arc<WriterStatus>,
        inbox: Receiver<WriteRequest>,
    ) -> Self {
        let purged_through = history.lock().unwrap_or_else(PoisonError::into_inner).newest().0;
        let (owed, appended, is_void) = (Vec::new(), 0, false);
        let (unsynced_since, suspended) = (None, None);
        Self {
            oldest: log.oldest(),
            log,
            index,
            history,
            status,
            inbox,
            purged_through,
            owed,
            appended,
            is_void,
            unsynced_since,
            suspended,
        }
    }

    /// Until it is asked to end.
    pub(crate) fn run(mut self) {
        loop {
            let mut turn = self.receive();
            let is_suspended =
                self.suspended.as_ref().is_some_and(|suspended| Instant::now() < suspended.until);
            if is_suspended && !turn.is_last {
                self.refuse(&mut turn);
            } else {
                match self.serve(&mut turn) {
                    Ok(()) => self.resume(),
                    Err(error) => {
                        self.suspend(&error);
                        self.refuse(&mut turn);
                    }
                }
            }
            self.follow_evictions();
            let failure = self.status.failure();
            for waiting in turn.waiting {
                let answer = failure.clone().map_or(Ok(()), |why| Err(UnrecordedPurge(why)));
                // The caller may have stopped waiting.
                let _gone = waiting.send(answer);
            }
            if turn.is_last {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Waits for requests.
    fn receive(&self) -> WriteTurn {
        let mut turn = WriteTurn::default();
        let until = match (&self.suspended, self.unsynced_since) {
            (Some(suspended), _) => suspended.until,
            (None, Some(since)) => since + SYNC_INTERVAL,
            (None, None) => Instant::now() + SYNC_INTERVAL,
        };
        let most = until.saturating_duration_since(Instant::now());
        let mut next = match self.inbox.recv_timeout(most) {
            Err(RecvTimeoutError::Timeout) => return turn,
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(request) => Some(request),
        };
        turn.is_last = next.is_none();
        let mut bytes = 0;
        while let Some(request) = next {
            match &request {
                WriteRequest::Resource(announced) => bytes += announced.bytes,
                WriteRequest::Purge(..) => turn.wants_sync = true,
                WriteRequest::End => turn.is_last = true,
                WriteRequest::Removal(_) => (),
            }
            turn.requests.push_back(request);
            let is_enough = bytes >= BATCH_BYTES || turn.is_last;
            next = if is_enough { None } else { self.inbox.try_recv().ok() };
        }
        turn
    }

    fn serve(&mut self, turn: &mut WriteTurn) -> io::Result<()> {
        if self.is_void {
            self.clear()?;
        }
        self.append_owed()?;
        while let Some(request) = turn.requests.pop_front() {
            if let Some(announced) = self.take(request, turn) {
                let (hash, ticket) = (announced.hash, announced.ticket);
                match self.append_resource(&announced) {
                    Ok(Some(location)) => turn.buffered.push((hash, ticket, location)),
                    Ok(None) => (),
                    Err(error) => {
                        self.withdraw(hash, ticket);
                        return Err(error);
                    }
                }
            }
            self.append_owed()?;
        }
        self.log.flush()?;
        for (hash, ticket, location) in turn.buffered.drain(..) {
            self.status.written.fetch_add(1, Ordering::Relaxed);
            if !self.index.written(hash, ticket, location) {
                // It was replaced or removed while it was being written.
                self.owe(removal(hash), Vec::new());
            }
        }
        self.append_owed()?;
        self.log.flush()?;
        self.sync(turn)
    }

    /// Makes the log durable, if it is time.
    fn sync(&mut self, turn: &WriteTurn) -> io::Result<()> {
        let is_due = self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_INTERVAL);
        let is_recovering = self.suspended.is_some();
        if turn.is_last {
            self.log.complete()?;
        } else if turn.wants_sync || is_due || is_recovering || self.owed.len() >= OWED_MAX {
            self.log.sync()?;
        } else {
            return Ok(());
        }
        self.unsynced_since = None;
        self.owed.clear();
        self.appended = 0;
        Ok(())
    }

    /// None if the resource was replaced or removed since it was announced, or is too large.
    fn append_resource(&mut self, announced: &AnnouncedResource) -> io::Result<Option<Location>> {
        let AnnouncedResource { key, hash, ticket, resource, .. } = announced;
        if !self.index.awaits(*hash, *ticket) {
            return Ok(None);
        }
        let payload = resource.encode(key);
        if payload.len() as u64 > self.log.payload_max() {
            self.withdraw(*hash, *ticket);
            return Ok(None);
        }
        let purge = resource.purged_through().0;
        let subject = RecordSubject { kind: DiskRecordKind::Resource, hash: hash.0, purge };
        self.append(subject, &payload).map(Some)
    }

    /// Removals and purges are owed. Returns a resource.
    fn take(&mut self, request: WriteRequest, turn: &mut WriteTurn) -> Option<AnnouncedResource> {
        match request {
            WriteRequest::Resource(announced) => {
                self.status.waiting_bytes.fetch_sub(announced.bytes, Ordering::Relaxed);
                return Some(announced);
            }
            WriteRequest::Removal(hash) => self.owe(removal(hash), Vec::new()),
            WriteRequest::Purge(number, purge, done) => {
                let hash = match &purge.scope {
                    PurgeScope::Key(key) => KeyHash::of(key.as_str()).0,
                    PurgeScope::Prefix(_) | PurgeScope::SurrogateKey(_) => 0,
                };
                let subject = RecordSubject { kind: DiskRecordKind::Purge, hash, purge: number.0 };
                self.owe(subject, purge.encode());
                self.purged_through = self.purged_through.max(number.0);
                turn.waiting.push(done);
            }
            WriteRequest::End => (),
        }
        None
    }

    fn owe(&mut self, subject: RecordSubject, payload: Vec<u8>) {
        if !self.is_void {
            self.owed.push(OwedRecord { subject, payload });
        }
    }

    fn append_owed(&mut self) -> io::Result<()> {
        while let Some(OwedRecord { subject, payload }) = self.owed.get(self.appended) {
            let (subject, payload) = (*subject, payload.clone());
            self.append(subject, &payload)?;
            self.appended += 1;
        }
        Ok(())
    }

    fn append(&mut self, subject: RecordSubject, payload: &[u8]) -> io::Result<Location> {
        self.unsynced_since.get_or_insert_with(Instant::now);
        self.log.append(subject, payload, self.purged_through)
    }

    /// Forgets what was in segments that went.
    fn follow_evictions(&mut self) {
        let oldest = self.log.oldest();
        if self.oldest != oldest
            && let Some((segment, purged_through)) = oldest
        {
            // What is left has been through the purges before it.
            self.index.evict_before(segment);
            self.history().applied(PurgeNumber(purged_through));
        }
        self.oldest = oldest;
    }

    fn clear(&mut self) -> io::Result<()> {
        self.log.clear()?;
        self.index.evict_before(u32::MAX);
        self.is_void = false;
        Ok(())
    }

    /// Nothing of these is written: the disk fails.
    fn refuse(&mut self, turn: &mut WriteTurn) {
        for (hash, ticket, _) in std::mem::take(&mut turn.buffered) {
            self.withdraw(hash, ticket);
            // A write that failed may have written some of it.
            self.owe(removal(hash), Vec::new());
        }
        while let Some(request) = turn.requests.pop_front() {
            if let Some(AnnouncedResource { hash, ticket, .. }) = self.take(request, turn) {
                self.withdraw(hash, ticket);
            }
        }
        if self.owed.len() > OWED_MAX {
            self.is_void = true;
            self.owed.clear();
        }
    }

    fn withdraw(&self, hash: KeyHash, ticket: Ticket) {
        self.index.withdraw(hash, ticket);
        self.status.lost.fetch_add(1, Ordering::Relaxed);
    }

    fn suspend(&mut self, error: &io::Error) {
        let delay = self.suspended.as_ref().map_or(RETRY_MIN, |suspended| suspended.delay);
        let until = Instant::now() + delay;
        self.suspended = Some(Suspension { until, delay: (delay * 2).min(RETRY_MAX) });
        self.appended = 0;
        if self.status.set_failure(Some(error.to_string())).is_none() {
            warn!(%error, "the cache writes nothing to its disk until that is well again");
        }
    }

    fn resume(&mut self) {
        if self.suspended.take().is_some() {
            self.status.set_failure(None);
            info!("the cache writes to its disk again");
        }
    }

    fn history(&self) -> MutexGuard<'_, PurgeHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriterStatus {
    /// Why the disk fails. None while it is well.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what it was.
    fn set_failure(&self, failure: Option<String>) -> Option<String> {
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut known, failure)
    }
}

fn removal(hash: KeyHash) -> RecordSubject {
    RecordSubject { kind: DiskRecordKind::Removal, hash: hash.0, purge: 0 }
}

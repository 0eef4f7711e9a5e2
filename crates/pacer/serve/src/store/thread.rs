//! The store's own thread, which puts all waiting requests into one transaction. Owns how many may
//! wait, and how often a failed disk is tried again.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use pacer_core::store::{
    Batch, CommitOutcome, DefinitionChange, LeaseStore, StoreAnswer, StoreDenial, StoreFault,
    StoreRequest,
};

use super::directory::{DiskDirectory, StoreDirectory};
use super::engine::{StoreEngine, open_error};
use super::error::StoreOpenError;

pub(crate) const WAITING_MAX: usize = 1_024;
/// First delay before a failed disk is tried again; it doubles each time.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// Options of a store.
pub struct StoreOptions {
    /// Longest delay before a failed disk is tried again.
    pub retry_max: Duration,
    /// Called by the store's thread when there are answers.
    pub wake: Box<dyn Fn() + Send>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { retry_max: Duration::from_secs(1), wake: Box::new(|| ()) }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions").field("retry_max", &self.retry_max).finish_non_exhaustive()
    }
}

/// Counters of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Transactions committed.
    pub commits: u64,
    /// Requests answered, whatever the outcome.
    pub answered: u64,
    /// Times the disk began to fail.
    pub failures: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct StoreStatus {
    failing: Option<StoreFault>,
    counters: StoreCounters,
}

type SharedStoreStatus = Arc<Mutex<StoreStatus>>;

fn locked(status: &SharedStoreStatus) -> MutexGuard<'_, StoreStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

enum PendingRequest {
    /// The thread answers. Kept without its contents, in case the thread ends.
    Thread(StoreRequest),
    Here(StoreAnswer),
}

/// The ledger's store. Dropping it serves pending requests and closes the file.
pub struct DiskStore {
    requests: Option<mpsc::Sender<StoreRequest>>,
    answers: mpsc::Receiver<StoreAnswer>,
    next: Option<StoreAnswer>,
    asked: VecDeque<PendingRequest>,
    /// How many of `asked` the thread answers.
    waiting: usize,
    status: SharedStoreStatus,
    thread: Option<JoinHandle<Result<(), StoreFault>>>,
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("status", &self.status).finish_non_exhaustive()
    }
}

impl DiskStore {
    /// Locks `directory`, opens its store or creates one, and starts the thread.
    ///
    /// # Errors
    /// Why it cannot be used; nothing is authorised then.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<Self, StoreOpenError> {
        let place = DiskDirectory::at(directory);
        let failed = |error: io::Error| open_error(&place, &error.into());
        let engine = StoreEngine::open(DiskDirectory::new(directory).map_err(failed)?)?;
        Self::start(engine, options).map_err(failed)
    }

    pub(crate) fn start(
        engine: StoreEngine<impl StoreDirectory>,
        options: StoreOptions,
    ) -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel();
        let (outbox, answers) = mpsc::channel();
        let status = SharedStoreStatus::default();
        let (shared, failing) = (Arc::clone(&status), None);
        let worker = Worker { engine, inbox, outbox, status: shared, options, failing };
        let thread = std::thread::Builder::new()
            .name("ledger-store".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            requests: Some(requests),
            answers,
            next: None,
            asked: VecDeque::new(),
            waiting: 0,
            status,
            thread: Some(thread),
        })
    }

    /// Waits for an answer, at most this long; returns at once if there is no request.
    pub fn wait(&mut self, most: Duration) {
        if self.next.is_none() && matches!(self.asked.front(), Some(PendingRequest::Thread(_))) {
            self.next = self.answers.recv_timeout(most).ok();
        }
    }

    /// The fault, while the disk fails.
    pub fn failing(&self) -> Option<StoreFault> {
        locked(&self.status).failing
    }

    /// Counters so far.
    pub fn counters(&self) -> StoreCounters {
        locked(&self.status).counters
    }

    /// Serves pending requests, and closes the file.
    ///
    /// # Errors
    /// The fault: the next start then takes longer.
    pub fn close(mut self) -> Result<(), StoreFault> {
        self.end()
    }

    fn end(&mut self) -> Result<(), StoreFault> {
        drop(self.requests.take());
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(ended) => ended.unwrap_or(Err(StoreFault::Disk)),
        }
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        // Use `close` for the result.
        let _ended = self.end();
    }
}

fn without_contents(request: &StoreRequest) -> StoreRequest {
    match request {
        StoreRequest::Submit(writer, batch) => {
            let number = batch.number;
            StoreRequest::Submit(*writer, Batch { number, ..Batch::default() })
        }
        StoreRequest::Change(writer, change) => {
            let number = change.number;
            StoreRequest::Change(
                *writer,
                DefinitionChange { number, ..DefinitionChange::default() },
            )
        }
        StoreRequest::Begin(..) | StoreRequest::Read(_) => request.clone(),
    }
}

impl LeaseStore for DiskStore {
    fn ask(&mut self, request: StoreRequest) {
        let denied =
            |request: &StoreRequest, denied| request.answer(CommitOutcome::Refused, Some(denied));
        if self.waiting >= WAITING_MAX {
            return self.asked.push_back(PendingRequest::Here(denied(&request, StoreDenial::Busy)));
        }
        let kept = without_contents(&request);
        let sent = self.requests.as_ref().is_some_and(|to| to.send(request).is_ok());
        if sent {
            self.waiting += 1;
            self.asked.push_back(PendingRequest::Thread(kept));
        } else {
            let failing = StoreDenial::Failing(StoreFault::Disk);
            self.asked.push_back(PendingRequest::Here(denied(&kept, failing)));
        }
    }

    fn poll(&mut self) -> Option<StoreAnswer> {
        let is_here = |asked: &mut PendingRequest| matches!(asked, PendingRequest::Here(_));
        if let Some(PendingRequest::Here(answer)) = self.asked.pop_front_if(is_here) {
            return Some(answer);
        }
        let answered = match self.next.take() {
            Some(answer) => Ok(answer),
            None => self.answers.try_recv(),
        };
        match answered {
            Err(mpsc::TryRecvError::Empty) => None,
            Ok(answer) => {
                self.waiting -= 1;
                self.asked.pop_front();
                Some(answer)
            }
            // The thread panicked: the outcome of its last request is unknown.
            Err(mpsc::TryRecvError::Disconnected) => {
                let Some(PendingRequest::Thread(request)) = self.asked.pop_front() else {
                    return None;
                };
                self.waiting -= 1;
                Some(request.answer(CommitOutcome::Unknown, None))
            }
        }
    }
}

struct Worker<P: StoreDirectory> {
    engine: StoreEngine<P>,
    inbox: mpsc::Receiver<StoreRequest>,
    outbox: mpsc::Sender<StoreAnswer>,
    status: SharedStoreStatus,
    options: StoreOptions,
    /// The last fault, until a commit succeeds: the store opens on a full disk, but cannot write.
    failing: Option<StoreFault>,
}

impl<P: StoreDirectory> Worker<P> {
    fn run(mut self) -> Result<(), StoreFault> {
        let (mut later, mut retry_at) = (RETRY_MIN, Instant::now());
        loop {
            let was_failing = self.failing.is_some();
            let is_closed = self.engine.failing().is_some();
            let received = if is_closed {
                let until = retry_at.saturating_duration_since(Instant::now());
                self.inbox.recv_timeout(until)
            } else {
                self.inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            };
            if is_closed && retry_at <= Instant::now() {
                self.engine.reopen();
                later = (later * 2).min(self.options.retry_max);
                retry_at = Instant::now() + later;
            }
            match received {
                Ok(first) => self.serve(first),
                Err(mpsc::RecvTimeoutError::Timeout) => (),
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.engine.close(),
            }
            if !was_failing && self.failing.is_some() {
                locked(&self.status).counters.failures += 1;
                (later, retry_at) = (RETRY_MIN, Instant::now() + RETRY_MIN);
            }
            self.publish_status();
        }
    }

    fn serve(&mut self, first: StoreRequest) {
        let mut group = vec![first];
        while group.len() < WAITING_MAX {
            let Ok(request) = self.inbox.try_recv() else { break };
            group.push(request);
        }
        let commits = self.engine.commits();
        let answers = self.engine.serve(&group);
        let has_committed = commits < self.engine.commits();
        self.failing = self.engine.failing().or(self.failing.filter(|_| !has_committed));
        self.publish_status();
        locked(&self.status).counters.answered += answers.len() as u64;
        for answer in answers {
            // The caller may be gone; the work is done.
            let _heard = self.outbox.send(answer);
        }
        (self.options.wake)();
    }

    /// Updates the status before any answer is visible.
    fn publish_status(&self) {
        let mut status = locked(&self.status);
        status.failing = self.failing;
        status.counters.commits = self.engine.commits();
    }
}

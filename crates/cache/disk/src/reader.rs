//! Threads that read resources, so that the threads of the cache never wait for the disk.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cache_core::store::response::Resource;
use eventlog::disk::DiskFile;
use http::HeaderName;
use tokio::sync::oneshot;
use tracing::warn;

use crate::index::{DiskIndex, KeyHash, Location};
use crate::segments::Segments;
use crate::writer::WriteRequest;

/// Reads that wait, at most: more are not worth waiting for.
const WAITING_MAX: usize = 1_024;

/// A resource that was read.
#[derive(Debug)]
pub(crate) struct ReadResource {
    pub location: Location,
    pub resource: Resource,
}

/// A resource to read.
pub(crate) struct ReadRequest {
    pub key: Box<str>,
    pub hash: KeyHash,
    pub location: Location,
    pub done: oneshot::Sender<ReadOutcome>,
}

/// What came of a read.
#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Read(Box<ReadResource>),
    /// It was evicted, or its hash is that of another key.
    Gone,
    Failed,
}

/// Reads that wait for a thread.
#[derive(Default)]
pub(crate) struct ReadQueue {
    waiting: Mutex<WaitingReads>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingReads {
    requests: VecDeque<ReadRequest>,
    is_closed: bool,
}

impl ReadQueue {
    /// Returns false if there are too many.
    pub(crate) fn push(&self, request: ReadRequest) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_closed || waiting.requests.len() >= WAITING_MAX {
            return false;
        }
        waiting.requests.push_back(request);
        self.changed.notify_one();
        true
    }

    /// Waits for the next. None once the queue is closed.
    fn next(&self) -> Option<ReadRequest> {
        let waiting = self.waiting();
        let has_none =
            |waiting: &mut WaitingReads| waiting.requests.is_empty() && !waiting.is_closed;
        let mut waiting =
            self.changed.wait_while(waiting, has_none).unwrap_or_else(PoisonError::into_inner);
        waiting.requests.pop_front()
    }

    /// Threads end; those who wait get nothing.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        waiting.requests.clear();
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingReads> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread reads from.
pub(crate) struct Reader<F> {
    pub queue: Arc<ReadQueue>,
    pub index: Arc<DiskIndex>,
    pub segments: Arc<Segments<F>>,
    pub writes: Sender<WriteRequest>,
    /// Targeted fields, in their order of precedence.
    pub targets: &'static [HeaderName],
}

impl<F: DiskFile> Reader<F> {
    /// Until the queue is closed.
    pub(crate) fn run(&self) {
        while let Some(request) = self.queue.next() {
            if request.done.is_closed() {
                continue;
            }
            let outcome = match self.read(&request) {
                Ok(Some(resource)) => {
                    let location = request.location;
                    ReadOutcome::Read(Box::new(ReadResource { location, resource }))
                }
                Ok(None) => ReadOutcome::Gone,
                Err(error) => {
                    warn!(%error, segment = request.location.segment, "a stored response is lost");
                    if self.index.forget_at(request.hash, request.location) {
                        // The disk may read it again later, when it has been replaced.
                        let _closed = self.writes.send(WriteRequest::Removal(request.hash));
                    }
                    ReadOutcome::Failed
                }
            };
            // The request may have stopped waiting.
            let _gone = request.done.send(outcome);
        }
    }

    fn read(&self, request: &ReadRequest) -> io::Result<Option<Resource>> {
        let Some(payload) = self.segments.payload(request.hash, request.location)? else {
            return Ok(None);
        };
        let decoded = Resource::decode(payload, self.targets);
        let (key, resource) = decoded.ok_or(io::ErrorKind::InvalidData)?;
        Ok((*key == *request.key).then_some(resource))
    }
}

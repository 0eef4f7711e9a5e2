//! Fetches that several clients share: one request to the origin for any number of simultaneous
//! misses of a key, on whichever shards they are, and the answer's body to all of them as it comes.
//!
//! Knows neither the origin nor the store.

mod table;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cache_core::fields::surrogate::SurrogateKeys;
use cache_core::rules::vary::Variant;
use cache_core::store::purges::{KeyPurges, PurgeNumber};
use cache_core::store::response::StoredResponse;
use hyper::{HeaderMap, StatusCode};

pub(crate) use table::{FillPlace, Fills, Lead};

use crate::origin::OriginError;

/// Bytes of a body too large for the store that wait for its slowest reader.
const WINDOW_BYTES: usize = 1 << 20;

/// What a fetch came to, as far as its head tells.
#[derive(Clone, Debug)]
pub(crate) enum FillOutcome {
    /// The answer may be stored, so every request that it matches may have it.
    Shared(Arc<SharedHead>),
    /// The origin has validated what was stored.
    Validated(Arc<StoredResponse>),
    /// The answer is for the one who asked.
    NotShared,
    /// Likewise, because of what that request said: the next one may be answered for all.
    NotSharedNow,
    /// The origin gave no usable answer. A stored response may be served instead.
    Failed(FailedFetch),
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct FailedFetch {
    pub error: OriginError,
    /// What was to be validated. None if nothing was stored.
    pub stored: Option<Arc<StoredResponse>>,
}

/// The head of an answer that may be stored.
#[derive(Debug)]
pub(crate) struct SharedHead {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Without the fields that only the client gets whose request it was.
    pub for_others: HeaderMap,
    /// The requests that it answers.
    pub variant: Variant,
    /// The names by which it is purged.
    pub surrogate_keys: SurrogateKeys,
    /// Of the body. None if the origin does not say.
    pub length: Option<u64>,
}

/// A fetch under way, or its result.
#[derive(Debug)]
struct Fill {
    /// The newest purge when it began.
    purged_through: PurgeNumber,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    outcome: Option<FillOutcome>,
    /// Pieces of the body that readers may still need.
    pieces: VecDeque<Bytes>,
    /// Pieces before them.
    dropped: usize,
    end: Option<Result<(), OriginError>>,
    /// Whether pieces go once all have read them: the body is not stored.
    is_passing: bool,
    /// Those who wait for the head.
    waiting: Vec<Waker>,
    /// None: the reader is gone.
    readers: Vec<Option<ReaderProgress>>,
    /// The fetch waits for room.
    feeder: Option<Waker>,
}

#[derive(Debug, Default)]
struct ReaderProgress {
    /// The piece to read next.
    next: usize,
    waker: Option<Waker>,
}

impl Fill {
    fn new(purged_through: PurgeNumber) -> Arc<Self> {
        Arc::new(Self { purged_through, progress: Mutex::default() })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a purge since its beginning concerns it, as far as its head is known.
    fn is_purged(&self, purges: KeyPurges<'_>) -> bool {
        let progress = self.progress();
        let names = match &progress.outcome {
            Some(FillOutcome::Shared(head)) => Some(&head.surrogate_keys),
            Some(FillOutcome::Validated(stored)) => Some(stored.surrogate_keys()),
            _ => None,
        };
        purges.effect_since(names, self.purged_through).is_some()
    }

    /// Says what came of it, once.
    fn decide(&self, outcome: FillOutcome) {
        self.change(|progress| {
            progress.outcome.get_or_insert(outcome);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        let wakers = {
            let mut progress = self.progress();
            change(&mut progress);
            let mut wakers = match progress.outcome {
                Some(_) => std::mem::take(&mut progress.waiting),
                None => Vec::new(),
            };
            wakers.extend(
                progress.readers.iter_mut().flatten().filter_map(|reader| reader.waker.take()),
            );
            wakers
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn append(&self, piece: Bytes) {
        self.change(|progress| progress.pieces.push_back(piece));
    }

    /// Readers see the end, or that the body broke off.
    fn finish(&self, end: Result<(), OriginError>) {
        self.change(|progress| {
            progress.end.get_or_insert(end);
        });
    }

    /// All pieces of a body that is stored.
    fn body(&self) -> Vec<Bytes> {
        self.progress().pieces.iter().cloned().collect()
    }

    /// Keeps from now on only what some reader has not read. Late readers would miss the beginning:
    /// the caller lets nobody join any more.
    fn pass(&self) {
        self.change(|progress| {
            progress.is_passing = true;
            progress.trim();
        });
    }

    /// Waits until the slowest reader has little left to read. Returns how many bytes; None if there
    /// are no readers.
    async fn room(&self) -> Option<usize> {
        std::future::poll_fn(|cx| {
            let mut progress = self.progress();
            if progress.readers.iter().all(Option::is_none) {
                return Poll::Ready(None);
            }
            let waiting: usize = progress.pieces.iter().map(Bytes::len).sum();
            if waiting < WINDOW_BYTES {
                return Poll::Ready(Some(waiting));
            }
            progress.feeder = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Reads the body from its beginning, which must not be gone yet.
    fn reader(self: &Arc<Self>) -> FillReader {
        let mut progress = self.progress();
        progress.readers.push(Some(ReaderProgress::default()));
        let id = progress.readers.len() - 1;
        drop(progress);
        FillReader { fill: Arc::clone(self), id }
    }
}

impl Progress {
    fn trim(&mut self) {
        if !self.is_passing {
            return;
        }
        let slowest = self.readers.iter().flatten().map(|reader| reader.next).min();
        let needed = slowest.unwrap_or(self.dropped + self.pieces.len());
        while self.dropped < needed && self.pieces.pop_front().is_some() {
            self.dropped += 1;
        }
        if let Some(feeder) = self.feeder.take() {
            feeder.wake();
        }
    }
}

/// Reads the body of a fill, at its own pace.
#[derive(Debug)]
pub(crate) struct FillReader {
    fill: Arc<Fill>,
    id: usize,
}

impl FillReader {
    /// Whether a purge since the beginning of the fetch concerns it: what was asked for since then
    /// must not be answered with it. Once the head is there, this is certain.
    pub fn is_purged(&self, purges: KeyPurges<'_>) -> bool {
        self.fill.is_purged(purges)
    }

    /// Waits for the head.
    pub async fn outcome(&self) -> FillOutcome {
        let mut place = None;
        std::future::poll_fn(|cx| {
            let mut progress = self.fill.progress();
            if let Some(outcome) = &progress.outcome {
                return Poll::Ready(outcome.clone());
            }
            let waiting = &mut progress.waiting;
            match place.and_then(|place: usize| waiting.get_mut(place)) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => {
                    place = Some(waiting.len());
                    waiting.push(cx.waker().clone());
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next piece. None at the end.
    pub fn poll_piece(&self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, OriginError>>> {
        let mut progress = self.fill.progress();
        let Progress { pieces, dropped, end, readers, .. } = &mut *progress;
        let reader = readers[self.id].as_mut().expect("a reader is there until it is dropped");
        if let Some(piece) = pieces.get(reader.next - *dropped) {
            let piece = piece.clone();
            reader.next += 1;
            progress.trim();
            return Poll::Ready(Some(Ok(piece)));
        }
        match end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error.clone()))),
            None => {
                reader.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        let mut progress = self.fill.progress();
        progress.readers[self.id] = None;
        progress.trim();
        // Also where nothing passes: the fetch may wait for the last reader to go.
        if let Some(feeder) = progress.feeder.take() {
            feeder.wake();
        }
    }
}

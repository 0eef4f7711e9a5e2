//! Broadcasts the log: reads both lanes as they are written, and hands each shard what its
//! subscribers selected.
//!
//! A message is encoded once and copied once for each shard that wants it. Nothing waits for a
//! shard: one that does not take its batches misses them, and gets the rest from the log.

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use audit::{GenerationIndex, RecordDirectory, RecordPosition};
use eventlog::lane::{LaneHandle, LaneWatch};
use live_core::feed::{BatchEntry, FeedBatch, FeedLane, FeedPosition, LANES, OpenedView, ViewId};
use live_core::protocol::{LiveError, LiveErrorCode};
use record::Record;
use runtime::process::unix_ms;
use tokio::sync::Notify;
use tracing::error;

use super::message::FeedRecord;
use super::selection::{Selection, SelectionKey};
use super::source::{LaneTail, RecordDecoder};

/// Batches that a shard may have before it misses some.
const BATCHES_MAX: usize = 256;
/// A batch of this many bytes is handed over at once.
const BATCH_BYTES: usize = 256 << 10;
/// A shard learns at least so often how far the log has been read.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// What a shard asks of the publisher.
#[derive(Debug)]
pub(crate) enum ViewRequest {
    /// Send the messages of a selection from now on.
    Open {
        /// Index of the shard.
        shard: usize,
        /// Its name for the selection.
        view: ViewId,
        selection: Arc<Selection>,
    },
    /// Send them no more.
    Close {
        /// Index of the shard.
        shard: usize,
        view: ViewId,
        selection: Arc<Selection>,
    },
}

/// A shard's end: batches, and the bell that rings for them.
pub(crate) struct ShardInlet {
    pub batches: rtrb::Consumer<FeedBatch>,
    pub bell: Arc<Notify>,
}

/// Asks the publisher from any thread.
#[derive(Clone, Debug)]
pub(crate) struct PublisherHandle {
    requests: mpsc::Sender<ViewRequest>,
    thread: Thread,
    progress: Arc<PublisherProgress>,
}

/// What others may know of the publisher.
#[derive(Debug, Default)]
pub(crate) struct PublisherProgress {
    /// Age of the last message when it was handed over, in milliseconds; 0 once all are.
    lag_ms: AtomicU64,
    /// Records read.
    pub records: AtomicU64,
    /// Messages encoded.
    pub messages: AtomicU64,
    /// Batches that a shard missed.
    pub missed: AtomicU64,
    is_ending: AtomicBool,
}

impl PublisherProgress {
    /// How far broadcasting lags behind the log.
    pub fn lag(&self) -> Duration {
        Duration::from_millis(self.lag_ms.load(Ordering::Relaxed))
    }

    /// Refuses what clients publish while subscribers are behind.
    ///
    /// # Errors
    /// Broadcasting lags by more than `lag_max`.
    pub fn check_lag(&self, lag_max: Duration) -> Result<(), LiveError> {
        let lag = self.lag();
        if lag <= lag_max {
            return Ok(());
        }
        let message = format!("subscribers are {} ms behind: try again later", lag.as_millis());
        Err(LiveError::new(LiveErrorCode::Busy, message))
    }
}

impl PublisherHandle {
    /// Asks for something. After the end nobody listens.
    pub fn ask(&self, request: ViewRequest) {
        let _unheard = self.requests.send(request);
        self.thread.unpark();
    }

    pub fn progress(&self) -> &Arc<PublisherProgress> {
        &self.progress
    }
}

/// The thread; it ends when this is dropped.
pub(crate) struct PublisherThread {
    pub handle: PublisherHandle,
    join: Option<JoinHandle<()>>,
}

impl PublisherThread {
    /// Starts it for a record, with an inlet for each shard.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        record: &Record,
        flush: Duration,
        shards: usize,
    ) -> std::io::Result<(Self, Vec<ShardInlet>)> {
        let (requests, asked) = mpsc::channel();
        let progress = Arc::<PublisherProgress>::default();
        let (outlets, inlets): (Vec<_>, Vec<_>) = (0..shards).map(|_| ShardOutlet::new()).unzip();
        let (record, shared) = (record.clone(), Arc::clone(&progress));
        let join = std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            let publisher = FeedPublisher { record, flush, asked, progress: shared };
            publisher.run(outlets);
        })?;
        let thread = join.thread().clone();
        let handle = PublisherHandle { requests, thread, progress };
        Ok((Self { handle, join: Some(join) }, inlets))
    }
}

impl PublisherThread {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.join.as_ref().is_some_and(|join| !join.is_finished())
    }
}

impl Drop for PublisherThread {
    fn drop(&mut self) {
        self.handle.progress.is_ending.store(true, Ordering::Release);
        self.handle.thread.unpark();
        if let Some(join) = self.join.take()
            && join.join().is_err()
        {
            error!("the thread of the feed had panicked");
        }
    }
}

struct FeedPublisher {
    record: Record,
    flush: Duration,
    asked: mpsc::Receiver<ViewRequest>,
    progress: Arc<PublisherProgress>,
}

impl FeedPublisher {
    fn run(self, outlets: Vec<ShardOutlet>) {
        let directory = match RecordDirectory::open(&self.record.directory) {
            Ok(directory) => directory,
            Err(error) => return error!(%error, "the feed cannot read the record"),
        };
        let generations = match GenerationIndex::find(&directory) {
            Ok(generations) => generations,
            Err(error) => return error!(%error, "the feed cannot read the record"),
        };
        let mut decoder = RecordDecoder::new(&generations);
        let mut fanout = FeedFanout::new(outlets);
        let mut tails: Option<LaneTails<'_>> = None;
        while !self.progress.is_ending.load(Ordering::Acquire) {
            let requests: Vec<_> = self.asked.try_iter().collect();
            if tails.is_none() && requests.iter().any(|it| matches!(it, ViewRequest::Open { .. })) {
                tails = Some(LaneTails::open(&directory, &self.record, self.flush));
                fanout.reached = tails.as_ref().map_or(fanout.reached, LaneTails::reached);
            }
            let Some(reading) = &mut tails else {
                std::thread::park();
                continue;
            };
            // What was written before a view was asked for is not its.
            self.read(reading, &mut decoder, &mut fanout);
            requests.into_iter().for_each(|request| fanout.take(request));
            fanout.flush();
            self.progress.missed.store(fanout.missed, Ordering::Relaxed);
            if fanout.views.is_empty() {
                tails = None;
            } else {
                std::thread::park_timeout(PROGRESS_EVERY);
            }
        }
    }

    fn read(
        &self,
        tails: &mut LaneTails<'_>,
        decoder: &mut RecordDecoder<'_>,
        fanout: &mut FeedFanout,
    ) {
        let progress = &self.progress;
        let mut newest_ms = None;
        for lane in FeedLane::ALL {
            let tail = &mut tails.tails[lane.index()];
            tail.poll(&mut |place, kind, payload| {
                progress.records.fetch_add(1, Ordering::Relaxed);
                decoder.decode(kind, payload, &mut |record| fanout.add(lane, place, &record));
                fanout.reached[lane.index()] = FeedPosition::behind(place.epoch, place.sequence);
                newest_ms = newest_ms.max(Some(place.time_ms));
                fanout.flush_full();
            });
            fanout.reached[lane.index()] = tail.reached();
        }
        progress.messages.store(fanout.messages, Ordering::Relaxed);
        let lag_ms = newest_ms.map_or(0, |newest| unix_ms().saturating_sub(newest));
        progress.lag_ms.store(lag_ms, Ordering::Relaxed);
    }
}

/// Both lanes, followed. The log gathers for less long, and wakes this thread.
struct LaneTails<'d> {
    tails: [LaneTail<'d>; LANES],
    _watches: [LaneWatch; LANES],
}

impl<'d> LaneTails<'d> {
    fn open(directory: &'d RecordDirectory, record: &Record, flush: Duration) -> Self {
        let lanes = FeedLane::ALL.map(|lane| match lane {
            FeedLane::Firehose => record.firehose.clone(),
            FeedLane::Durable => record.durable.clone(),
        });
        let thread = std::thread::current();
        let watch = |lane: &LaneHandle| {
            let thread = thread.clone();
            let watch = lane.watch(move || thread.unpark());
            watch.set_gather(Some(flush));
            watch
        };
        let watches = [watch(&lanes[0]), watch(&lanes[1])];
        Self { tails: lanes.map(|lane| LaneTail::at_end(directory, lane)), _watches: watches }
    }

    fn reached(&self) -> [FeedPosition; LANES] {
        [self.tails[0].reached(), self.tails[1].reached()]
    }
}

/// A selection, and the shards that have subscribers to it.
struct PublishedView {
    selection: Arc<Selection>,
    targets: Vec<(usize, ViewId)>,
}

/// Who gets what.
struct FeedFanout {
    views: BTreeMap<SelectionKey, PublishedView>,
    outlets: Vec<ShardOutlet>,
    reached: [FeedPosition; LANES],
    /// Messages encoded.
    messages: u64,
    missed: u64,
    hasher: RandomState,
    frame: Vec<u8>,
}

impl FeedFanout {
    fn new(outlets: Vec<ShardOutlet>) -> Self {
        Self {
            views: BTreeMap::new(),
            outlets,
            reached: [FeedPosition::default(); LANES],
            messages: 0,
            missed: 0,
            hasher: RandomState::new(),
            frame: Vec::new(),
        }
    }

    fn take(&mut self, request: ViewRequest) {
        match request {
            ViewRequest::Open { shard, view, selection } => {
                let lane = selection.key.topic.lane();
                let since = self.reached[lane.index()];
                self.outlets[shard].batch.opened.push(OpenedView { view, since });
                let published = self.views.entry(selection.key.clone());
                let published =
                    published.or_insert(PublishedView { selection, targets: Vec::new() });
                published.targets.push((shard, view));
            }
            ViewRequest::Close { shard, view, selection } => {
                if let Some(published) = self.views.get_mut(&selection.key) {
                    published.targets.retain(|target| *target != (shard, view));
                    if published.targets.is_empty() {
                        self.views.remove(&selection.key);
                    }
                }
            }
        }
    }

    /// Hands the messages of a record to all who selected them.
    fn add(&mut self, lane: FeedLane, place: &RecordPosition, record: &FeedRecord<'_>) {
        let Self { views, outlets, messages, hasher, frame, .. } = self;
        // Views of one topic are neighbours: its messages are listed and encoded once.
        let mut views = views.values().filter(|view| view.selection.key.topic.lane() == lane);
        let Some(mut view) = views.next() else { return };
        loop {
            let topic = &view.selection.key.topic;
            let mut same_topic = vec![view];
            let mut next = None;
            for other in views.by_ref() {
                if other.selection.key.topic != *topic {
                    next = Some(other);
                    break;
                }
                same_topic.push(other);
            }
            record.for_each_message(topic, place, &mut |message| {
                frame.clear();
                let (position, mut key) = (message.place.position(), 0);
                for view in same_topic.iter().filter(|view| message.is_selected(&view.selection)) {
                    if frame.is_empty() {
                        message.write(frame);
                        key = message.key(hasher);
                        *messages += 1;
                    }
                    for &(shard, view) in &view.targets {
                        outlets[shard].add(*messages, frame, PendingEntry { view, position, key });
                    }
                }
            });
            match next {
                Some(next) => view = next,
                None => return,
            }
        }
    }

    fn flush_full(&mut self) {
        for outlet in &mut self.outlets {
            if outlet.batch.bytes.len() >= BATCH_BYTES {
                self.missed += u64::from(!outlet.send(self.reached));
            }
        }
    }

    fn flush(&mut self) {
        for outlet in &mut self.outlets {
            let batch = &outlet.batch;
            let is_progress = batch.from != self.reached && outlet.sent.elapsed() >= PROGRESS_EVERY;
            if !batch.entries.is_empty() || !batch.opened.is_empty() || is_progress {
                self.missed += u64::from(!outlet.send(self.reached));
            }
        }
    }
}

/// An entry of a message that is about to be copied.
#[derive(Clone, Copy)]
struct PendingEntry {
    view: ViewId,
    position: FeedPosition,
    key: u64,
}

/// Our end of a shard's batches.
struct ShardOutlet {
    batches: rtrb::Producer<FeedBatch>,
    bell: Arc<Notify>,
    batch: FeedBatch,
    /// The message last copied into the batch, and where it stands.
    copied: (u64, std::ops::Range<u32>),
    sent: Instant,
}

impl ShardOutlet {
    fn new() -> (Self, ShardInlet) {
        let (batches, consumer) = rtrb::RingBuffer::new(BATCHES_MAX);
        let bell = Arc::new(Notify::new());
        let inlet = ShardInlet { batches: consumer, bell: Arc::clone(&bell) };
        let batch = FeedBatch::default();
        (Self { batches, bell, batch, copied: (0, 0..0), sent: Instant::now() }, inlet)
    }

    fn add(&mut self, message: u64, frame: &[u8], entry: PendingEntry) {
        let batch = &mut self.batch;
        if self.copied.0 != message {
            let end = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a batch is short");
            let start = end(&batch.bytes);
            batch.bytes.extend_from_slice(frame);
            self.copied = (message, start..end(&batch.bytes));
        }
        let PendingEntry { view, position, key } = entry;
        batch.entries.push(BatchEntry { view, range: self.copied.1.clone(), position, key });
    }

    /// Hands the batch over; returns whether the shard took it.
    fn send(&mut self, reached: [FeedPosition; LANES]) -> bool {
        let next = FeedBatch { from: reached, ..FeedBatch::default() };
        let batch = FeedBatch { reached, ..std::mem::replace(&mut self.batch, next) };
        self.copied = (0, 0..0);
        self.sent = Instant::now();
        let lost = match self.batches.push(batch) {
            Ok(()) => None,
            Err(rtrb::PushError::Full(lost)) => Some(lost),
        };
        self.bell.notify_one();
        let Some(lost) = lost else { return true };
        self.batch.is_restart = true;
        self.batch.opened = lost.opened;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_while_broadcasting_lags() {
        let progress = PublisherProgress::default();
        for (lag_ms, want) in [
            (0, Ok(())),
            (1_000, Ok(())),
            (1_001, Err("subscribers are 1001 ms behind: try again later".to_owned())),
        ] {
            progress.lag_ms.store(lag_ms, Ordering::Relaxed);
            let checked = progress.check_lag(Duration::from_secs(1));
            let refusal = checked.map_err(|error| {
                assert_eq!(error.code, LiveErrorCode::Busy);
                error.message
            });
            assert_eq!(refusal, want);
        }
    }
}

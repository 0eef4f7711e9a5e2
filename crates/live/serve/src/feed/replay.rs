//! Reads earlier messages from the log, for subscribers that resume further back than a shard
//! remembers: a chunk at a time, when the subscriber has taken the previous one.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use audit::{GenerationIndex, LogItem, LogReadError, LogRecords, RecordDirectory, RecordPosition};
use live_core::feed::FeedPosition;
use record::Record;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::message::FeedRecord;
use super::place::{MissingReason, MissingRecords};
use super::selection::Selection;
use super::source::{RecordDecoder, lane_kind, sequence_behind};

/// A chunk ends with the record that brings it to this many bytes.
const CHUNK_BYTES: usize = 32 << 10;
/// Longest search for a chunk: others wait.
const CHUNK_TIME: Duration = Duration::from_millis(10);

/// Messages that a subscriber missed.
#[derive(Debug)]
pub(crate) struct ReplayRequest {
    pub selection: Arc<Selection>,
    /// Begin behind this place.
    pub after: FeedPosition,
    /// How far the feed has read the lane: what is behind it may be taken back.
    pub until: FeedPosition,
    /// Gets the chunk; nothing if the log cannot be read.
    pub reply: oneshot::Sender<ReplayChunk>,
}

/// A part of the messages that a subscriber missed.
#[derive(Debug, Default)]
pub(crate) struct ReplayChunk {
    /// Frames, one behind the other.
    pub frames: Vec<u8>,
    pub messages: u64,
    /// They are complete up to here.
    pub through: FeedPosition,
}

/// The thread that reads; it ends when this is dropped.
pub(crate) struct ReplayThread {
    pub handle: ReplayHandle,
    join: Option<JoinHandle<()>>,
}

/// Asks the thread.
#[derive(Clone, Debug)]
pub(crate) struct ReplayHandle(mpsc::Sender<ReplayOrder>);

#[derive(Debug)]
enum ReplayOrder {
    Read(ReplayRequest),
    End,
}

impl ReplayHandle {
    /// Asks for a chunk. After the end the reply is dropped.
    pub fn ask(&self, request: ReplayRequest) {
        let _unheard = self.0.send(ReplayOrder::Read(request));
    }
}

impl ReplayThread {
    /// Starts it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(record: &Record) -> io::Result<Self> {
        let (orders, ordered) = mpsc::channel();
        let path = Arc::clone(&record.directory);
        let join = std::thread::Builder::new().name("live-replay".to_owned()).spawn(move || {
            let directory = match RecordDirectory::open(&path) {
                Ok(directory) => directory,
                Err(error) => return error!(%error, "the feed cannot replay the record"),
            };
            let generations = match GenerationIndex::find(&directory) {
                Ok(generations) => generations,
                Err(error) => return error!(%error, "the feed cannot replay the record"),
            };
            let mut decoder = RecordDecoder::new(&generations);
            while let Ok(ReplayOrder::Read(request)) = ordered.recv() {
                serve(&directory, &mut decoder, request);
            }
        })?;
        Ok(Self { handle: ReplayHandle(orders), join: Some(join) })
    }
}

impl ReplayThread {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.join.as_ref().is_some_and(|join| !join.is_finished())
    }
}

impl Drop for ReplayThread {
    fn drop(&mut self) {
        let _ended = self.handle.0.send(ReplayOrder::End);
        if let Some(join) = self.join.take()
            && join.join().is_err()
        {
            error!("the thread that replays the feed had panicked");
        }
    }
}

fn serve(directory: &RecordDirectory, decoder: &mut RecordDecoder<'_>, request: ReplayRequest) {
    // The subscriber may have left while it waited.
    if request.reply.is_closed() {
        return;
    }
    match read_chunk(directory, decoder, &request) {
        Ok(chunk) => drop(request.reply.send(chunk)),
        Err(error) => warn!(%error, "the feed cannot replay the record"),
    }
}

fn read_chunk(
    directory: &RecordDirectory,
    decoder: &mut RecordDecoder<'_>,
    request: &ReplayRequest,
) -> Result<ReplayChunk, LogReadError> {
    let ReplayRequest { selection, after, until, .. } = request;
    let kind = lane_kind(selection.key.topic.lane());
    let mut next = sequence_behind(directory, kind, *after)?;
    // The parts of its last record that the subscriber has not read.
    next = if after.part == live_core::feed::PART_LAST { next } else { next.min(after.sequence) };
    let mut chunk = ReplayChunk { through: *after, ..ReplayChunk::default() };
    let begun = Instant::now();
    for item in LogRecords::open(directory, kind, next)? {
        let LogItem::Record(place, kind, payload) = item? else { continue };
        let position = FeedPosition::behind(place.epoch, place.sequence);
        if position > *until {
            break;
        }
        if next < place.sequence {
            chunk.add_removed(selection, &place, place.sequence - next);
        }
        next = place.sequence + 1;
        decoder.decode(kind, &payload, &mut |record| {
            chunk.add(selection, *after, &place, &record);
        });
        chunk.through = chunk.through.max(position);
        if chunk.frames.len() >= CHUNK_BYTES || begun.elapsed() >= CHUNK_TIME {
            return Ok(chunk);
        }
    }
    chunk.through = chunk.through.max(*until);
    Ok(chunk)
}

impl ReplayChunk {
    fn add(
        &mut self,
        selection: &Selection,
        after: FeedPosition,
        place: &RecordPosition,
        record: &FeedRecord<'_>,
    ) {
        record.for_each_message(&selection.key.topic, place, &mut |message| {
            if after < message.place.position() && message.is_selected(selection) {
                message.write(&mut self.frames);
                self.messages += 1;
            }
        });
    }

    /// Tells of records before `place` that retention removed.
    fn add_removed(&mut self, selection: &Selection, place: &RecordPosition, records: u64) {
        let missing = MissingRecords { records, reason: MissingReason::Removed };
        let before = RecordPosition { sequence: place.sequence - 1, ..*place };
        self.add(selection, FeedPosition::default(), &before, &FeedRecord::Missing(missing));
    }
}

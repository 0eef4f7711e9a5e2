//! A shard's end of its ring: takes a record, or refuses or sheds it at once. Allocates nothing and
//! never waits.
//!
//! In the ring a record is [`HEADER_BYTES`] of header, then its payload. Integers are
//! little-endian:
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 4 | bytes of payload |
//! | 4 | 4 | kind, class, and two zeros |
//! | 8 | 8 | time |
//! | 16 | 8 | records that this ring had shed before |
//! | 24 | 16 | the earliest and the latest time of those shed since the previous record |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::gap::RecordSpan;
use super::status::{CLASSES, LaneFailure, LaneShared, LaneState, LogSide, RingShared, ShardSide};
use super::waker::ThreadWaker;
use crate::segment::PAYLOAD_BYTES_MAX;

/// Bytes of a record in a ring before its payload.
pub(super) const HEADER_BYTES: usize = 40;
/// The shortest ring.
const RING_BYTES_MIN: usize = 256;

/// Position of a record among those that its ring took, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RingPosition(pub u64);

/// Why the durable lane refused a record. Order is precedence: the first that applies is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It can never fit.
    #[error("a payload of {bytes} bytes, at most {max} fit the ring")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that fits.
        max: usize,
    },
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
    /// Until a commit succeeds; the log retries by itself.
    #[error("the log cannot be written: {}", cause.text())]
    Failing {
        /// The cause.
        cause: LaneFailure,
        /// When the first commit failed, in Unix milliseconds.
        since_ms: u64,
    },
    /// Until the log thread has caught up.
    #[error("the ring has no room: the disk is slower than what is handed over")]
    Full,
}

/// Events for a ring's owner, on the log thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneEvent {
    /// More of its records are durable.
    Durable {
        /// All records up to here.
        through: RingPosition,
        /// How many were added.
        records: u64,
        /// Sequence of the last of them. They are consecutive in the log.
        sequence: u64,
    },
    /// The lane cannot be written. Accepted records may still become durable later.
    Failing {
        /// The cause.
        cause: LaneFailure,
        /// Unix milliseconds.
        since_ms: u64,
    },
    /// The lane is written again.
    Writing,
}

/// Receives events on the log thread: it must neither block nor panic. It may wake a task of the
/// shard, or send to it.
pub type LaneListener = Box<dyn FnMut(LaneEvent) + Send>;

/// The part that both lanes' rings share.
#[derive(Debug)]
pub(super) struct RingProducer {
    bytes: rtrb::Producer<u8>,
    shared: Arc<RingShared>,
    lane: Arc<LaneShared>,
    waker: Arc<ThreadWaker>,
    written: u64,
    accepted: u64,
    shed: u64,
    /// Shed records since the last accepted one.
    gap: RecordSpan,
}

/// The ring has no room for this many bytes.
struct NoRoom(usize);

impl RingProducer {
    /// A ring of `bytes`, and its other end.
    pub fn new(
        bytes: usize,
        lane: &Arc<LaneShared>,
        waker: &Arc<ThreadWaker>,
    ) -> (Self, rtrb::Consumer<u8>, Arc<RingShared>) {
        let (producer, consumer) = rtrb::RingBuffer::new(bytes.max(RING_BYTES_MIN));
        let shared = Arc::new(RingShared {
            capacity: consumer.buffer().capacity(),
            shard: ShardSide::default(),
            log: LogSide::default(),
        });
        lane.add(Arc::clone(&shared));
        let producer = Self {
            bytes: producer,
            shared: Arc::clone(&shared),
            lane: Arc::clone(lane),
            waker: Arc::clone(waker),
            written: 0,
            accepted: 0,
            shed: 0,
            gap: RecordSpan::default(),
        };
        (producer, consumer, shared)
    }

    fn payload_bytes_max(&self) -> usize {
        PAYLOAD_BYTES_MAX.min(self.shared.capacity - HEADER_BYTES)
    }

    fn put(&mut self, kind: u8, class: u8, time_ms: u64, payload: &[u8]) -> Result<(), NoRoom> {
        let length = HEADER_BYTES + payload.len();
        let Ok(mut chunk) = self.bytes.write_chunk(length) else {
            return Err(NoRoom(length));
        };
        let bytes = u32::try_from(payload.len()).expect("a payload is at most a MiB");
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&bytes.to_le_bytes());
        (header[4], header[5]) = (kind, class);
        header[8..16].copy_from_slice(&time_ms.to_le_bytes());

        header[16..24].copy_from_slice(&self.shed.to_le_bytes());
        header[24..32].copy_from_slice(&self.gap.since_ms.to_le_bytes());
        header[32..].copy_from_slice(&self.gap.through_ms.to_le_bytes());
        let (one, two) = chunk.as_mut_slices();
        let mut rest = [one, two];
        fill(&mut rest, &header);
        fill(&mut rest, payload);
        // Before the record becomes visible, so that a reader that sees it finds it counted.
        self.accepted += 1;
        self.shared.shard.accepted.set(self.accepted);
        chunk.commit_all();
        self.gap = RecordSpan::default();
        self.written += length as u64;
        self.shared.log.wake_at.reached(self.written, || self.waker.wake());
        Ok(())
    }

    fn leave_out(&mut self, time_ms: u64) {
        self.shed += 1;
        self.gap.add(RecordSpan::one(time_ms));
        let shard = &self.shared.shard;
        shard.shed_since_ms.store(self.gap.since_ms, Ordering::Release);
        shard.shed_through_ms.store(self.gap.through_ms, Ordering::Release);
        shard.shed.store(self.shed, Ordering::Release);
        // A gap is worth waking the thread for, like a full ring.
        self.shared.log.wake_at.reached(u64::MAX - 1, || self.waker.wake());
    }

    fn no_room(&self, NoRoom(bytes): &NoRoom) {
        self.shared.shard.full_for.store(*bytes as u64, Ordering::Relaxed);
    }

    fn state(&self) -> LaneState {
        let wanted = self.shared.shard.full_for.load(Ordering::Relaxed);
        match self.lane.state() {
            LaneState::Writing if wanted > self.bytes.slots() as u64 => LaneState::Full,
            state => state,
        }
    }
}

/// Copies `bytes` to the start of the rest of a chunk.
fn fill(rest: &mut [&mut [u8]; 2], bytes: &[u8]) {
    let mut bytes = bytes;
    for part in rest {
        let (here, behind) = bytes.split_at(bytes.len().min(part.len()));
        let (written, left) = std::mem::take(part).split_at_mut(here.len());
        written.copy_from_slice(here);
        (*part, bytes) = (left, behind);
    }
}

/// A shard's end of a ring of the durable lane.
#[derive(Debug)]
pub struct DurableRing(pub(super) RingProducer);

impl DurableRing {
    /// Writes a record to the ring. It is durable once [`Self::is_durable`] confirms its position.
    /// A refused record never reaches the log.
    pub fn push(
        &mut self,
        kind: u8,
        time_ms: u64,
        payload: &[u8],
    ) -> Result<RingPosition, PushError> {
        let producer = &mut self.0;
        let (max, counts) = (producer.payload_bytes_max(), &producer.shared.shard);
        if payload.len() > max {
            counts.too_long.add(1);
            return Err(PushError::TooLong { bytes: payload.len(), max });
        }
        let refused = match producer.lane.state() {
            LaneState::Closed => Some(PushError::Closed),
            LaneState::Failing { cause, since_ms } => Some(PushError::Failing { cause, since_ms }),
            LaneState::Full | LaneState::Writing => None,
        };
        if let Some(refused) = refused {
            counts.refused_state.add(1);
            return Err(refused);
        }
        match producer.put(kind, 0, time_ms, payload) {
            Ok(()) => Ok(RingPosition(producer.accepted)),
            Err(no_room) => {
                producer.shared.shard.refused_full.add(1);
                producer.no_room(&no_room);
                Err(PushError::Full)
            }
        }
    }

    /// The position up to which records are durable.
    pub fn durable(&self) -> RingPosition {
        RingPosition(self.0.shared.log.durable.load(Ordering::Acquire))
    }

    /// Whether the record at this position is durable.
    pub fn is_durable(&self, position: RingPosition) -> bool {
        position <= self.durable()
    }

    /// Whether records are taken. Unless this is [`LaneState::Writing`], authorise nothing that
    /// needs a record.
    pub fn state(&self) -> LaneState {
        self.0.state()
    }

    /// The longest payload that fits.
    pub fn payload_bytes_max(&self) -> usize {
        self.0.payload_bytes_max()
    }
}

/// A shard's end of a ring of the firehose.
#[derive(Debug)]
pub struct FirehoseRing {
    pub(super) producer: RingProducer,
    pub(super) gap_kind: u8,
}

impl FirehoseRing {
    /// Writes a record to the ring, or sheds and counts it; returns whether it was taken. A record
    /// longer than the ring is shed too. After the lane is closed, shed records are not reported.
    ///
    /// # Panics
    /// If `kind` is that of gaps.
    pub fn offer(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> bool {
        self.offer_as(kind, 0, time_ms, payload)
    }

    /// As [`Self::offer`], with a class, by which
    /// [`LaneCounters::by_class`](super::LaneCounters::by_class) counts it once durable.
    ///
    /// # Panics
    /// If `kind` is that of gaps, or `class` is not below [`CLASSES`].
    pub fn offer_as(&mut self, kind: u8, class: u8, time_ms: u64, payload: &[u8]) -> bool {
        assert!(usize::from(class) < CLASSES, "there is no class {class}");
        assert!(kind != self.gap_kind, "kind {kind} is that of gaps");
        let producer = &mut self.producer;
        if producer.lane.state() == LaneState::Closed {
            producer.shared.shard.refused_state.add(1);
            return false;
        }
        if payload.len() > producer.payload_bytes_max() {
            self.leave_out(time_ms);
            return false;
        }
        match producer.put(kind, class, time_ms, payload) {
            Ok(()) => true,
            Err(no_room) => {
                producer.no_room(&no_room);
                producer.leave_out(time_ms);
                false
            }
        }
    }

    /// Whether a record with a payload of this length would be taken now, and leave half of the ring
    /// to others.
    pub fn has_room(&self, payload: usize) -> bool {
        let (slots, capacity) = (self.producer.bytes.slots(), self.producer.shared.capacity);
        self.state() == LaneState::Writing && HEADER_BYTES + payload + capacity / 2 <= slots
    }

    /// Sheds a record that is too long for any ring; a gap reports it.
    pub fn leave_out(&mut self, time_ms: u64) {
        self.producer.shared.shard.too_long.add(1);
        self.producer.leave_out(time_ms);
    }

    /// Number of records this ring has shed.
    pub fn shed(&self) -> u64 {
        self.producer.shed
    }

    /// Whether records are taken. They are while the lane fails, as long as the ring has room.
    pub fn state(&self) -> LaneState {
        self.producer.state()
    }

    /// The longest payload that fits.
    pub fn payload_bytes_max(&self) -> usize {
        self.producer.payload_bytes_max()
    }
}

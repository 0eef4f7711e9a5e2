//! A shard's end of its ring: hands over records, or is told at once that it cannot.
//!
//! Owns what is taken, refused and shed, and the words that both ends share. Allocates nothing and
//! waits for nobody. How the other end empties it is `outlet`'s.
//!
//! In the ring a record is [`HEADER_BYTES`] of header, then its payload. Integers are
//! little-endian:
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 4 | bytes of payload |
//! | 4 | 4 | kind, class, and two zeros |
//! | 8 | 8 | time |
//! | 16 | 8 | how many records this ring had shed before |
//! | 24 | 16 | the earliest and the latest time of those shed since the record before |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::gap::Span;
use super::status::{CLASSES, Cause, LaneShared, LogSide, RingShared, ShardSide, State};
use crate::segment::PAYLOAD_BYTES_MAX;

/// Bytes of a record in a ring before its payload.
pub(super) const HEADER_BYTES: usize = 40;
/// No ring is shorter.
const RING_BYTES_MIN: usize = 256;

/// A record's place among those that its ring took, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Why the durable lane did not take a record. The order is precedence: the first that holds is
/// told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It never fits.
    #[error("a payload of {bytes} bytes, at most {max} fit the ring")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest that fits.
        max: usize,
    },
    /// Nothing is taken any more.
    #[error("the log is closed")]
    Closed,
    /// Until a commit succeeds; the log tries by itself.
    #[error("the log cannot be written: {}", cause.text())]
    Failing {
        /// Why.
        cause: Cause,
        /// When the first commit failed, in Unix milliseconds.
        since_ms: u64,
    },
    /// Until the log thread has caught up.
    #[error("the ring has no room: the disk is slower than what is handed over")]
    Full,
}

/// What a ring's owner is told, on the log thread: it must neither wait nor panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// More of its records are durable.
    Durable {
        /// Up to here all are.
        through: Position,
        /// How many more.
        records: u64,
        /// Sequence of the last of them. They stand in the log one after another.
        sequence: u64,
    },
    /// The lane is not written. What was handed over and is not durable yet may be later.
    Failing {
        /// Why.
        cause: Cause,
        /// Unix milliseconds.
        since_ms: u64,
    },
    /// It is again.
    Writing,
}

/// Who is told: it may wake a task of the shard, or send to it.
pub type Tell = Box<dyn FnMut(Told) + Send>;

/// What the ends of both lanes have in common.
#[derive(Debug)]
pub(super) struct Inlet {
    bytes: rtrb::Producer<u8>,
    shared: Arc<RingShared>,
    lane: Arc<LaneShared>,
    bell: Arc<Bell>,
    /// Bytes handed over.
    written: u64,
    /// Records handed over.
    accepted: u64,
    /// Records left out.
    shed: u64,
    /// Those of them since the last record handed over.
    gap: Span,
}

/// There was no room, for so many bytes.
struct NoRoom(usize);

impl Inlet {
    /// A ring of `bytes`, and its other end.
    pub fn new(
        bytes: usize,
        lane: &Arc<LaneShared>,
        bell: &Arc<Bell>,
    ) -> (Self, rtrb::Consumer<u8>, Arc<RingShared>) {
        let (producer, consumer) = rtrb::RingBuffer::new(bytes.max(RING_BYTES_MIN));
        let shared = Arc::new(RingShared {
            capacity: consumer.buffer().capacity(),
            shard: ShardSide::default(),
            log: LogSide::default(),
        });
        lane.add(Arc::clone(&shared));
        let inlet = Self {
            bytes: producer,
            shared: Arc::clone(&shared),
            lane: Arc::clone(lane),
            bell: Arc::clone(bell),
            written: 0,
            accepted: 0,
            shed: 0,
            gap: Span::default(),
        };
        (inlet, consumer, shared)
    }

    fn payload_bytes_max(&self) -> usize {
        PAYLOAD_BYTES_MAX.min(self.shared.capacity - HEADER_BYTES)
    }

    fn put(&mut self, (kind, class): (u8, u8), time_ms: u64, payload: &[u8]) -> Result<(), NoRoom> {
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
        // Before the record can be seen, so that whoever sees it finds it counted.
        self.accepted += 1;
        self.shared.shard.accepted.set(self.accepted);
        chunk.commit_all();
        self.gap = Span::default();
        self.written += length as u64;
        self.shared.log.wake_at.reached(self.written, || self.bell.ring());
        Ok(())
    }

    fn leave_out(&mut self, time_ms: u64) {
        self.shed += 1;
        self.gap.add(Span::one(time_ms));
        let shard = &self.shared.shard;
        shard.shed_since_ms.store(self.gap.since_ms, Ordering::Release);
        shard.shed_through_ms.store(self.gap.through_ms, Ordering::Release);
        shard.shed.store(self.shed, Ordering::Release);
        // A gap is worth as much waking as a ring that is full.
        self.shared.log.wake_at.reached(u64::MAX - 1, || self.bell.ring());
    }

    fn no_room(&self, NoRoom(bytes): &NoRoom) {
        self.shared.shard.full_for.store(*bytes as u64, Ordering::Relaxed);
    }

    fn state(&self) -> State {
        let wanted = self.shared.shard.full_for.load(Ordering::Relaxed);
        match self.lane.state() {
            State::Writing if wanted > self.bytes.slots() as u64 => State::Full,
            state => state,
        }
    }
}

/// Writes `bytes` into the beginning of what is left of a chunk.
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
pub struct DurableRing(pub(super) Inlet);

impl DurableRing {
    /// Hands over a record. It is durable once [`Self::is_durable`] says so of its position, and
    /// not before.
    ///
    /// # Errors
    /// It was not taken, and nothing of it will be in the log: see [`Refused`].
    pub fn push(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> Result<Position, Refused> {
        let inlet = &mut self.0;
        let (max, counts) = (inlet.payload_bytes_max(), &inlet.shared.shard);
        if payload.len() > max {
            counts.too_long.add(1);
            return Err(Refused::TooLong { bytes: payload.len(), max });
        }
        let refused = match inlet.lane.state() {
            State::Closed => Some(Refused::Closed),
            State::Failing { cause, since_ms } => Some(Refused::Failing { cause, since_ms }),
            State::Full | State::Writing => None,
        };
        if let Some(refused) = refused {
            counts.refused_state.add(1);
            return Err(refused);
        }
        match inlet.put((kind, 0), time_ms, payload) {
            Ok(()) => Ok(Position(inlet.accepted)),
            Err(no_room) => {
                inlet.shared.shard.refused_full.add(1);
                inlet.no_room(&no_room);
                Err(Refused::Full)
            }
        }
    }

    /// Up to where this ring's records are durable.
    pub fn durable(&self) -> Position {
        Position(self.0.shared.log.durable.load(Ordering::Acquire))
    }

    /// Whether the record that got this position is durable.
    pub fn is_durable(&self, position: Position) -> bool {
        position <= self.durable()
    }

    /// Whether records are taken. Where it is not [`State::Writing`] nothing must be authorised
    /// that needs a record.
    pub fn state(&self) -> State {
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
    pub(super) inlet: Inlet,
    pub(super) gap_kind: u8,
}

impl FirehoseRing {
    /// Hands over a record, or leaves it out, counted, and tells which. One that is longer than
    /// the ring is left out as well. Once the lane is closed nothing tells of what comes.
    ///
    /// # Panics
    /// `kind` is that of gaps.
    pub fn offer(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> bool {
        self.offer_as((kind, 0), time_ms, payload)
    }

    /// The same of a class, by which [`Counters::by_class`](super::Counters::by_class) counts it once it is durable.
    ///
    /// # Panics
    /// `kind` is that of gaps, or `class` is not below [`CLASSES`].
    pub fn offer_as(&mut self, (kind, class): (u8, u8), time_ms: u64, payload: &[u8]) -> bool {
        assert!(usize::from(class) < CLASSES, "there is no class {class}");
        assert!(kind != self.gap_kind, "kind {kind} is that of gaps");
        let inlet = &mut self.inlet;
        if inlet.lane.state() == State::Closed {
            inlet.shared.shard.refused_state.add(1);
            return false;
        }
        if payload.len() > inlet.payload_bytes_max() {
            self.leave_out(time_ms);
            return false;
        }
        match inlet.put((kind, class), time_ms, payload) {
            Ok(()) => true,
            Err(no_room) => {
                inlet.no_room(&no_room);
                inlet.leave_out(time_ms);
                false
            }
        }
    }

    /// Leaves out a record that is too long for any ring: counted, and told by a gap.
    pub fn leave_out(&mut self, time_ms: u64) {
        self.inlet.shared.shard.too_long.add(1);
        self.inlet.leave_out(time_ms);
    }

    /// How many records this ring left out.
    pub fn shed(&self) -> u64 {
        self.inlet.shed
    }

    /// Whether records are taken; they are while the lane fails, as long as the ring has room.
    pub fn state(&self) -> State {
        self.inlet.state()
    }

    /// The longest payload that fits.
    pub fn payload_bytes_max(&self) -> usize {
        self.inlet.payload_bytes_max()
    }
}

//! What can be asked of a lane from any thread: whether it is written, and what was counted.
//!
//! Owns the words that the log thread and the shards share. Each has one writer, the counters
//! too; nobody waits to read them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::LaneKind;
use super::bell::WakeAt;
use super::gap::Span;
use crate::disk::SyncMeter;

/// Why a lane cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The disk, or what this user may have of it, is full.
    DiskFull,
    /// Anything else that the file system said.
    Disk,
}

impl Cause {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Disk,
        }
    }

    /// As it stands in a message.
    pub const fn text(self) -> &'static str {
        match self {
            Self::DiskFull => "its disk is full",
            Self::Disk => "its disk fails",
        }
    }
}

/// Whether records are taken. The order is precedence: the first that holds is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is taken any more: the log is being closed, or its thread has ended.
    Closed,
    /// The last commit failed, and none has succeeded since.
    Failing {
        /// Why it did.
        cause: Cause,
        /// When the first one failed, in Unix milliseconds.
        since_ms: u64,
    },
    /// A ring had no room for a record, and still has none.
    Full,
    /// Records are taken and made durable.
    Writing,
}

/// A lane's state in one word: two bits of kind, one of cause, the rest is the time.
impl State {
    const CAUSE_SHIFT: u32 = 2;
    const TIME_SHIFT: u32 = 3;

    const fn pack(self) -> u64 {
        match self {
            Self::Writing | Self::Full => 0,
            Self::Failing { cause, since_ms } => {
                let cause = matches!(cause, Cause::DiskFull) as u64;
                1 | cause << Self::CAUSE_SHIFT | since_ms << Self::TIME_SHIFT
            }
            Self::Closed => 2,
        }
    }

    const fn unpack(word: u64) -> Self {
        let full = word >> Self::CAUSE_SHIFT & 1 == 1;
        let cause = if full { Cause::DiskFull } else { Cause::Disk };
        match word & 3 {
            0 => Self::Writing,
            1 => Self::Failing { cause, since_ms: word >> Self::TIME_SHIFT },
            _ => Self::Closed,
        }
    }
}

/// A counter that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub fn raise(&self, to: u64) {
        if self.read() < to {
            self.set(to);
        }
    }

    pub fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the log thread counts of a lane.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub records: Count,
    pub by_class: [Count; CLASSES],
    pub disk_lost: Count,
    pub bytes: Count,
    pub commits: Count,
    pub commit_failures: Count,
    pub gaps: Count,
    pub lost: Count,
    pub retention_failures: Count,
    pub removed_bytes: Count,
    pub segments: Count,
}

/// What was counted of a lane since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were committed, gaps apart.
    pub records: u64,
    /// The same by the class that each was offered as; those of the durable lane are of class 0.
    pub by_class: [u64; CLASSES],
    /// Records that were written, and lost by a disk that failed before they were committed.
    pub disk_lost: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Commits that succeeded.
    pub commits: u64,
    /// Writes and commits that failed.
    pub commit_failures: u64,
    /// Records that were refused because a ring of the durable lane had no room.
    pub refused_full: u64,
    /// Records that were refused because the durable lane was failing, or either was closed.
    pub refused_state: u64,
    /// Records that were refused or shed because they are longer than their ring.
    pub too_long: u64,
    /// Records of the firehose that were left out by its rings.
    pub shed: u64,
    /// Gaps that were committed.
    pub gaps: u64,
    /// Records that they tell of: in the end those that were shed, and those that a failing disk
    /// lost after they were written.
    pub lost: u64,
    /// Calls of `fdatasync`.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: Duration,
    /// The most bytes that were ever found in a ring.
    pub ring_bytes_high: u64,
    /// Times that old segments could not be removed.
    pub retention_failures: u64,
    /// Bytes of segments that were removed.
    pub removed_bytes: u64,
    /// Segments there are.
    pub segments: u64,
}

/// Records of the firehose are counted by so many classes.
pub const CLASSES: usize = 4;

/// What both ends share, each part on lines of its own.
#[derive(Debug)]
pub(super) struct RingShared {
    pub capacity: usize,
    pub shard: ShardSide,
    pub log: LogSide,
}

impl RingShared {
    pub fn is_full(&self) -> bool {
        self.shard.full_for.load(Ordering::Relaxed) > 0
    }

    /// The log thread found so much room.
    pub fn has_room(&self, bytes: usize) {
        let wanted = self.shard.full_for.load(Ordering::Relaxed);
        if wanted > 0 && wanted <= bytes as u64 {
            let full_for = &self.shard.full_for;
            // Where that fails the shard was there just now.
            let _tried = full_for.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How many were shed so far, and when those since the last record that was taken; whatever
    /// was handed over before the last of them is visible then. The times may be of one more.
    pub fn shed(&self) -> Span {
        let shard = &self.shard;
        Span {
            records: shard.shed.load(Ordering::Acquire),
            since_ms: shard.shed_since_ms.load(Ordering::Acquire),
            through_ms: shard.shed_through_ms.load(Ordering::Acquire),
        }
    }

    pub fn count(&self, counters: &mut Counters) {
        counters.refused_full += self.shard.refused_full.read();
        counters.refused_state += self.shard.refused_state.read();
        counters.too_long += self.shard.too_long.read();
        counters.shed += self.shard.shed.load(Ordering::Relaxed);
        counters.ring_bytes_high = counters.ring_bytes_high.max(self.log.bytes_high.read());
    }
}

/// What the shard writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ShardSide {
    /// Records that were taken.
    pub accepted: Count,
    pub refused_full: Count,
    pub refused_state: Count,
    pub too_long: Count,
    /// Records that were left out.
    pub shed: AtomicU64,
    /// The earliest and the latest time of those since the last record that was taken.
    pub shed_since_ms: AtomicU64,
    pub shed_through_ms: AtomicU64,
    /// Bytes for which there was no room; the log thread puts it back to 0 when there is.
    pub full_for: AtomicU64,
}

/// What the log thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LogSide {
    /// Records that are durable.
    pub durable: AtomicU64,
    pub wake_at: WakeAt,
    pub bytes_high: Count,
}

#[derive(Debug)]
pub(super) struct LaneShared {
    kind: LaneKind,
    state: AtomicU64,
    sequence: AtomicU64,
    keep_from: AtomicU64,
    pub counts: Counts,
    meter: Arc<SyncMeter>,
    /// Taken to add a ring, and by whoever asks; never by a shard, nor by the log thread.
    rings: Mutex<Vec<Arc<RingShared>>>,
}

impl LaneShared {
    pub fn new(kind: LaneKind, sequence: u64, meter: Arc<SyncMeter>) -> Self {
        // Nothing goes that somebody might still need. Of the firehose nobody needs anything.
        let keep_from = match kind {
            LaneKind::Durable => 0,
            LaneKind::Firehose => u64::MAX,
        };
        Self {
            kind,
            state: AtomicU64::new(State::Writing.pack()),
            sequence: AtomicU64::new(sequence),
            keep_from: AtomicU64::new(keep_from),
            counts: Counts::default(),
            meter,
            rings: Mutex::new(Vec::new()),
        }
    }

    /// The lane's own, which no ring is part of.
    pub fn state(&self) -> State {
        State::unpack(self.state.load(Ordering::Acquire))
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state.pack(), Ordering::Release);
    }

    pub fn set_sequence(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Release);
    }

    pub fn keep_from(&self) -> u64 {
        self.keep_from.load(Ordering::Acquire)
    }

    pub fn add(&self, ring: Arc<RingShared>) {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
    }
}

/// A lane, for whoever asks of it. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Lane(pub(super) Arc<LaneShared>);

impl Lane {
    /// Which of the two.
    pub fn kind(&self) -> LaneKind {
        self.0.kind
    }

    /// Whether it is written. A shard asks its ring, which knows sooner of its own room.
    pub fn state(&self) -> State {
        let full = |ring: &Arc<RingShared>| ring.is_full();
        match self.0.state() {
            State::Writing if self.rings(|rings| rings.iter().any(full)) => State::Full,
            state => state,
        }
    }

    /// The last durable sequence. A record that is handed over after this was read gets a higher one.
    pub fn sequence(&self) -> u64 {
        self.0.sequence.load(Ordering::Acquire)
    }

    /// Records from `sequence` on are needed, whatever the retention says; at first all are in the
    /// durable lane and none in the firehose. One owner sets it.
    pub fn keep_from(&self, sequence: u64) {
        self.0.keep_from.store(sequence, Ordering::Release);
    }

    /// What was counted. Numbers of the same moment only as nearly as threads go on meanwhile.
    pub fn counters(&self) -> Counters {
        let counts = &self.0.counts;
        let mut counters = Counters {
            records: counts.records.read(),
            by_class: counts.by_class.each_ref().map(Count::read),
            disk_lost: counts.disk_lost.read(),
            bytes: counts.bytes.read(),
            commits: counts.commits.read(),
            commit_failures: counts.commit_failures.read(),
            gaps: counts.gaps.read(),
            lost: counts.lost.read(),
            retention_failures: counts.retention_failures.read(),
            removed_bytes: counts.removed_bytes.read(),
            segments: counts.segments.read(),
            syncs: self.0.meter.syncs(),
            sync_time: self.0.meter.time(),
            ..Counters::default()
        };
        self.rings(|rings| rings.iter().for_each(|ring| ring.count(&mut counters)));
        counters
    }

    fn rings<T>(&self, ask: impl FnOnce(&[Arc<RingShared>]) -> T) -> T {
        ask(&self.0.rings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

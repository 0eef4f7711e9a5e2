//! What any thread may ask of a lane: whether it is written, and its counters.
//!
//! Owns the words that the log thread and the shards share. Each has one writer, and reading never
//! waits.

mod claims;
mod watch;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::LaneKind;
use super::gap::RecordSpan;
use super::waker::WakeThreshold;
use crate::disk::SyncMeter;

pub use claims::RetentionClaim;
use claims::RetentionClaims;
pub use watch::LaneWatch;
use watch::LaneWatches;

/// Why a lane cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneFailure {
    /// The disk or the user's quota is full.
    DiskFull,
    /// Any other error of the file system.
    Disk,
}

impl LaneFailure {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Disk,
        }
    }

    /// Its words in a message.
    pub const fn text(self) -> &'static str {
        match self {
            Self::DiskFull => "its disk is full",
            Self::Disk => "its disk fails",
        }
    }
}

/// Whether a lane takes records. Order is precedence: the first that applies is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The log is being closed, or its thread has ended.
    Closed,
    /// The last commit failed, and none has succeeded since.
    Failing {
        /// The cause.
        cause: LaneFailure,
        /// When the first commit failed, in Unix milliseconds.
        since_ms: u64,
    },
    /// A ring had no room for a record, and still has none.
    Full,
    /// Records are taken and made durable.
    Writing,
}

/// Packed into one word: two bits for the state, one for the cause, the rest for the time.
impl LaneState {
    const CAUSE_SHIFT: u32 = 2;
    const TIME_SHIFT: u32 = 3;

    const fn pack(self) -> u64 {
        match self {
            Self::Writing | Self::Full => 0,
            Self::Failing { cause, since_ms } => {
                let cause = matches!(cause, LaneFailure::DiskFull) as u64;
                1 | cause << Self::CAUSE_SHIFT | since_ms << Self::TIME_SHIFT
            }
            Self::Closed => 2,
        }
    }

    const fn unpack(word: u64) -> Self {
        let full = word >> Self::CAUSE_SHIFT & 1 == 1;
        let cause = if full { LaneFailure::DiskFull } else { LaneFailure::Disk };
        match word & 3 {
            0 => Self::Writing,
            1 => Self::Failing { cause, since_ms: word >> Self::TIME_SHIFT },
            _ => Self::Closed,
        }
    }
}

/// A counter with a single writer.
#[derive(Debug, Default)]
pub(super) struct LaneCounter(AtomicU64);

impl LaneCounter {
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

/// The log thread's counters of a lane.
#[derive(Debug, Default)]
pub(super) struct LogThreadCounts {
    pub records: LaneCounter,
    pub by_class: [LaneCounter; CLASSES],
    pub disk_lost: LaneCounter,
    pub bytes: LaneCounter,
    pub commits: LaneCounter,
    pub commit_failures: LaneCounter,
    pub gaps: LaneCounter,
    pub lost: LaneCounter,
    pub retention_failures: LaneCounter,
    pub removed_bytes: LaneCounter,
    pub segments: LaneCounter,
}

/// Counters of a lane since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Committed records, without gaps.
    pub records: u64,
    /// The same by the class they were offered with; the durable lane uses class 0.
    pub by_class: [u64; CLASSES],
    /// Records that were written and lost by a failing disk before their commit.
    pub disk_lost: u64,
    /// Bytes of committed payloads.
    pub bytes: u64,
    /// Successful commits.
    pub commits: u64,
    /// Failed writes and commits.
    pub commit_failures: u64,
    /// Records refused because a ring of the durable lane was full.
    pub refused_full: u64,
    /// Records refused because the durable lane was failing, or either lane closed.
    pub refused_state: u64,
    /// Records refused or shed because they are longer than their ring.
    pub too_long: u64,
    /// Records shed by the firehose's rings.
    pub shed: u64,
    /// Committed gaps.
    pub gaps: u64,
    /// Records that these gaps stand for: in the end those shed, and those a failing disk lost.
    pub lost: u64,
    /// Calls of `fdatasync`.
    pub syncs: u64,
    /// Total time of these calls.
    pub sync_time: Duration,
    /// The most bytes ever found in a ring.
    pub ring_bytes_high: u64,
    /// Failed attempts to remove old segments.
    pub retention_failures: u64,
    /// Bytes of removed segments.
    pub removed_bytes: u64,
    /// Number of segments.
    pub segments: u64,
}

/// Number of classes by which the firehose's records are counted.
pub const CLASSES: usize = 4;

/// What both ends of a ring share; each side's words have cache lines of their own.
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

    /// The log thread found this much room.
    pub fn has_room(&self, bytes: usize) {
        let wanted = self.shard.full_for.load(Ordering::Relaxed);
        if wanted > 0 && wanted <= bytes as u64 {
            let full_for = &self.shard.full_for;
            // If this fails, the shard has just written it.
            let _tried = full_for.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records shed so far, and the times of those since the last accepted record. Every record
    /// accepted before the last of them is visible afterwards. The times may cover one record more.
    pub fn shed(&self) -> RecordSpan {
        let shard = &self.shard;
        RecordSpan {
            records: shard.shed.load(Ordering::Acquire),
            since_ms: shard.shed_since_ms.load(Ordering::Acquire),
            through_ms: shard.shed_through_ms.load(Ordering::Acquire),
        }
    }

    pub fn count(&self, counters: &mut LaneCounters) {
        counters.refused_full += self.shard.refused_full.read();
        counters.refused_state += self.shard.refused_state.read();
        counters.too_long += self.shard.too_long.read();
        counters.shed += self.shard.shed.load(Ordering::Relaxed);
        counters.ring_bytes_high = counters.ring_bytes_high.max(self.log.bytes_high.read());
    }
}

/// Written by the shard.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ShardSide {
    /// Accepted records.
    pub accepted: LaneCounter,
    pub refused_full: LaneCounter,
    pub refused_state: LaneCounter,
    pub too_long: LaneCounter,
    pub shed: AtomicU64,
    /// Times of the records shed since the last accepted one.
    pub shed_since_ms: AtomicU64,
    pub shed_through_ms: AtomicU64,
    /// Size of a record for which there was no room; the log thread resets it to 0 when there is.
    pub full_for: AtomicU64,
}

/// Written by the log thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LogSide {
    /// Durable records.
    pub durable: AtomicU64,
    pub wake_at: WakeThreshold,
    pub bytes_high: LaneCounter,
}

#[derive(Debug)]
pub(super) struct LaneShared {
    kind: LaneKind,
    state: AtomicU64,
    sequence: AtomicU64,
    epoch: AtomicU64,
    claims: RetentionClaims,
    pub watches: Arc<LaneWatches>,
    pub counts: LogThreadCounts,
    meter: Arc<SyncMeter>,
    /// Locked to add or remove a ring and to read the counters; never by a shard.
    rings: Mutex<LaneRings>,
}

#[derive(Debug, Default)]
struct LaneRings {
    open: Vec<Arc<RingShared>>,
    /// The counters of rings that were removed.
    removed: LaneCounters,
}

impl LaneShared {
    pub fn new(kind: LaneKind, epoch: u64, sequence: u64, meter: Arc<SyncMeter>) -> Self {
        Self {
            kind,
            state: AtomicU64::new(LaneState::Writing.pack()),
            sequence: AtomicU64::new(sequence),
            epoch: AtomicU64::new(epoch),
            claims: RetentionClaims::default(),
            watches: Arc::default(),
            counts: LogThreadCounts::default(),
            meter,
            rings: Mutex::default(),
        }
    }

    /// The lane's own state, apart from its rings.
    pub fn state(&self) -> LaneState {
        LaneState::unpack(self.state.load(Ordering::Acquire))
    }

    pub fn set_state(&self, state: LaneState) {
        self.state.store(state.pack(), Ordering::Release);
    }

    pub fn set_sequence(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Release);
    }

    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    pub fn keep_from(&self) -> u64 {
        self.claims.keep_from()
    }

    pub fn add(&self, ring: Arc<RingShared>) {
        self.rings().open.push(ring);
    }

    /// Removes a ring that both ends have left; its counts remain.
    pub fn remove(&self, ring: &Arc<RingShared>) {
        let mut rings = self.rings();
        ring.count(&mut rings.removed);
        rings.open.retain(|other| !Arc::ptr_eq(other, ring));
    }

    fn rings(&self) -> MutexGuard<'_, LaneRings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to a lane, cheap to clone.
#[derive(Clone, Debug)]
pub struct LaneHandle(pub(super) Arc<LaneShared>);

impl LaneHandle {
    /// Which lane it is.
    pub fn kind(&self) -> LaneKind {
        self.0.kind
    }

    /// Whether the lane is written. A shard asks its ring instead, which knows its own room sooner.
    pub fn state(&self) -> LaneState {
        let full = |ring: &Arc<RingShared>| ring.is_full();
        match self.0.state() {
            LaneState::Writing if self.0.rings().open.iter().any(full) => LaneState::Full,
            state => state,
        }
    }

    /// The last durable sequence. A record handed over after this call gets a higher one.
    pub fn sequence(&self) -> u64 {
        self.0.sequence.load(Ordering::Acquire)
    }

    /// The epoch of new records.
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Protects all records from retention until [`RetentionClaim::keep_from`] gives some away.
    /// Each owner makes its own claim before it reads what it needs.
    pub fn protect(&self) -> RetentionClaim {
        self.0.claims.claim()
    }

    /// Calls `wake` on the log thread after each write that a reader of the files may see: of the
    /// durable lane after its commit. It must neither block nor panic.
    pub fn watch(&self, wake: impl Fn() + Send + Sync + 'static) -> LaneWatch {
        LaneWatches::add(&self.0.watches, Box::new(wake))
    }

    /// The counters, not an atomic snapshot.
    pub fn counters(&self) -> LaneCounters {
        let counts = &self.0.counts;
        let rings = self.0.rings();
        let mut counters = LaneCounters {
            records: counts.records.read(),
            by_class: counts.by_class.each_ref().map(LaneCounter::read),
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
            ..rings.removed
        };
        rings.open.iter().for_each(|ring| ring.count(&mut counters));
        counters
    }
}

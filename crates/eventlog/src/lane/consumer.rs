//! The log thread's end of a ring: passes its records to the writer and keeps them until they are
//! written.
//!
//! Owns a ring's records and gaps in the log, and the events for its owner. The lane's writer
//! decides when.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::GapFormat;
use super::gap::RecordSpan;
use super::ring::{HEADER_BYTES, LaneEvent, LaneListener, RingPosition};
use super::status::{CLASSES, LogThreadCounts, RingShared};
use crate::disk::Disk;
use crate::interleaving::meanwhile;
use crate::segment::{u32_at, u64_at};
use crate::writer::{AppendError, LogWriter};

/// Records of a ring that are in the writer's batch, or written and not yet durable.
#[derive(Clone, Copy, Debug, Default)]
struct RingBatch {
    /// Bytes of the ring.
    bytes: usize,
    records: u64,
    by_class: [u64; CLASSES],
    payload_bytes: u64,
    gaps: u64,
    /// Records that these gaps stand for.
    lost: u64,
    /// The records and those of the gaps: what is missing if this is lost.
    all: RecordSpan,
    /// Of the last record.
    sequence: u64,
}

impl RingBatch {
    fn add(&mut self, more: &Self) {
        self.bytes += more.bytes;
        self.records += more.records;
        for (sum, more) in self.by_class.iter_mut().zip(more.by_class) {
            *sum += more;
        }
        self.payload_bytes += more.payload_bytes;
        self.gaps += more.gaps;
        self.lost += more.lost;
        self.all.add(more.all);
        if more.records > 0 {
            self.sequence = more.sequence;
        }
    }
}

pub(super) struct RingConsumer {
    shard: u32,
    bytes: rtrb::Consumer<u8>,
    shared: Arc<RingShared>,
    listener: Option<LaneListener>,
    /// Bytes removed from the ring.
    released: u64,
    /// Records removed from the ring.
    position: u64,
    /// Bytes in the ring at the last poll.
    waiting: usize,
    /// Records shed at the last poll, after those in `waiting`.
    shed: RecordSpan,
    /// Shed records whose gaps are written.
    shed_reported: RecordSpan,
    /// Written records that the disk lost and no gap reports yet.
    lost_unreported: RecordSpan,
    /// In the writer's batch, and still in the ring.
    taken: RingBatch,
    /// The next `shed_reported`, once `taken` is written.
    shed_taken: RecordSpan,
    /// Written, and not durable.
    unsynced: RingBatch,
}

impl RingConsumer {
    pub fn new(
        shard: u32,
        bytes: rtrb::Consumer<u8>,
        shared: Arc<RingShared>,
        listener: Option<LaneListener>,
    ) -> Self {
        Self {
            shard,
            bytes,
            shared,
            listener,
            released: 0,
            position: 0,
            waiting: 0,
            shed: RecordSpan::default(),
            shed_reported: RecordSpan::default(),
            lost_unreported: RecordSpan::default(),
            taken: RingBatch::default(),
            shed_taken: RecordSpan::default(),
            unsynced: RingBatch::default(),
        }
    }

    /// Updates `shed` and `waiting`; returns the latter.
    pub fn poll(&mut self) -> usize {
        // In this order: `waiting` then covers everything before the last shed record.
        self.shed = self.shared.shed();
        meanwhile();
        self.waiting = self.bytes.slots();
        self.shared.log.bytes_high.raise(self.waiting as u64);
        self.shared.has_room(self.shared.capacity - self.waiting);
        self.waiting
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    pub fn taken(&self) -> usize {
        self.taken.bytes
    }

    /// Whether there was anything to write at the last poll.
    pub fn has_work(&self) -> bool {
        self.waiting > 0 || self.has_gap_to_write()
    }

    fn has_gap_to_write(&self) -> bool {
        self.lost_unreported.records > 0 || self.shed.records > self.shed_reported.records
    }

    /// Whether the shard has dropped its end, and all that it left is durable. Call it right after
    /// a commit.
    pub fn is_over(&mut self) -> bool {
        if !self.bytes.is_abandoned() {
            return false;
        }
        self.poll();
        !self.has_work()
    }

    pub fn shared(&self) -> &Arc<RingShared> {
        &self.shared
    }

    pub fn is_half_full(&self) -> bool {
        self.waiting >= self.shared.capacity / 2
    }

    /// The shard wakes the log thread at this many bytes, or when half of the ring is filled.
    pub fn wake_at(&self, bytes: usize) {
        let bytes = bytes.min(self.shared.capacity / 2) as u64;
        self.shared.log.wake_at.set(self.released + bytes);
    }

    /// The shard does not wake the thread.
    pub fn let_sleep(&self) {
        self.shared.log.wake_at.set(u64::MAX);
    }

    /// Appends what the last poll found, up to about `bytes_max`. Returns whether the writer's
    /// batch had room.
    pub fn take<D: Disk>(&mut self, context: AppendContext<'_, D>, bytes_max: usize) -> bool {
        let mut taking = RingDrain {
            context,
            shard: self.shard,
            lost_unreported: self.lost_unreported,
            shed: self.shed_reported,
            part: RingBatch::default(),
        };
        let chunk = self.bytes.read_chunk(self.waiting).expect("what was seen is still there");
        let (one, two) = chunk.as_slices();
        let content = RingSlices { one, two };
        let mut fits = true;
        while fits && taking.part.bytes < self.waiting.min(bytes_max) {
            fits = taking.record(content).is_ok();
        }
        if fits && taking.part.bytes == self.waiting {
            fits = taking.gap(self.shed).is_ok();
        }
        (self.taken, self.shed_taken) = (taking.part, taking.shed);
        fits
    }

    /// Removes from the ring what is written.
    pub fn release(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.shared.log.bytes_high.raise(self.bytes.slots() as u64);
        self.bytes.read_chunk(taken.bytes).expect("what was taken is still there").commit_all();
        self.released += taken.bytes as u64;
        self.waiting -= taken.bytes;
        self.position += taken.records;
        if taken.gaps > 0 {
            self.lost_unreported = RecordSpan::default();
        }
        self.shed_reported = self.shed_taken;
        self.unsynced.add(&taken);
    }

    /// Acknowledges what is durable.
    pub fn acknowledge(&mut self, counts: &LogThreadCounts) {
        let synced = std::mem::take(&mut self.unsynced);
        counts.records.add(synced.records);
        for (count, records) in counts.by_class.iter().zip(synced.by_class) {
            count.add(records);
        }
        counts.bytes.add(synced.payload_bytes);
        counts.gaps.add(synced.gaps);
        counts.lost.add(synced.lost);
        if synced.records == 0 {
            return;
        }
        self.shared.log.durable.store(self.position, Ordering::Release);
        self.notify(LaneEvent::Durable {
            through: RingPosition(self.position),
            records: synced.records,
            sequence: synced.sequence,
        });
    }

    /// Forgets what was written and lost. What was only taken stays in the ring.
    pub fn mark_lost(&mut self, counts: &LogThreadCounts) {
        self.taken = RingBatch::default();
        let lost = std::mem::take(&mut self.unsynced);
        counts.disk_lost.add(lost.records);
        self.lost_unreported.add(lost.all);
    }

    pub fn notify(&mut self, event: LaneEvent) {
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }

    /// Accepted records that are neither durable nor reported as lost.
    pub fn pending(&self) -> u64 {
        let accepted = self.shared.shard.accepted.read();
        (accepted + self.unsynced.records).saturating_sub(self.position)
    }
}

/// Where a ring's records are appended.
pub(super) struct AppendContext<'a, D: Disk> {
    pub writer: &'a mut LogWriter<D>,
    pub gaps: GapFormat,
    /// Time of gaps.
    pub unix_ms: u64,
    pub scratch: &'a mut Vec<u8>,
}

/// One ring's records on their way into the batch.
struct RingDrain<'a, D: Disk> {
    context: AppendContext<'a, D>,
    shard: u32,
    /// Lost by the disk, until a gap reports it.
    lost_unreported: RecordSpan,
    /// Shed records that gaps report.
    shed: RecordSpan,
    part: RingBatch,
}

impl<D: Disk> RingDrain<'_, D> {
    /// Appends the next record of the ring, after a gap if one is due before it.
    fn record(&mut self, content: RingSlices<'_>) -> Result<(), BatchFull> {
        let at = self.part.bytes;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(content.get(at..at + HEADER_BYTES, self.context.scratch));
        let bytes = usize::try_from(u32_at(&header, 0)).expect("a ring's record fits memory");
        let [time_ms, records, since_ms, through_ms] =
            [8, 16, 24, 32].map(|at| u64_at(&header, at));
        self.gap(RecordSpan { records, since_ms, through_ms })?;
        let start = at + HEADER_BYTES;
        let payload = content.get(start..start + bytes, self.context.scratch);
        let sequence = append(self.context.writer, header[4], time_ms, payload)?;
        let mut by_class = [0; CLASSES];
        by_class[usize::from(header[5])] = 1;
        self.part.add(&RingBatch {
            bytes: HEADER_BYTES + bytes,
            records: 1,
            by_class,
            payload_bytes: bytes as u64,
            all: RecordSpan::one(time_ms),
            sequence,
            ..RingBatch::default()
        });
        Ok(())
    }

    /// Appends a gap for records shed up to `shed` and records the disk lost, if there are any.
    fn gap(&mut self, shed: RecordSpan) -> Result<(), BatchFull> {
        // Records shed during the poll may be reported already.
        let records = shed.records.saturating_sub(self.shed.records);
        let mut lost = self.lost_unreported;
        lost.add(RecordSpan { records, ..shed });
        if lost.records == 0 {
            return Ok(());
        }
        let AppendContext { writer, gaps, unix_ms, scratch } = &mut self.context;
        scratch.clear();
        (gaps.encode)(&lost.gap(self.shard), scratch);
        append(writer, gaps.kind, *unix_ms, scratch)?;
        let records = lost.records;
        self.part.add(&RingBatch { gaps: 1, lost: records, all: lost, ..RingBatch::default() });
        self.lost_unreported = RecordSpan::default();
        if shed.records > self.shed.records {
            self.shed = shed;
        }
        Ok(())
    }
}

fn append<D: Disk>(
    writer: &mut LogWriter<D>,
    kind: u8,
    time_ms: u64,
    payload: &[u8],
) -> Result<u64, BatchFull> {
    writer.append(kind, time_ms, payload).map_err(|error| match error {
        AppendError::BatchFull => BatchFull,
        AppendError::TooLong { .. } => {
            unreachable!("neither a ring nor a gap has a longer payload")
        }
    })
}

/// The writer's batch has no room.
struct BatchFull;

/// The contents of a ring, which may wrap around.
#[derive(Clone, Copy)]
struct RingSlices<'a> {
    one: &'a [u8],
    two: &'a [u8],
}

impl<'a> RingSlices<'a> {
    /// A range of it, assembled in `scratch` if it wraps around.
    fn get<'b>(self, range: Range<usize>, scratch: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        let middle = self.one.len();
        if range.end <= middle {
            return &self.one[range];
        }
        if range.start >= middle {
            return &self.two[range.start - middle..range.end - middle];
        }
        scratch.clear();
        scratch.extend_from_slice(&self.one[range.start..]);
        scratch.extend_from_slice(&self.two[..range.end - middle]);
        scratch
    }
}

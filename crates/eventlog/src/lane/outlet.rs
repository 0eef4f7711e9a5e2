//! The log thread's end of a ring: hands its records to the writer, and keeps them until they are
//! written.
//!
//! Owns what a ring's records become in the log, gaps among them, and what its owner is told. When
//! that happens is `scribe`'s to say.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::GapFormat;
use super::gap::Span;
use super::ring::{HEADER_BYTES, Position, Tell, Told};
use super::status::{CLASSES, Counts, RingShared};
use crate::bug::{Bug, meanwhile, planted};
use crate::disk::Disk;
use crate::segment::{u32_at, u64_at};
use crate::writer::{AppendError, Writer};

/// What of a ring is in the writer's batch, or stands in the file and is not durable.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Bytes of the ring.
    bytes: usize,
    records: u64,
    by_class: [u64; CLASSES],
    payload_bytes: u64,
    gaps: u64,
    /// Records that these gaps tell of.
    lost: u64,
    /// Those, and its own: what is missing if this is lost.
    all: Span,
    /// Of the last record.
    sequence: u64,
}

impl Part {
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

/// The log thread's end of a ring.
pub(super) struct Outlet {
    shard: u32,
    bytes: rtrb::Consumer<u8>,
    shared: Arc<RingShared>,
    tell: Option<Tell>,
    /// Bytes that were taken out.
    released: u64,
    /// Records that were taken out.
    position: u64,
    /// Bytes in the ring, as last seen.
    waiting: usize,
    /// Records shed, as last seen: after those that wait.
    shed: Span,
    /// Records shed of which gaps tell that were written.
    shed_told: Span,
    /// Written records that the disk lost, of which no gap tells yet.
    owed: Span,
    /// In the writer's batch; the ring holds it still.
    taken: Part,
    /// `shed_told`, once what was taken is written.
    shed_taken: Span,
    /// Written, and not durable.
    unsynced: Part,
}

impl Outlet {
    pub fn new(
        shard: u32,
        bytes: rtrb::Consumer<u8>,
        shared: Arc<RingShared>,
        tell: Option<Tell>,
    ) -> Self {
        Self {
            shard,
            bytes,
            shared,
            tell,
            released: 0,
            position: 0,
            waiting: 0,
            shed: Span::default(),
            shed_told: Span::default(),
            owed: Span::default(),
            taken: Part::default(),
            shed_taken: Span::default(),
            unsynced: Part::default(),
        }
    }

    /// Looks at what is there now, and tells how many bytes wait.
    pub fn look(&mut self) -> usize {
        // In this order: what waits then holds all that came before the last that was shed.
        self.shed = self.shared.shed();
        meanwhile();
        self.waiting = self.bytes.slots();
        self.shared.log.bytes_high.raise(self.waiting as u64);
        self.shared.has_room(self.shared.capacity - self.waiting);
        self.waiting
    }

    /// Bytes that wait, as last seen.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of it that are in the writer's batch.
    pub fn taken(&self) -> usize {
        self.taken.bytes
    }

    /// Whether there is something to write, as last seen.
    pub fn waits(&self) -> bool {
        self.waiting > 0 || self.owes_gap()
    }

    fn owes_gap(&self) -> bool {
        self.owed.records > 0 || self.shed.records > self.shed_told.records
    }

    /// Whether it is half full, as last seen.
    pub fn is_half_full(&self) -> bool {
        self.waiting >= self.shared.capacity / 2
    }

    /// The shard is to wake the log thread when so many bytes wait, or when half of the ring does.
    pub fn wake_at(&self, bytes: usize) {
        let bytes = bytes.min(self.shared.capacity / 2) as u64;
        self.shared.log.wake_at.set(self.released + bytes);
    }

    /// The shard is to wake nobody.
    pub fn let_sleep(&self) {
        self.shared.log.wake_at.set(u64::MAX);
    }

    /// Appends what was last seen, or about `bytes_max` of it, and tells whether the writer's
    /// batch had room.
    pub fn take<D: Disk>(&mut self, desk: Desk<'_, D>, bytes_max: usize) -> bool {
        let mut taking = Taking {
            desk,
            shard: self.shard,
            owed: self.owed,
            shed: self.shed_told,
            part: Part::default(),
        };
        let chunk = self.bytes.read_chunk(self.waiting).expect("what was seen is still there");
        let (one, two) = chunk.as_slices();
        let content = Content { one, two };
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

    /// A planted bug: what was taken is not durable, nor even written.
    pub fn acknowledge_taken(&self) {
        self.shared.log.durable.store(self.position + self.taken.records, Ordering::Release);
    }

    /// What was taken is written: it leaves the ring.
    pub fn release(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.shared.log.bytes_high.raise(self.bytes.slots() as u64);
        self.bytes.read_chunk(taken.bytes).expect("what was taken is still there").commit_all();
        self.released += taken.bytes as u64;
        self.waiting -= taken.bytes;
        self.position += taken.records;
        if taken.gaps > 0 {
            self.owed = Span::default();
        }
        self.shed_told = self.shed_taken;
        self.unsynced.add(&taken);
    }

    /// What was written is durable.
    pub fn acknowledge(&mut self, counts: &Counts) {
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
        self.tell(Told::Durable {
            through: Position(self.position),
            records: synced.records,
            sequence: synced.sequence,
        });
    }

    /// What was written is lost, and what was taken was not written: that stays in the ring.
    pub fn lose(&mut self, counts: &Counts) {
        if planted(Bug::LoseRetained) {
            return self.release();
        }
        self.taken = Part::default();
        let lost = std::mem::take(&mut self.unsynced);
        counts.disk_lost.add(lost.records);
        if !planted(Bug::ForgetGap) {
            self.owed.add(lost.all);
        }
        if planted(Bug::RepeatGap) {
            self.owed.records += lost.lost;
        }
    }

    pub fn tell(&mut self, told: Told) {
        if let Some(tell) = &mut self.tell {
            tell(told);
        }
    }

    /// Records that were handed over and are not durable, nor told to be lost.
    pub fn left(&self) -> u64 {
        let accepted = self.shared.shard.accepted.read();
        (accepted + self.unsynced.records).saturating_sub(self.position)
    }
}

/// Where records are put.
pub(super) struct Desk<'a, D: Disk> {
    pub writer: &'a mut Writer<D>,
    pub gaps: GapFormat,
    /// When gaps are told.
    pub unix_ms: u64,
    pub scratch: &'a mut Vec<u8>,
}

/// What is appended of one ring.
struct Taking<'a, D: Disk> {
    desk: Desk<'a, D>,
    shard: u32,
    /// Lost by the disk, until a gap tells of it.
    owed: Span,
    /// Shed, as far as gaps tell of it.
    shed: Span,
    part: Part,
}

impl<D: Disk> Taking<'_, D> {
    /// The next record of the ring, behind a gap when there is one before it.
    fn record(&mut self, content: Content<'_>) -> Result<(), BatchFull> {
        let at = self.part.bytes;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(content.get(at..at + HEADER_BYTES, self.desk.scratch));
        let bytes = usize::try_from(u32_at(&header, 0)).expect("a ring's record fits memory");
        let [time_ms, records, since_ms, through_ms] =
            [8, 16, 24, 32].map(|at| u64_at(&header, at));
        self.gap(Span { records, since_ms, through_ms })?;
        let start = at + HEADER_BYTES;
        let payload = content.get(start..start + bytes, self.desk.scratch);
        let sequence = append(self.desk.writer, (header[4], time_ms), payload)?;
        let mut by_class = [0; CLASSES];
        by_class[usize::from(header[5])] = 1;
        self.part.add(&Part {
            bytes: HEADER_BYTES + bytes,
            records: 1,
            by_class,
            payload_bytes: bytes as u64,
            all: Span::one(time_ms),
            sequence,
            ..Part::default()
        });
        Ok(())
    }

    /// A gap that tells of all that had been shed then, and of what the disk lost.
    fn gap(&mut self, shed: Span) -> Result<(), BatchFull> {
        // What was shed while the ring was looked at may be told already.
        let records = shed.records.saturating_sub(self.shed.records);
        let mut lost = self.owed;
        lost.add(Span { records, ..shed });
        if lost.records == 0 {
            return Ok(());
        }
        let Desk { writer, gaps, unix_ms, scratch } = &mut self.desk;
        scratch.clear();
        (gaps.encode)(&lost.gap(self.shard), scratch);
        append(writer, (gaps.kind, *unix_ms), scratch)?;
        let records = lost.records;
        self.part.add(&Part { gaps: 1, lost: records, all: lost, ..Part::default() });
        self.owed = Span::default();
        if shed.records > self.shed.records {
            self.shed = shed;
        }
        Ok(())
    }
}

fn append<D: Disk>(
    writer: &mut Writer<D>,
    (kind, time_ms): (u8, u64),
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

/// What is in a ring, which may go round its end.
#[derive(Clone, Copy)]
struct Content<'a> {
    one: &'a [u8],
    two: &'a [u8],
}

impl<'a> Content<'a> {
    /// A part of it, put together in `scratch` where it goes round the end.
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

//! The log thread's end of a ring: hands its records to the writer, and keeps them until they are
//! written.
//!
//! Owns what a ring's records become in the log, gaps among them, and what its owner is told. When
//! that happens is `scribe`'s to say.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ring::{HEADER_BYTES, Position, RingShared, Tell, Told};
use super::status::Counts;
use super::{GAP_KIND, Gap};
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
    payload_bytes: u64,
    gaps: u64,
    /// Records that these gaps tell of.
    lost: u64,
    /// Of the last record.
    sequence: u64,
}

impl Part {
    fn add(&mut self, more: &Self) {
        self.bytes += more.bytes;
        self.records += more.records;
        self.payload_bytes += more.payload_bytes;
        self.gaps += more.gaps;
        self.lost += more.lost;
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
    shed: u64,
    /// Records shed of which gaps tell that were written.
    shed_told: u64,
    /// Written records that the disk lost, of which no gap tells yet.
    owed: u64,
    /// In the writer's batch; the ring holds it still.
    taken: Part,
    /// `shed_told`, once what was taken is written.
    shed_taken: u64,
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
            shed: 0,
            shed_told: 0,
            owed: 0,
            taken: Part::default(),
            shed_taken: 0,
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
        self.owed > 0 || self.shed > self.shed_told
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
    pub fn take<D: Disk>(
        &mut self,
        writer: &mut Writer<D>,
        scratch: &mut Vec<u8>,
        (unix_ms, bytes_max): (u64, usize),
    ) -> bool {
        let mut taking = Taking {
            writer,
            shard: self.shard,
            unix_ms,
            owed: self.owed,
            shed: self.shed_told,
            part: Part::default(),
        };
        let chunk = self.bytes.read_chunk(self.waiting).expect("what was seen is still there");
        let (one, two) = chunk.as_slices();
        let content = Content { one, two };
        let mut fits = true;
        while fits && taking.part.bytes < self.waiting.min(bytes_max) {
            fits = taking.record(content, scratch).is_ok();
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
            self.owed = 0;
        }
        self.shed_told = self.shed_taken;
        self.unsynced.add(&taken);
    }

    /// What was written is durable.
    pub fn acknowledge(&mut self, counts: &Counts) {
        let synced = std::mem::take(&mut self.unsynced);
        counts.records.add(synced.records);
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
    pub fn lose(&mut self) {
        if planted(Bug::LoseRetained) {
            return self.release();
        }
        self.taken = Part::default();
        let lost = std::mem::take(&mut self.unsynced);
        if !planted(Bug::ForgetGap) {
            self.owed += lost.records + lost.lost;
        }
        if planted(Bug::RepeatGap) {
            self.owed += lost.lost;
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

/// What is appended of one ring.
struct Taking<'a, D: Disk> {
    writer: &'a mut Writer<D>,
    shard: u32,
    unix_ms: u64,
    /// Lost by the disk, until a gap tells of it.
    owed: u64,
    /// Shed, as far as gaps tell of it.
    shed: u64,
    part: Part,
}

impl<D: Disk> Taking<'_, D> {
    /// The next record of the ring, behind a gap when there is one before it.
    fn record(&mut self, content: Content<'_>, scratch: &mut Vec<u8>) -> Result<(), BatchFull> {
        let at = self.part.bytes;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(content.get(at..at + HEADER_BYTES, scratch));
        let bytes = usize::try_from(u32_at(&header, 0)).expect("a ring's record fits memory");
        self.gap(u64_at(&header, 16))?;
        let start = at + HEADER_BYTES;
        let payload = content.get(start..start + bytes, scratch);
        let sequence = self.append(header[4], u64_at(&header, 8), payload)?;
        self.part.bytes = start + bytes;
        self.part.records += 1;
        self.part.payload_bytes += payload.len() as u64;
        self.part.sequence = sequence;
        Ok(())
    }

    /// A gap that tells of all that was shed when `shed` had been, and of what the disk lost.
    fn gap(&mut self, shed: u64) -> Result<(), BatchFull> {
        // What was shed while the ring was looked at may be told already.
        let lost = self.owed + shed.saturating_sub(self.shed);
        if lost == 0 {
            return Ok(());
        }
        let gap = Gap { shard: self.shard, lost };
        self.append(GAP_KIND, self.unix_ms, &gap.encode())?;
        self.part.gaps += 1;
        self.part.lost += lost;
        (self.owed, self.shed) = (0, self.shed.max(shed));
        Ok(())
    }

    fn append(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> Result<u64, BatchFull> {
        self.writer.append(kind, time_ms, payload).map_err(|error| match error {
            AppendError::BatchFull => BatchFull,
            AppendError::TooLong { .. } => unreachable!("a ring takes no longer payload"),
        })
    }
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

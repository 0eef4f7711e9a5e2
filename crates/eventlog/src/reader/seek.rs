//! Where a reader starts that wants only later records: by the segments' names and indexes.
//!
//! Owns when an index is trusted. Indexes only save time; what is yielded comes from segments.

use super::{LogReader, is_good};
use crate::disk::{Disk, DiskFile};
use crate::index::{IndexEntry, SegmentIndex};
use crate::item::LogReadError;
use crate::scan::{FrameScan, ScanItem};
use crate::segment::{FRAME_BYTES, LogFrame, decode_frame};
use crate::source::SegmentSource;

impl<D: Disk> LogReader<'_, D> {
    /// Yields only records from `sequence` on, reading as little as possible of earlier ones.
    /// Damage there may or may not be reported. Call this before the first entry.
    pub fn seek(mut self, sequence: u64) -> Result<Self, LogReadError> {
        self.emit_from = sequence;
        // If the first sequences do not ascend, some file is not what its name says.
        if self.next.is_some()
            || !self.listed.is_empty()
            || !self.names.iter().is_sorted_by_key(|name| name.first)
        {
            return Ok(self);
        }
        let before = self.names.partition_point(|name| name.first <= sequence);
        for at in (0..before).rev() {
            match SegmentSource::open(self.disk, self.names[at], 0)
                .and_then(|source| source.header())
            {
                Ok(header) if is_good(header) => {
                    self.names.drain(..at);
                    break;
                }
                Err(error) if !error.is_not_found() => return Err(error),
                // It was removed meanwhile, and all before it.
                Ok(_) | Err(_) => (),
            }
        }
        Ok(self)
    }

    /// Where to start in the next segment, and at which sequence: its first frame, or a later one
    /// at or before the wanted sequence. None if nothing in it is wanted.
    pub(super) fn start_within(
        &mut self,
        source: &SegmentSource<D::File>,
        frames_at: usize,
        limit: Option<u64>,
    ) -> Option<(usize, u64)> {
        let (wanted, first) = (self.emit_from, source.identity().first);
        let whole = (frames_at, first);
        let in_turn = self.next == Some(first) && wanted > first;
        // The newest segment is always read, because its end is reported.
        let Some(limit) = limit.filter(|_| in_turn) else { return Some(whole) };
        let Some(index) = trusted_index(self.disk, source, limit) else { return Some(whole) };
        if index.last < wanted {
            self.next = Some(limit);
            return None;
        }
        let stands = |entry: &IndexEntry| stands(source, entry.offset, entry.sequence).is_some();
        let entry = index.start(wanted).filter(stands);
        let Some(entry) = entry else { return Some(whole) };
        self.next = Some(entry.sequence);
        Some((entry.offset, entry.sequence))
    }
}

/// The index of a sealed segment, if it agrees with the segment: the next segment begins where the
/// index ends, and the last record has the stated offset and time.
pub(crate) fn trusted_index<D: Disk>(
    disk: &D,
    source: &SegmentSource<D::File>,
    limit: u64,
) -> Option<SegmentIndex> {
    let index = SegmentIndex::read(disk, source.identity())?;
    let last = stands(source, index.last_offset, index.last)?;
    let whole = index.last.checked_add(1) == Some(limit);
    (whole && last.time_ms == index.last_time_ms).then_some(index)
}

/// Time of the first sound record before sequence `end`, and the latest time of all of them. None
/// without such a record.
pub(crate) fn times_ms<F: DiskFile>(
    source: &mut SegmentSource<F>,
    end: u64,
) -> Result<Option<(u64, u64)>, LogReadError> {
    let mut scan = FrameScan::new(source.identity(), source.length(), source.frames_at()?);
    let mut times = None;
    while let Some(found) = source.next(&mut scan)? {
        if let ScanItem::Record(frame) = found
            && frame.sequence < end
        {
            let (first, max) = times.unwrap_or((frame.time_ms, 0));
            times = Some((first, frame.time_ms.max(max)));
        }
    }
    Ok(times)
}

/// The frame of this sequence at an offset. None if it is not there.
fn stands<F: DiskFile>(
    source: &SegmentSource<F>,
    offset: usize,
    sequence: u64,
) -> Option<LogFrame> {
    // If the file fails, the scan will report it.
    let header = source.exactly::<FRAME_BYTES>(offset).ok()??;
    let frame = decode_frame(source.identity(), offset, source.length(), &header)?;
    (frame.sequence == sequence).then_some(frame)
}

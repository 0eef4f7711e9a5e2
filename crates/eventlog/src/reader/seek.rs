//! Where a reader starts that does not want all records: by the segments' names, and by what
//! stands beside them.
//!
//! Owns when an index is believed. An index shortens the way; what is told comes from segments.

use super::{Reader, is_good};
use crate::bug::{Bug, planted};
use crate::disk::{Disk, DiskFile};
use crate::index::{Entry, Index};
use crate::item::ReadError;
use crate::scan::{Found, Scan};
use crate::segment::{FRAME_BYTES, Frame, decode_frame};
use crate::source::Source;

impl<D: Disk> Reader<'_, D> {
    /// Tells records from `sequence` on only, and reads as little as it can of what is before.
    /// Damage there may be told or not. To be called before the first item.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn seek(mut self, sequence: u64) -> Result<Self, ReadError> {
        self.told_from = sequence;
        // Where firsts do not ascend some file is not what its name says.
        if self.next.is_some()
            || !self.listed.is_empty()
            || !self.names.iter().is_sorted_by_key(|name| name.first)
        {
            return Ok(self);
        }
        let before = self.names.partition_point(|name| name.first <= sequence);
        for at in (0..before).rev() {
            match Source::open(self.disk, self.names[at], 0).and_then(|source| source.header()) {
                Ok(header) if is_good(header) => {
                    self.names.drain(..at);
                    break;
                }
                Err(error) if !error.is_not_found() => return Err(error),
                // Somebody removed it, and all before it.
                Ok(_) | Err(_) => (),
            }
        }
        Ok(self)
    }

    /// Where to start in a segment that has just come up, and of which sequence: its first frame,
    /// or one before which nothing is wanted. `None` when nothing in it is.
    pub(super) fn start_within(
        &mut self,
        source: &Source<D::File>,
        frames_at: usize,
        limit: Option<u64>,
    ) -> Option<(usize, u64)> {
        let (wanted, first) = (self.told_from, source.identity().first);
        let whole = (frames_at, first);
        let in_turn = self.next == Some(first) && wanted > first;
        // The newest segment is always looked at: its end is told.
        let Some(limit) = limit.filter(|_| in_turn) else { return Some(whole) };
        let Some(index) = trusted_index(self.disk, source, limit) else { return Some(whole) };
        if index.last < wanted {
            self.next = Some(limit);
            return None;
        }
        let stands = |entry: &Entry| stands(source, entry.offset, entry.sequence).is_some();
        let entry = index.start(wanted).filter(stands);
        let Some(entry) = entry else { return Some(whole) };
        self.next = Some(entry.sequence);
        Some((entry.offset, entry.sequence))
    }
}

/// The index of a sealed segment, once the segment bears it out: the next one begins where it
/// ends, and the last record stands where it says, of the time that it says.
pub(crate) fn trusted_index<D: Disk>(
    disk: &D,
    source: &Source<D::File>,
    limit: u64,
) -> Option<Index> {
    let index = Index::read(disk, source.identity())?;
    if planted(Bug::TrustIndex) {
        return Some(index);
    }
    let last = stands(source, index.last_offset, index.last)?;
    let whole = index.last.checked_add(1) == Some(limit);
    (whole && last.time_ms == index.last_time_ms).then_some(index)
}

/// Time of the first of a segment's sound records before sequence `end`, and the latest time. None
/// if the segment has no such record.
pub(crate) fn times_ms<F: DiskFile>(
    source: &mut Source<F>,
    end: u64,
) -> Result<Option<(u64, u64)>, ReadError> {
    let mut scan = Scan::new(source.identity(), source.length(), source.frames_at()?);
    let mut times = None;
    while let Some(found) = source.next(&mut scan)? {
        if let Found::Record(frame) = found
            && frame.sequence < end
        {
            let (first, max) = times.unwrap_or((frame.time_ms, 0));
            times = Some((first, frame.time_ms.max(max)));
        }
    }
    Ok(times)
}

/// The frame of a record, when it stands at a place.
fn stands<F: DiskFile>(source: &Source<F>, offset: usize, sequence: u64) -> Option<Frame> {
    // Should the file fail the scan will say so.
    let header = source.exactly::<FRAME_BYTES>(offset).ok()??;
    let frame = decode_frame((source.identity(), offset), source.length(), &header)?;
    (frame.sequence == sequence).then_some(frame)
}

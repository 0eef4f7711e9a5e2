//! What a log contains when it is opened. Complete segments have a summary; of others, the records are
//! visited one after the other, up to the first that is not whole.

use std::io;
use std::sync::Arc;

use cache_core::store::history::PurgeHistory;
use cache_core::store::purges::{Purge, PurgeNumber};
use eventlog::disk::{Disk, DiskFile};

use crate::format::{
    DiskRecordKind, DiskSegmentHeader, RECORD_HEADER_BYTES, RecordHeader, RecordPlace,
    RecordSubject, SEGMENT_HEADER_BYTES, SummaryLine, TRAILER_BYTES, decode_summary,
    decode_trailer, file_name, segment_of,
};
use crate::index::{DiskIndex, KeyHash, Location};
use crate::segments::{Segment, Segments, read_exact};

/// The segments of a log.
pub(crate) struct RecoveredSegments<F> {
    pub segments: Arc<Segments<F>>,
    /// The number of the next segment.
    pub next: u32,
}

/// Reads the log of a directory, and fills an index and a history, both empty.
///
/// # Errors
/// What the disk says. Damage is no error: what it concerns is lost.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    bytes_max: u64,
    index: &DiskIndex,
    history: &mut PurgeHistory,
) -> io::Result<RecoveredSegments<D::File>> {
    let mut numbers: Vec<u32> = disk.list()?.iter().filter_map(|name| segment_of(name)).collect();
    numbers.sort_unstable();
    let segments = Arc::new(Segments::default());
    let next = numbers.last().map_or(0, |last| last + 1);
    let mut newer = None;
    let mut bytes = 0;
    while let Some(number) = numbers.pop() {
        // Purges of a segment that is missing or damaged are unknown, so what is older must not be
        // served.
        let is_trusted = newer.is_none_or(|newer| number + 1 == newer) && bytes < bytes_max;
        let opened = if is_trusted { open_segment(disk, number)? } else { None };
        match opened {
            Some(segment) => {
                bytes += segment.bytes;
                newer = Some(number);
                segments.insert(number, segment);
            }
            None => {
                disk.remove(&file_name(number))?;
                // A newest one may be torn before it has a record that somebody relies on.
                if newer.is_some() {
                    break;
                }
            }
        }
    }
    for number in numbers {
        disk.remove(&file_name(number))?;
    }
    let mut replay = Replay { index, history };
    for (number, file) in segments.all() {
        replay.segment(&SegmentFile { file: &*file, number })?;
    }
    Ok(RecoveredSegments { segments, next })
}

/// None if its header is damaged.
fn open_segment<D: Disk>(disk: &D, number: u32) -> io::Result<Option<Segment<D::File>>> {
    let file = disk.open(&file_name(number))?;
    let bytes = file.len()?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    if bytes < header.len() as u64 {
        return Ok(None);
    }
    read_exact(&file, 0, &mut header)?;
    let header = DiskSegmentHeader::decode(&header).filter(|header| header.segment == number);
    Ok(header.map(|header| {
        let purged_through = header.purged_through;
        Segment { file: Arc::new(file), bytes, purged_through }
    }))
}

/// Takes over what records say, in their order.
struct Replay<'r> {
    index: &'r DiskIndex,
    history: &'r mut PurgeHistory,
}

impl Replay<'_> {
    fn segment<F: DiskFile>(&mut self, segment: &SegmentFile<'_, F>) -> io::Result<()> {
        let lines = match segment.summary()? {
            Some(lines) => lines,
            None => segment.visited()?,
        };
        for SummaryLine { subject: RecordSubject { kind, hash, purge }, offset, bytes } in lines {
            // Its own record may be gone with older segments.
            self.history.reached(PurgeNumber(purge));
            match kind {
                DiskRecordKind::Resource => {
                    let location = Location { segment: segment.number, offset, bytes };
                    self.index.recovered(KeyHash(hash), location);
                }
                DiskRecordKind::Removal => {
                    self.index.forget(KeyHash(hash));
                }
                DiskRecordKind::Purge => {
                    let payload = segment.payload(offset, bytes)?;
                    let listed = payload.and_then(|payload| Purge::decode(&payload));
                    match listed {
                        Some(listed) if listed.is_hard_of_key() => {
                            self.index.forget(KeyHash(hash));
                        }
                        Some(listed) => self.history.list(PurgeNumber(purge), &listed),
                        None => (),
                    }
                }
                DiskRecordKind::Summary => (),
            }
        }
        Ok(())
    }
}

struct SegmentFile<'f, F> {
    file: &'f F,
    number: u32,
}

impl<F: DiskFile> SegmentFile<'_, F> {
    /// None if it is not complete.
    fn summary(&self) -> io::Result<Option<Vec<SummaryLine>>> {
        let Some(trailer_at) = self.file.len()?.checked_sub(TRAILER_BYTES as u64) else {
            return Ok(None);
        };
        let mut trailer = [0; TRAILER_BYTES];
        read_exact(self.file, trailer_at, &mut trailer)?;
        let Some(at) = decode_trailer(&trailer) else { return Ok(None) };
        let header =
            self.header(at)?.filter(|header| header.subject.kind == DiskRecordKind::Summary);
        let Some(header) = header else { return Ok(None) };
        Ok(self.payload(at, header.bytes)?.and_then(|payload| decode_summary(&payload)))
    }

    /// The records, one by one.
    fn visited(&self) -> io::Result<Vec<SummaryLine>> {
        let mut lines = Vec::new();
        let mut at = SEGMENT_HEADER_BYTES as u64;
        let end = self.file.len()?;
        while let Ok(offset) = u32::try_from(at)
            && let Some(RecordHeader { subject, bytes, .. }) = self.header(offset)?
        {
            at += (RECORD_HEADER_BYTES + bytes as usize) as u64;
            if at > end {
                break;
            }
            lines.push(SummaryLine { subject, offset, bytes });
        }
        Ok(lines)
    }

    /// None if no record is there.
    fn header(&self, offset: u32) -> io::Result<Option<RecordHeader>> {
        let mut header = [0; RECORD_HEADER_BYTES];
        if u64::from(offset) + header.len() as u64 > self.file.len()? {
            return Ok(None);
        }
        read_exact(self.file, offset.into(), &mut header)?;
        Ok(RecordHeader::decode(&header, RecordPlace { segment: self.number, offset }))
    }

    /// None if it is damaged.
    fn payload(&self, offset: u32, bytes: u32) -> io::Result<Option<Vec<u8>>> {
        let Some(header) = self.header(offset)? else { return Ok(None) };
        let start = u64::from(offset) + RECORD_HEADER_BYTES as u64;
        if header.bytes != bytes || start + u64::from(bytes) > self.file.len()? {
            return Ok(None);
        }
        let mut payload = vec![0; bytes as usize];
        read_exact(self.file, start, &mut payload)?;
        Ok((crc32c::crc32c(&payload) == header.check).then_some(payload))
    }
}

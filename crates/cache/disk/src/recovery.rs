//! What a log contains when it is opened. Complete segments have a summary; of others, the records are
//! visited one after the other, up to the first that is not whole.

use std::io;
use std::sync::Arc;

use cache_core::store::history::PurgeHistory;
use cache_core::store::purges::{Purge, PurgeEffect, PurgeNumber, PurgeScope};
use eventlog::disk::{Disk, DiskFile};

use crate::format::{
    DiskRecordKind, DiskSegmentHeader, RECORD_HEADER_BYTES, RecordHeader, RecordPlace,
    RecordSubject, SEGMENT_HEADER_BYTES, SummaryLine, TRAILER_BYTES, decode_summary,
    decode_trailer, file_name, segment_of,
};
use crate::index::{DiskIndex, KeyHash, Location};
use crate::segments::{Segment, Segments, read_exact};
use crate::size::LogSize;

/// The segments of a log.
pub(crate) struct RecoveredSegments<F> {
    pub segments: Arc<Segments<F>>,
    /// The number of the next segment.
    pub next: u32,
}

/// Reads the log of a directory, and fills an index and a history, both empty.
///
/// # Errors
/// The directory cannot be read or changed. Damage of a file is no error: what it concerns is lost.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    size: LogSize,
    index: &DiskIndex,
    history: &mut PurgeHistory,
) -> io::Result<RecoveredSegments<D::File>> {
    let mut numbers: Vec<u32> = disk.list()?.iter().filter_map(|name| segment_of(name)).collect();
    numbers.sort_unstable();
    let segments = Arc::new(Segments::default());
    let mut found = Vec::new();
    let mut next = 0;
    let mut bytes = 0;
    while let Some(number) = numbers.pop() {
        let is_newest = next == 0 && found.is_empty();
        // Purges of a segment that is missing or damaged are unknown, so what is older must not be
        // served.
        let follows =
            found.last().map_or(is_newest || number + 1 == next, |newer: &FoundSegment<_>| {
                number + 1 == newer.number
            });
        let has_room = bytes < size.bytes_max && found.len() < size.segments_max;
        let opened = if follows && has_room { open_segment(disk, number) } else { None };
        match opened {
            Some(OpenedSegment::Sound(segment)) => {
                bytes += segment.bytes;
                if is_newest {
                    next = number + 1;
                }
                found.push(FoundSegment { number, segment });
            }
            Some(OpenedSegment::Unbegun) if is_newest => {
                disk.remove(&file_name(number))?;
                next = number;
            }
            Some(OpenedSegment::Unbegun) | None => {
                if is_newest {
                    next = number + 1;
                }
                numbers.push(number);
                break;
            }
        }
    }
    for number in numbers {
        disk.remove(&file_name(number))?;
    }
    let mut replay = Replay { index, history };
    for FoundSegment { number, segment } in found.into_iter().rev() {
        let Segment { file, nonce, purged_through, .. } = &segment;
        replay.history.reached(PurgeNumber(*purged_through));
        replay.segment(&SegmentFile { file: &**file, number, nonce: *nonce });
        segments.insert(number, segment);
    }
    Ok(RecoveredSegments { segments, next })
}

struct FoundSegment<F> {
    number: u32,
    segment: Segment<F>,
}

enum OpenedSegment<F> {
    Sound(Segment<F>),
    /// Its header was not durable yet, so it has no record.
    Unbegun,
}

/// None if it cannot be read, or its header is damaged.
fn open_segment<D: Disk>(disk: &D, number: u32) -> Option<OpenedSegment<D::File>> {
    let file = disk.open(&file_name(number)).ok()?;
    let bytes = file.len().ok()?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    let is_read = bytes >= header.len() as u64 && read_exact(&file, 0, &mut header).is_ok();
    let header =
        DiskSegmentHeader::decode(&header).filter(|header| is_read && header.segment == number);
    match header {
        Some(DiskSegmentHeader { purged_through, nonce, .. }) => {
            let file = Arc::new(file);
            Some(OpenedSegment::Sound(Segment { file, bytes, purged_through, nonce }))
        }
        None => (bytes <= SEGMENT_HEADER_BYTES as u64).then_some(OpenedSegment::Unbegun),
    }
}

/// Takes over what records say, in their order.
struct Replay<'r> {
    index: &'r DiskIndex,
    history: &'r mut PurgeHistory,
}

impl Replay<'_> {
    fn segment<F: DiskFile>(&mut self, segment: &SegmentFile<'_, F>) {
        let lines = segment.summary().unwrap_or_else(|| segment.visited());
        for SummaryLine { subject: RecordSubject { kind, hash, purge }, offset, bytes } in lines {
            // Its own record may be gone with older segments.
            let number = PurgeNumber(purge);
            self.history.reached(number);
            match kind {
                DiskRecordKind::Resource => {
                    let location = Location { segment: segment.number, offset, bytes };
                    self.index.recovered(KeyHash(hash), location);
                }
                DiskRecordKind::Removal => {
                    self.index.forget(KeyHash(hash));
                }
                DiskRecordKind::Purge => {
                    let payload = segment.payload(offset, bytes);
                    let purge = payload.and_then(|payload| Purge::decode(&payload));
                    self.purge(hash, number, purge);
                }
                DiskRecordKind::Summary => (),
            }
        }
    }

    /// A purge, None if its record is damaged.
    fn purge(&mut self, hash: u64, number: PurgeNumber, purge: Option<Purge>) {
        // Of a damaged one of a key it is not known whether it was soft; of others, not what it was of.
        let is_of_key = hash != 0;
        match purge {
            Some(purge) if !purge.is_hard_of_key() => self.history.list(number, &purge),
            None if !is_of_key => {
                let scope = PurgeScope::Prefix("".into());
                self.history.list(number, &Purge { scope, effect: PurgeEffect::Gone });
            }
            _ => {
                self.index.forget(KeyHash(hash));
            }
        }
    }
}

struct SegmentFile<'f, F> {
    file: &'f F,
    number: u32,
    nonce: u32,
}

impl<F: DiskFile> SegmentFile<'_, F> {
    /// None if it is not complete.
    fn summary(&self) -> Option<Vec<SummaryLine>> {
        let trailer_at = self.file.len().ok()?.checked_sub(TRAILER_BYTES as u64)?;
        let mut trailer = [0; TRAILER_BYTES];
        read_exact(self.file, trailer_at, &mut trailer).ok()?;
        let at = decode_trailer(self.nonce, &trailer)?;
        let header = self.header(at)?;
        let is_summary = header.subject.kind == DiskRecordKind::Summary;
        is_summary.then(|| decode_summary(&self.payload(at, header.bytes)?))?
    }

    /// The records, one by one, up to the first that is not whole.
    fn visited(&self) -> Vec<SummaryLine> {
        let mut lines = Vec::new();
        let mut at = SEGMENT_HEADER_BYTES as u64;
        let end = self.file.len().unwrap_or_default();
        while let Ok(offset) = u32::try_from(at)
            && let Some(RecordHeader { subject, bytes, .. }) = self.header(offset)
        {
            at += (RECORD_HEADER_BYTES + bytes as usize) as u64;
            if at > end {
                break;
            }
            lines.push(SummaryLine { subject, offset, bytes });
        }
        lines
    }

    /// None if no record is there.
    fn header(&self, offset: u32) -> Option<RecordHeader> {
        let mut header = [0; RECORD_HEADER_BYTES];
        read_exact(self.file, offset.into(), &mut header).ok()?;
        let place = RecordPlace { segment: self.number, nonce: self.nonce, offset };
        RecordHeader::decode(&header, place)
    }

    /// None if it is damaged.
    fn payload(&self, offset: u32, bytes: u32) -> Option<Vec<u8>> {
        let header = self.header(offset).filter(|header| header.bytes == bytes)?;
        let start = u64::from(offset) + RECORD_HEADER_BYTES as u64;
        // Before so much memory is asked for.
        (start + u64::from(bytes) <= self.file.len().ok()?).then_some(())?;
        let mut payload = vec![0; bytes as usize];
        read_exact(self.file, start, &mut payload).ok()?;
        (crc32c::crc32c(&payload) == header.check).then_some(payload)
    }
}

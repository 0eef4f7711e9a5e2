//! The log: one segment that grows, and complete ones behind it, of which the oldest are removed.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;

use cache_core::store::history::PurgeHistory;
use eventlog::disk::{Disk, DiskFile};

use crate::format::{
    DiskRecordKind, DiskSegmentHeader, RECORD_HEADER_BYTES, RecordHeader, RecordPlace,
    RecordSubject, SUMMARY_LINE_BYTES, SummaryLine, TRAILER_BYTES, encode_summary, encode_trailer,
    file_name,
};
use crate::index::{DiskIndex, Location};
use crate::recovery::{RecoveredSegments, recover};
use crate::segments::{Segment, Segments};
use crate::size::LogSize;

/// The log, as its writer has it.
pub(crate) struct SegmentLog<D: Disk> {
    disk: D,
    /// Held as long as this lives.
    _lock: D::Lock,
    size: LogSize,
    segments: Arc<Segments<D::File>>,
    growing: Option<GrowingSegment<D::File>>,
    /// The number of the next segment.
    next: u32,
}

/// A segment that is written.
struct GrowingSegment<F> {
    number: u32,
    nonce: u32,
    file: F,
    /// Bytes in the file.
    written: u64,
    /// Records behind them.
    buffer: Vec<u8>,
    records: Vec<SummaryLine>,
    is_synced: bool,
}

impl<F> GrowingSegment<F> {
    /// With what is in the buffer.
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn append(&mut self, subject: RecordSubject, payload: &[u8]) -> Location {
        let offset = u32::try_from(self.end()).expect("segments are limited");
        let bytes = u32::try_from(payload.len()).expect("payloads are limited");
        let header = RecordHeader { subject, bytes, check: crc32c::crc32c(payload) };
        let place = RecordPlace { segment: self.number, nonce: self.nonce, offset };
        self.buffer.extend_from_slice(&header.encode(place));
        self.buffer.extend_from_slice(payload);
        self.records.push(SummaryLine { subject, offset, bytes });
        Location { segment: self.number, offset, bytes }
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Locks a directory, and fills an index and a history, both empty.
    ///
    /// # Errors
    /// What the disk says; [`io::ErrorKind::WouldBlock`] while another process has the directory.
    pub(crate) fn open(
        disk: D,
        size: LogSize,
        index: &DiskIndex,
        history: &mut PurgeHistory,
    ) -> io::Result<Self> {
        let lock = disk.lock()?;
        let RecoveredSegments { segments, next } = recover(&disk, size, index, history)?;
        Ok(Self { disk, _lock: lock, size, segments, growing: None, next })
    }

    /// Appends a record, in memory until [`Self::flush`]. `purged_through` is the newest purge, for a
    /// segment that begins with the record.
    ///
    /// # Errors
    /// What the disk says. Everything since the last flush is then lost.
    pub(crate) fn append(
        &mut self,
        subject: RecordSubject,
        payload: &[u8],
        purged_through: u64,
    ) -> io::Result<Location> {
        let has_room = |growing: &GrowingSegment<D::File>| {
            let summary = (growing.records.len() + 1) * SUMMARY_LINE_BYTES;
            let record = RECORD_HEADER_BYTES + payload.len();
            let end =
                growing.end() + (record + RECORD_HEADER_BYTES + summary + TRAILER_BYTES) as u64;
            end <= self.size.segment_bytes
        };
        if self.growing.as_ref().is_some_and(|growing| !has_room(growing)) {
            self.complete()?;
        }
        let growing = match &mut self.growing {
            Some(growing) => growing,
            none => {
                let number = self.next;
                none.insert(begin(&self.disk, &self.segments, number, purged_through, self.size)?)
            }
        };
        self.next = growing.number + 1;
        Ok(growing.append(subject, payload))
    }

    /// Writes what was appended: reads find it, and it survives the process.
    ///
    /// # Errors
    /// What the disk says. Everything since the last flush is then lost.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(growing) = &mut self.growing else { return Ok(()) };
        if growing.buffer.is_empty() {
            return Ok(());
        }
        loop {
            match growing.file.write_at(growing.written, &growing.buffer) {
                Err(error) if is_full(&error) => {
                    // Others have filled the disk. Old entries are worth less than new ones.
                    if !evict(&self.disk, &self.segments, growing.number)? {
                        return self.abandon(error);
                    }
                }
                Err(error) => return self.abandon(error),
                Ok(()) => break,
            }
        }
        growing.written += growing.buffer.len() as u64;
        growing.buffer.clear();
        growing.is_synced = false;
        self.segments.set_bytes(growing.number, growing.written);
        Ok(())
    }

    /// Makes durable what was written: it survives the machine.
    ///
    /// # Errors
    /// What the disk says. Everything since the last sync may then be lost.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        let Some(growing) = &mut self.growing else { return Ok(()) };
        if !growing.is_synced
            && let Err(error) = growing.file.sync_data()
        {
            return self.abandon(error);
        }
        growing.is_synced = true;
        Ok(())
    }

    /// Ends the growing segment, with its summary.
    ///
    /// # Errors
    /// As of [`Self::sync`].
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        if let Some(growing) = &mut self.growing {
            let at = u32::try_from(growing.end()).expect("segments are limited");
            let summary = encode_summary(&growing.records);
            growing.append(
                RecordSubject { kind: DiskRecordKind::Summary, hash: 0, purge: 0 },
                &summary,
            );
            growing.buffer.extend_from_slice(&encode_trailer(growing.nonce, at));
            self.sync()?;
            self.growing = None;
        }
        Ok(())
    }

    /// Nothing more goes into the growing segment. What was written stays readable.
    fn abandon(&mut self, error: io::Error) -> io::Result<()> {
        self.growing = None;
        Err(error)
    }

    /// Removes all segments.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.growing = None;
        // Should a removal be lost, the missing number tells that what came before is void.
        self.next += 1;
        while evict(&self.disk, &self.segments, u32::MAX)? {}
        self.disk.sync_directory()
    }

    /// The longest payload.
    pub(crate) const fn payload_max(&self) -> u64 {
        self.size.payload_max()
    }

    /// The oldest segment, with the newest purge when it began. None while the log is empty.
    pub(crate) fn oldest(&self) -> Option<(u32, u64)> {
        self.segments.oldest()
    }

    /// For readers.
    pub(crate) fn segments(&self) -> Arc<Segments<D::File>> {
        Arc::clone(&self.segments)
    }
}

/// Makes room, and a file with its header, durably: without that, a segment that lacks its header is
/// damaged.
fn begin<D: Disk>(
    disk: &D,
    segments: &Segments<D::File>,
    number: u32,
    purged_through: u64,
    size: LogSize,
) -> io::Result<GrowingSegment<D::File>> {
    let has_room = || {
        segments.bytes() + size.segment_bytes <= size.bytes_max
            && segments.count() < size.segments_max
    };
    while !has_room() && evict(disk, segments, number)? {}
    let name = file_name(number);
    // Random, without another dependency.
    let nonce = RandomState::new().hash_one(number).to_le_bytes();
    let nonce = u32::from_le_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]);
    let header = DiskSegmentHeader { segment: number, purged_through, nonce }.encode();
    let file = loop {
        let begun = disk.create(&name).and_then(|mut file| {
            file.write_at(0, &header)?;
            file.sync_data()?;
            disk.sync_directory()?;
            Ok(file)
        });
        match begun {
            // A file of an earlier attempt, which failed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.remove(&name)?,
            Err(error) if is_full(&error) && evict(disk, segments, number)? => {}
            begun => break begun?,
        }
    };
    let reading = Arc::new(disk.open(&name)?);
    let bytes = header.len() as u64;
    segments.insert(number, Segment { file: reading, bytes, purged_through, nonce });
    Ok(GrowingSegment {
        number,
        nonce,
        file,
        written: bytes,
        buffer: Vec::new(),
        records: Vec::new(),
        is_synced: true,
    })
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Removes the oldest segment, unless it is this one. Returns false if there is no other.
fn evict<D: Disk>(disk: &D, segments: &Segments<D::File>, growing: u32) -> io::Result<bool> {
    let Some((oldest, _)) = segments.oldest().filter(|(oldest, _)| *oldest != growing) else {
        return Ok(false);
    };
    match disk.remove(&file_name(oldest)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => segments.remove(oldest),
    }
    Ok(true)
}

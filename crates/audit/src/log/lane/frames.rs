//! Reads the frames of one segment through a moving window, without copying or allocating. Stops at
//! the first damage.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};

use eventlog::disk::{Disk as _, DiskFile as _, DiskFolder};
use eventlog::{
    ChainHash, FRAME_BYTES, FrameScan, HEADER_BYTES, LogReadError, PAYLOAD_BYTES_MAX, ScanItem,
    ScanStep, ScanWindow, SegmentHasher, SegmentHeader, SegmentId, aligned,
};

use crate::log::position::{RecordPosition, RecordVisitor};

/// Bytes per read: few enough to stay in the cache while they are checked.
const READ_BYTES: usize = 256 << 10;
const ROOM_BYTES: usize = FRAME_BYTES + PAYLOAD_BYTES_MAX + READ_BYTES;

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// All records were yielded.
    End,
    /// The visitor stopped it.
    Told,
    /// Something other than the next record was found.
    Damage,
}

pub(super) struct FrameReader<'r> {
    file: File,
    identity: SegmentId,
    length: usize,
    /// Offset of the window in the file; it holds `held` bytes.
    base: usize,
    held: usize,
    room: &'r mut Vec<u8>,
    /// None before it is read, or if it is damaged.
    header: Option<SegmentHeader>,
    /// End of the last yielded record.
    told: usize,
    /// None if hashing is off.
    hashed: Option<PrefixHash>,
}

/// The hash of yielded records that the window has passed.
#[derive(Default)]
struct PrefixHash {
    hasher: SegmentHasher,
    end: usize,
}

impl<'r> FrameReader<'r> {
    pub fn open(
        folder: &DiskFolder,
        identity: SegmentId,
        room: &'r mut Vec<u8>,
        hashes: bool,
    ) -> Result<Self, LogReadError> {
        let opened = folder.open(&identity.file_name());
        let opened = opened.and_then(|file| Ok((file.len()?, file)));
        let (length, file) = opened.map_err(|source| failed(identity, source))?;
        // The reader of damage refuses a file that is longer than any segment.
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        room.resize(ROOM_BYTES, 0);
        Ok(Self {
            file,
            identity,
            length,
            base: 0,
            held: 0,
            room,
            header: None,
            told: 0,
            hashed: hashes.then(PrefixHash::default),
        })
    }

    pub const fn length(&self) -> u64 {
        self.length as u64
    }

    pub fn has_sound_header(&mut self) -> Result<bool, LogReadError> {
        if self.length as u64 > eventlog::SEGMENT_BYTES_LIMIT {
            return Ok(false);
        }
        let header = 0..self.length.min(HEADER_BYTES);
        if !self.hold(&header)? {
            return Ok(false);
        }
        self.header = SegmentHeader::read(&self.room[header], self.identity);
        Ok(self.header.is_some())
    }

    /// Yields records from sequence `from` up to `limit`, the first of the next segment. `next` is
    /// the sequence after all that were passed.
    pub fn walk(
        &mut self,
        limit: Option<u64>,
        from: u64,
        next: &mut u64,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<WalkEnd, LogReadError> {
        let begin = self.header.map_or(HEADER_BYTES, |header| header.frames_at());
        let mut scan = FrameScan::new(self.identity, self.length, begin);
        let SegmentId { epoch, node, .. } = self.identity;
        self.told = begin.min(self.length);
        loop {
            let window = ScanWindow { base: self.base, bytes: &self.room[..self.held] };
            match scan.next(window) {
                ScanStep::Need(range) if self.hold(&range)? => (),
                // The file was truncated meanwhile.
                ScanStep::Need(_) => return Ok(WalkEnd::Damage),
                ScanStep::Found(ScanItem::Record(frame)) => {
                    if limit == Some(*next) {
                        return Ok(WalkEnd::End); // Written over by the next segment.
                    }
                    if frame.sequence != *next {
                        return Ok(WalkEnd::Damage);
                    }
                    *next += 1;
                    self.told = aligned(frame.payload.end).min(self.length);
                    if frame.sequence < from {
                        continue;
                    }
                    let place = RecordPosition {
                        node,
                        epoch,
                        sequence: frame.sequence,
                        time_ms: frame.time_ms,
                    };
                    let payload = frame.payload.start - self.base..frame.payload.end - self.base;
                    if let ControlFlow::Break(()) = visit(&place, frame.kind, &self.room[payload]) {
                        return Ok(WalkEnd::Told);
                    }
                }
                // After the last record that counts there may be anything.
                ScanStep::Found(_) | ScanStep::End if limit == Some(*next) => {
                    return Ok(WalkEnd::End);
                }
                ScanStep::End if limit.is_none() => return Ok(WalkEnd::End),
                ScanStep::Found(_) | ScanStep::End => return Ok(WalkEnd::Damage),
            }
        }
    }

    /// The hash of the segment up to the last yielded record. None if hashing is off.
    pub fn hash(&mut self) -> Option<ChainHash> {
        self.hash_up_to(self.told);
        self.hashed.as_ref().map(|hashed| hashed.hasher.hash())
    }

    /// Hashes yielded records in the window up to `end`.
    fn hash_up_to(&mut self, end: usize) {
        let end = end.min(self.told);
        let Some(hashed) = self.hashed.as_mut().filter(|hashed| hashed.end < end) else { return };
        hashed.hasher.update(&self.room[hashed.end - self.base..end - self.base]);
        hashed.end = end;
    }

    /// Moves the window to begin with `range`. Returns false if the file is shorter.
    fn hold(&mut self, range: &Range<usize>) -> Result<bool, LogReadError> {
        self.hash_up_to(range.start);
        let kept = self.base.max(range.start)..self.base + self.held;
        if kept.start == range.start && range.start < kept.end {
            self.room.copy_within(kept.start - self.base..self.held, 0);
            self.held = kept.end - range.start;
        } else {
            self.held = 0;
        }
        self.base = range.start;
        let wanted = range.len().max(self.held + READ_BYTES).min(self.length - self.base);
        while self.held < wanted {
            let at = (self.base + self.held) as u64;
            match self.file.read_at(at, &mut self.room[self.held..wanted]) {
                Ok(0) => return Ok(range.len() <= self.held),
                Ok(more) => self.held += more,
                Err(source) => return Err(failed(self.identity, source)),
            }
        }
        Ok(true)
    }
}

fn failed(identity: SegmentId, source: io::Error) -> LogReadError {
    LogReadError::Io { name: identity.file_name(), source }
}

//! One segment's frames, from a window that moves over its file: nothing is copied or allocated for
//! a record. Goes as far as all is well, and says where it is not.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};

use eventlog::disk::{Disk as _, DiskFile as _, Folder};
use eventlog::{
    ChainHash, FRAME_BYTES, Found, HEADER_BYTES, Identity, PAYLOAD_BYTES_MAX, ReadError, Scan,
    SegmentHasher, SegmentHeader, Step, Window, aligned,
};

use crate::log::place::{Place, Visit};

/// How much is read at once: as much as stays near the processor while it is checked.
const READ_BYTES: usize = 256 << 10;
const ROOM_BYTES: usize = FRAME_BYTES + PAYLOAD_BYTES_MAX + READ_BYTES;

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// All of the segment is told.
    End,
    /// Who was told wants no more.
    Told,
    /// Something stands there that is no record of its turn.
    Damage,
}

pub(super) struct Frames<'r> {
    file: File,
    identity: Identity,
    length: usize,
    /// Where the window begins in the file, and what stands there.
    base: usize,
    held: usize,
    room: &'r mut Vec<u8>,
    /// None until it was looked at, and if it is damaged.
    header: Option<SegmentHeader>,
    /// Where the last record that was told ends.
    told: usize,
    /// None if nobody asked for the hash.
    hashed: Option<PrefixHash>,
}

/// The hash of what was told, as far as the window has moved on.
#[derive(Default)]
struct PrefixHash {
    hasher: SegmentHasher,
    end: usize,
}

impl<'r> Frames<'r> {
    pub fn open(
        folder: &Folder,
        identity: Identity,
        room: &'r mut Vec<u8>,
        hashes: bool,
    ) -> Result<Self, ReadError> {
        let opened = folder.open(&identity.file_name());
        let opened = opened.and_then(|file| Ok((file.len()?, file)));
        let (length, file) = opened.map_err(|source| failed(identity, source))?;
        // A file that is longer than any segment is refused by the reader of damage.
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

    pub fn has_sound_header(&mut self) -> Result<bool, ReadError> {
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

    /// Tells records from sequence `from` on, up to `limit`, where the next segment begins; `next` is
    /// what comes after all that was passed.
    pub fn walk(
        &mut self,
        (limit, from): (Option<u64>, u64),
        next: &mut u64,
        visit: &mut Visit<'_>,
    ) -> Result<Stop, ReadError> {
        let begin = self.header.map_or(HEADER_BYTES, |header| header.frames_at());
        let mut scan = Scan::new(self.identity, self.length, begin);
        let Identity { epoch, node, .. } = self.identity;
        self.told = begin.min(self.length);
        loop {
            let window = Window { base: self.base, bytes: &self.room[..self.held] };
            match scan.next(window) {
                Step::Need(range) if self.hold(&range)? => (),
                // It was cut since.
                Step::Need(_) => return Ok(Stop::Damage),
                Step::Found(Found::Record(frame)) => {
                    if limit == Some(*next) {
                        return Ok(Stop::End); // Written over by the next segment.
                    }
                    if frame.sequence != *next {
                        return Ok(Stop::Damage);
                    }
                    *next += 1;
                    self.told = aligned(frame.payload.end).min(self.length);
                    if frame.sequence < from {
                        continue;
                    }
                    let place =
                        Place { node, epoch, sequence: frame.sequence, time_ms: frame.time_ms };
                    let payload = frame.payload.start - self.base..frame.payload.end - self.base;
                    if let ControlFlow::Break(()) = visit(&place, frame.kind, &self.room[payload]) {
                        return Ok(Stop::Told);
                    }
                }
                // Behind the last record that counts there may be anything.
                Step::Found(_) | Step::End if limit == Some(*next) => return Ok(Stop::End),
                Step::End if limit.is_none() => return Ok(Stop::End),
                Step::Found(_) | Step::End => return Ok(Stop::Damage),
            }
        }
    }

    /// The hash of the segment up to the end of the last record that was told. None if nobody asked
    /// for it.
    pub fn hash(&mut self) -> Option<ChainHash> {
        self.hash_up_to(self.told);
        self.hashed.as_ref().map(|hashed| hashed.hasher.hash())
    }

    /// Hashes what the window holds up to a place, of what was told.
    fn hash_up_to(&mut self, end: usize) {
        let end = end.min(self.told);
        let Some(hashed) = self.hashed.as_mut().filter(|hashed| hashed.end < end) else { return };
        hashed.hasher.update(&self.room[hashed.end - self.base..end - self.base]);
        hashed.end = end;
    }

    /// Moves the window so that it begins with `range`; `false` when the file is shorter.
    fn hold(&mut self, range: &Range<usize>) -> Result<bool, ReadError> {
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

fn failed(identity: Identity, source: io::Error) -> ReadError {
    ReadError::Io { name: identity.file_name(), source }
}

//! A lane's segments and all records in them. Sound segments are scanned in place; from the first
//! damage on, the log's own reader takes over and reports it.
//!
//! Yields what that reader does: every sound record once, in order, and every corruption with its
//! place.

mod frames;
mod sweep;
#[cfg(test)]
mod tests;

use std::io;

use eventlog::disk::{Disk as _, DiskFile as _, DiskFolder};
use eventlog::lane::LaneKind;
use eventlog::{
    ChainHash, ChainPoint, Corruption, CorruptionKind, END_NAME, EndFile, HEADER_BYTES, LogEnd,
    LogEntry, LogReadError, LogReader, SegmentHeader, SegmentId, SegmentIndex, TornTail, segments,
};

use crate::filter::TimeWindow;
use crate::log::position::{RecordPosition, RecordVisitor};
use frames::{FrameReader, WalkEnd};

pub use sweep::{RecordFold, SweptSegment};

/// A lane as it was when listed.
#[derive(Debug)]
pub struct RecordedLane<'d> {
    kind: LaneKind,
    folder: &'d DiskFolder,
    segments: Vec<LaneSegment>,
    /// Problems of the directory: files of other nodes, and missing segments.
    foreign: Vec<Corruption>,
    /// How far the lane reached, by the file `end`.
    end: EndFile,
    /// Every sequence up to here was durable.
    known: u64,
    /// Whether to hash segments while walking them.
    hashes: bool,
}

/// A segment and its limits.
#[derive(Clone, Copy, Debug)]
pub struct LaneSegment {
    identity: SegmentId,
    /// First sequence of the next segment, which overrules this one from there on.
    limit: Option<u64>,
    /// Whether the header of the next segment is sound, and so `limit`.
    is_bounded: bool,
    /// The chain before its first record. None without a chain, or if its header is damaged.
    before: Option<ChainPoint>,
}

/// What is wrong with a lane or segment.
#[derive(Debug, Default)]
pub struct LaneDamage {
    /// Lost data and its place.
    pub corruptions: Vec<Corruption>,
    /// An unfinished write at the end.
    pub torn: Option<TornTail>,
}

/// Result of a walk through a segment.
#[derive(Debug, Default)]
pub struct SegmentWalk {
    /// What is wrong in it.
    pub damage: LaneDamage,
    /// Length of its file.
    pub bytes: u64,
    /// Whether the visitor stopped the walk.
    pub is_over: bool,
    /// Number of its records and their hash, up to an unfinished write. None if anything else is
    /// wrong, or hashing is off.
    pub hashed: Option<(u64, ChainHash)>,
}

/// A reusable buffer for reading segments, one per thread.
#[derive(Debug, Default)]
pub struct ReadBuffer(Vec<u8>);

impl<'d> RecordedLane<'d> {
    pub(crate) fn list(kind: LaneKind, folder: &'d DiskFolder) -> Result<Self, LogReadError> {
        // In this order: a concurrent writer only adds to what `end` states.
        let end = EndFile::read_known(folder)?;
        let mut names = match segments(folder) {
            // The lane was never written.
            Err(LogReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Vec::new()
            }
            listed => listed?,
        };
        let node = names.last().map(|newest| newest.node);
        let mut foreign = Vec::new();
        names.retain(|name| {
            let is_own = Some(name.node) == node;
            foreign.extend((!is_own).then(|| other_node(folder, *name)));
            is_own
        });
        let headers: Vec<_> = names.iter().map(|name| read_header(folder, *name)).collect();
        // Unwanted files may return after a power loss.
        let keep_from = headers.iter().rev().flatten().next().map_or(0, |header| header.keep_from);
        let unwanted = names.iter().skip(1).take_while(|next| next.first <= keep_from).count();
        let segment = |at: usize| LaneSegment {
            identity: names[at],
            limit: names.get(at + 1).map(|next| next.first),
            is_bounded: headers.get(at + 1).is_none_or(Option::is_some),
            before: headers[at].and_then(|header| header.before),
        };
        let segments: Vec<_> = (unwanted..names.len()).map(segment).collect();
        let is_declared = headers.last().is_some_and(Option::is_some);
        foreign.extend(gone(&segments, keep_from, is_declared, end));
        let newest = segments.last().map(|segment| segment.identity);
        let known = end.of_node(node).map_or(0, |end| known_through(&end, newest));
        Ok(Self { kind, folder, segments, foreign, end, known, hashes: false })
    }

    /// Every sequence up to this one is known to have been durable: a missing one is lost.
    #[must_use]
    pub fn proven_through(mut self, sequence: u64) -> Self {
        self.known = self.known.max(sequence);
        if self.segments.is_empty() && self.foreign.is_empty() && sequence > 0 {
            let problem = CorruptionKind::Missing { from: 1, through: sequence };
            let segment = END_NAME.to_owned();
            self.foreign.push(Corruption { segment, offset: 0, bytes: 0, problem });
        }
        self
    }

    /// Also hashes segments while walking them.
    #[must_use]
    pub fn hashing(self) -> Self {
        Self { hashes: true, ..self }
    }

    /// How far it reached when it was listed, by the file `end`.
    pub const fn end(&self) -> EndFile {
        self.end
    }

    /// How far it reaches now. An unreadable file counts as damaged.
    pub(crate) fn end_now(&self) -> EndFile {
        EndFile::read(self.folder).unwrap_or(EndFile::Damaged)
    }

    /// Every sequence up to here was durable; 0 if unknown.
    pub const fn known(&self) -> u64 {
        self.known
    }

    /// Which lane it is.
    pub const fn kind(&self) -> LaneKind {
        self.kind
    }

    /// Number of its segments.
    pub const fn segments_len(&self) -> usize {
        self.segments.len()
    }

    /// Its segments, in order.
    pub fn segments(&self) -> &[LaneSegment] {
        &self.segments
    }

    /// Files of another node in its directory.
    pub fn foreign(&self) -> &[Corruption] {
        &self.foreign
    }

    /// The node that wrote it. None if it is empty.
    pub fn node(&self) -> Option<u32> {
        self.segments.last().map(|segment| segment.identity.node)
    }

    /// Path of its files.
    pub fn place(&self) -> String {
        self.folder.place()
    }

    /// Segments that may hold records of that time.
    pub fn within(&self, window: TimeWindow) -> Vec<LaneSegment> {
        let may_hold = |segment: &&LaneSegment| match self.index(segment) {
            Some(index) if window != TimeWindow::ALL => {
                window.since_ms <= index.max_time_ms && index.min_time_ms <= window.until_ms
            }
            _ => true,
        };
        self.segments.iter().filter(may_hold).copied().collect()
    }

    /// The index of a sealed segment, if it covers all its records.
    pub fn index(&self, segment: &LaneSegment) -> Option<SegmentIndex> {
        let limit = segment.limit.filter(|_| segment.is_bounded)?;
        let index = SegmentIndex::read(self.folder, segment.identity)?;
        (index.last.checked_add(1) == Some(limit)).then_some(index)
    }

    /// Length of its file; 0 if it is gone.
    pub fn bytes(&self, segment: &LaneSegment) -> u64 {
        let file = self.folder.open(&segment.identity.file_name());
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Yields every record of a segment from sequence `from` on. A file that was removed meanwhile
    /// has no records.
    pub fn walk(
        &self,
        segment: &LaneSegment,
        from: u64,
        room: &mut ReadBuffer,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<SegmentWalk, LogReadError> {
        let LaneSegment { identity, limit, is_bounded, .. } = *segment;
        let mut frames = match FrameReader::open(self.folder, identity, &mut room.0, self.hashes) {
            Err(error) if is_gone(&error) => return Ok(SegmentWalk::default()),
            frames => frames?,
        };
        let bytes = frames.length();
        let mut walked = SegmentWalk { bytes, ..SegmentWalk::default() };
        let mut next = identity.first;
        if is_bounded && frames.has_sound_header()? {
            match frames.walk(limit, from, &mut next, visit)? {
                WalkEnd::End if limit.is_none() && next <= self.known => (),
                WalkEnd::End => {
                    walked.hashed = frames.hash().map(|hash| (next - identity.first, hash));
                    return Ok(walked);
                }
                WalkEnd::Told => {
                    walked.is_over = true;
                    return Ok(walked);
                }
                WalkEnd::Damage => (),
            }
            walked.hashed = frames.hash().map(|hash| (next - identity.first, hash));
        }
        self.walk_damaged(segment, next.max(from), &mut walked, visit)?;
        // After the last record an unfinished write is no damage, nor is one that the writer has
        // finished meanwhile.
        walked.hashed = walked.hashed.filter(|_| !walked.damage.is_corrupt());
        Ok(walked)
    }

    /// Yields the rest of a damaged segment.
    fn walk_damaged(
        &self,
        segment: &LaneSegment,
        from: u64,
        walked: &mut SegmentWalk,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), LogReadError> {
        let LaneSegment { identity, limit, .. } = *segment;
        let name = identity.file_name();
        for item in LogReader::new(self.folder)?.proven_through(self.known).seek(from)? {
            match item {
                Err(error) if is_gone(&error) => break,
                Err(error) => return Err(error),
                Ok(LogEntry::Record(record)) => {
                    if limit.is_some_and(|limit| limit <= record.sequence) {
                        break;
                    }
                    let place = RecordPosition {
                        node: identity.node,
                        epoch: record.epoch,
                        sequence: record.sequence,
                        time_ms: record.time_ms,
                    };
                    if visit(&place, record.kind, &record.payload).is_break() {
                        walked.is_over = true;
                        break;
                    }
                }
                Ok(LogEntry::Corruption(corruption))
                    if corruption.segment == name
                        && (corruption.offset, corruption.bytes) != (0, 0) =>
                {
                    walked.damage.corruptions.push(corruption);
                }
                // It is of another segment or of the directory, which report it.
                Ok(LogEntry::Corruption(_)) => (),
                Ok(LogEntry::Torn(torn)) => {
                    walked.damage.torn = Some(torn).filter(|torn| torn.segment == name);
                }
            }
        }
        Ok(())
    }
}

impl LaneSegment {
    /// Identity of the segment.
    pub const fn identity(&self) -> SegmentId {
        self.identity
    }

    /// The chain before its first record. None without a chain, or if its header is damaged.
    pub const fn before(&self) -> Option<ChainPoint> {
        self.before
    }
}

impl LaneDamage {
    /// Whether durable data was lost.
    pub const fn is_corrupt(&self) -> bool {
        !self.corruptions.is_empty()
    }

    /// Adds the damage of a later segment.
    pub fn add(&mut self, later: Self) {
        self.corruptions.extend(later.corruptions);
        self.torn = self.torn.take().or(later.torn);
    }
}

pub(crate) fn is_gone(error: &LogReadError) -> bool {
    matches!(error, LogReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn other_node(folder: &DiskFolder, identity: SegmentId) -> Corruption {
    let name = identity.file_name();
    let bytes = folder.open(&name).and_then(|file| file.len()).unwrap_or(0);
    let problem = CorruptionKind::OtherNode { node: identity.node };
    Corruption { segment: name, offset: 0, bytes, problem }
}

/// Missing segments: the oldest that are wanted, or all.
fn gone(
    segments: &[LaneSegment],
    keep_from: u64,
    is_declared: bool,
    end: EndFile,
) -> Option<Corruption> {
    let missing = |segment: String, from, through| {
        let problem = CorruptionKind::Missing { from, through };
        Some(Corruption { segment, offset: 0, bytes: 0, problem })
    };
    let from = keep_from.max(1);
    match (segments.first(), end.of_node(None)) {
        (Some(oldest), _) if is_declared && oldest.identity.first > from => {
            missing(oldest.identity.file_name(), from, oldest.identity.first - 1)
        }
        (None, Some(end)) if known_through(&end, None) > 0 => {
            let (from, through) = (end.last + 1 - end.chain.records, known_through(&end, None));
            missing(END_NAME.to_owned(), from.min(through), through)
        }
        _ => None,
    }
}

/// The last sequence that may have been used, given the newest segment found.
fn known_through(end: &LogEnd, newest: Option<SegmentId>) -> u64 {
    end.lost_through(newest).unwrap_or(0).max(end.last)
}

/// The header of a segment. None if it is unsound.
fn read_header(folder: &DiskFolder, identity: SegmentId) -> Option<SegmentHeader> {
    let file = folder.open(&identity.file_name()).ok()?;
    let mut header = [0; HEADER_BYTES];
    let mut done = 0;
    while done < HEADER_BYTES {
        match file.read_at(done as u64, &mut header[done..]).ok()? {
            // A file of an earlier version may be shorter.
            0 => break,
            more => done += more,
        }
    }
    SegmentHeader::read(&header[..done], identity)
}

//! A lane's segments, and every record in them: walked in place where all is well, and by the log's
//! own reader, which tells what is wrong, from where it is not.
//!
//! What is told is what the reader tells: every sound record once, in order, and every corruption
//! with its place. Knows nothing of what records say.

mod frames;
mod sweep;
#[cfg(test)]
mod tests;

use std::io;

use eventlog::disk::{Disk as _, DiskFile as _, Folder};
use eventlog::lane::LaneKind;
use eventlog::{
    ChainHash, ChainPoint, Corruption, END_NAME, EndFile, HEADER_BYTES, Identity, Index, Item,
    LogEnd, Problem, ReadError, Reader, SegmentHeader, Torn, segments,
};

use crate::filter::Window;
use crate::log::place::{Place, Visit};
use frames::{Frames, Stop};

pub use sweep::Part;

/// A lane as it stood when it was listed.
#[derive(Debug)]
pub struct Lane<'d> {
    kind: LaneKind,
    folder: &'d Folder,
    segments: Vec<Segment>,
    /// What is wrong with the directory: files of other nodes, and segments that are gone.
    foreign: Vec<Corruption>,
    /// How far the lane reached when that was last noted.
    end: EndFile,
    /// Every sequence up to here was durable once.
    known: u64,
    /// Whether segments are hashed as they are walked.
    hashes: bool,
}

/// A segment among its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    identity: Identity,
    /// First sequence of the next one; what is here from there on was written over by it.
    limit: Option<u64>,
    /// Whether the header of the next one is sound, so that `limit` is.
    is_bounded: bool,
    /// The chain before its first record. None without a chain, or if the header is damaged.
    before: Option<ChainPoint>,
}

/// What else was come upon than records.
#[derive(Debug, Default)]
pub struct Damage {
    /// What was lost, and where.
    pub corruptions: Vec<Corruption>,
    /// An unfinished write at the end.
    pub torn: Option<Torn>,
}

/// How a walk through a segment ended.
#[derive(Debug, Default)]
pub struct Walked {
    /// What is wrong in it.
    pub damage: Damage,
    /// How many bytes its file has.
    pub bytes: u64,
    /// Whether who was told of records wants no more.
    pub is_over: bool,
    /// How many records it has, and their hash, up to an unfinished write. None if anything else is wrong, or
    /// nobody asked.
    pub hashed: Option<(u64, ChainHash)>,
}

/// Memory in which segments are read: one for all that a thread walks.
#[derive(Debug, Default)]
pub struct Room(Vec<u8>);

impl<'d> Lane<'d> {
    pub(crate) fn list(kind: LaneKind, folder: &'d Folder) -> Result<Self, ReadError> {
        // In this order: a writer meanwhile only adds to what its end says.
        let end = EndFile::read_known(folder)?;
        let mut names = match segments(folder) {
            // A lane that was never written.
            Err(ReadError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
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
        // What was given away may be back after a loss of power, and is not wanted.
        let keep_from = headers.iter().rev().flatten().next().map_or(0, |header| header.keep_from);
        let unwanted = names.iter().skip(1).take_while(|next| next.first <= keep_from).count();
        let segment = |at: usize| Segment {
            identity: names[at],
            limit: names.get(at + 1).map(|next| next.first),
            is_bounded: headers.get(at + 1).is_none_or(Option::is_some),
            before: headers[at].and_then(|header| header.before),
        };
        let segments: Vec<_> = (unwanted..names.len()).map(segment).collect();
        let is_declared = headers.last().is_some_and(Option::is_some);
        foreign.extend(gone(&segments, (keep_from, is_declared), end));
        let newest = segments.last().map(|segment| segment.identity);
        let known = end.of_node(node).map_or(0, |end| known_through(&end, newest));
        Ok(Self { kind, folder, segments, foreign, end, known, hashes: false })
    }

    /// Every sequence up to this one is known to have been durable, from elsewhere: what of them is
    /// not there is missing.
    #[must_use]
    pub fn proven_through(mut self, sequence: u64) -> Self {
        self.known = self.known.max(sequence);
        if self.segments.is_empty() && self.foreign.is_empty() && sequence > 0 {
            let problem = Problem::Missing { from: 1, through: sequence };
            let segment = END_NAME.to_owned();
            self.foreign.push(Corruption { segment, offset: 0, bytes: 0, problem });
        }
        self
    }

    /// Hashes segments as they are walked.
    #[must_use]
    pub fn hashing(self) -> Self {
        Self { hashes: true, ..self }
    }

    /// How far it reached when that was last noted.
    pub const fn end(&self) -> EndFile {
        self.end
    }

    /// How far it reaches by now, while it is written. What cannot be read counts as damaged.
    pub(crate) fn end_now(&self) -> EndFile {
        EndFile::read(self.folder).unwrap_or(EndFile::Damaged)
    }

    /// Every sequence up to here was durable once; 0 where nothing is known.
    pub const fn known(&self) -> u64 {
        self.known
    }

    /// Which lane it is.
    pub const fn kind(&self) -> LaneKind {
        self.kind
    }

    /// How many segments it has.
    pub const fn segments_len(&self) -> usize {
        self.segments.len()
    }

    /// Its segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Files in its directory that are another node's.
    pub fn foreign(&self) -> &[Corruption] {
        &self.foreign
    }

    /// Which node wrote it; `None` of an empty one.
    pub fn node(&self) -> Option<u32> {
        self.segments.last().map(|segment| segment.identity.node)
    }

    /// Where its files are.
    pub fn place(&self) -> String {
        self.folder.place()
    }

    /// Its segments in which records of that time may be.
    pub fn within(&self, window: Window) -> Vec<Segment> {
        let may_hold = |segment: &&Segment| match self.index(segment) {
            Some(index) if window != Window::ALL => {
                window.since_ms <= index.max_time_ms && index.min_time_ms <= window.until_ms
            }
            _ => true,
        };
        self.segments.iter().filter(may_hold).copied().collect()
    }

    /// What stands beside a sealed segment, where it is of all its records.
    pub fn index(&self, segment: &Segment) -> Option<Index> {
        let limit = segment.limit.filter(|_| segment.is_bounded)?;
        let index = Index::read(self.folder, segment.identity)?;
        (index.last.checked_add(1) == Some(limit)).then_some(index)
    }

    /// How long its file is; 0 when that is gone.
    pub fn bytes(&self, segment: &Segment) -> u64 {
        let file = self.folder.open(&segment.identity.file_name());
        file.and_then(|file| file.len()).unwrap_or(0)
    }

    /// Tells every record of a segment, in order, from the one with this sequence on.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or is of a later release. One that is gone meanwhile, as happens
    /// beside a writer that removes old ones, has no records.
    pub fn walk(
        &self,
        segment: &Segment,
        (from, room): (u64, &mut Room),
        visit: &mut Visit<'_>,
    ) -> Result<Walked, ReadError> {
        let Segment { identity, limit, is_bounded, .. } = *segment;
        let mut frames = match Frames::open(self.folder, identity, &mut room.0, self.hashes) {
            Err(error) if is_gone(&error) => return Ok(Walked::default()),
            frames => frames?,
        };
        let bytes = frames.length();
        let mut walked = Walked { bytes, ..Walked::default() };
        let mut next = identity.first;
        if is_bounded && frames.has_sound_header()? {
            match frames.walk((limit, from), &mut next, visit)? {
                Stop::End if limit.is_none() && next <= self.known => (),
                Stop::End => {
                    walked.hashed = frames.hash().map(|hash| (next - identity.first, hash));
                    return Ok(walked);
                }
                Stop::Told => {
                    walked.is_over = true;
                    return Ok(walked);
                }
                Stop::Damage => (),
            }
            walked.hashed = frames.hash().map(|hash| (next - identity.first, hash));
        }
        self.walk_damaged(segment, next.max(from), &mut walked, visit)?;
        // Behind the last record an unfinished write is no damage, nor is one that a writer has finished meanwhile.
        walked.hashed = walked.hashed.filter(|_| !walked.damage.is_corrupt());
        Ok(walked)
    }

    /// Tells what is left of a segment in which something is wrong.
    fn walk_damaged(
        &self,
        segment: &Segment,
        from: u64,
        walked: &mut Walked,
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let Segment { identity, limit, .. } = *segment;
        let name = identity.file_name();
        for item in Reader::new(self.folder)?.proven_through(self.known).seek(from)? {
            match item {
                Err(error) if is_gone(&error) => break,
                Err(error) => return Err(error),
                Ok(Item::Record(record)) => {
                    if limit.is_some_and(|limit| limit <= record.sequence) {
                        break;
                    }
                    let place = Place {
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
                Ok(Item::Corruption(corruption))
                    if corruption.segment == name
                        && (corruption.offset, corruption.bytes) != (0, 0) =>
                {
                    walked.damage.corruptions.push(corruption);
                }
                // Of another segment, or of the directory, where it is told.
                Ok(Item::Corruption(_)) => (),
                Ok(Item::Torn(torn)) => {
                    walked.damage.torn = Some(torn).filter(|torn| torn.segment == name);
                }
            }
        }
        Ok(())
    }
}

impl Segment {
    /// Which it is.
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// The chain before its first record. None without a chain, or if its header is damaged.
    pub const fn before(&self) -> Option<ChainPoint> {
        self.before
    }
}

impl Damage {
    /// Whether anything that was durable is lost.
    pub const fn is_corrupt(&self) -> bool {
        !self.corruptions.is_empty()
    }

    /// Adds what is wrong in a later segment.
    pub fn add(&mut self, later: Self) {
        self.corruptions.extend(later.corruptions);
        self.torn = self.torn.take().or(later.torn);
    }
}

pub(crate) fn is_gone(error: &ReadError) -> bool {
    matches!(error, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn other_node(folder: &Folder, identity: Identity) -> Corruption {
    let name = identity.file_name();
    let bytes = folder.open(&name).and_then(|file| file.len()).unwrap_or(0);
    let problem = Problem::OtherNode { node: identity.node };
    Corruption { segment: name, offset: 0, bytes, problem }
}

/// Segments that are gone: the oldest of those that nobody declared unwanted, or all.
fn gone(
    segments: &[Segment],
    (keep_from, is_declared): (u64, bool),
    end: EndFile,
) -> Option<Corruption> {
    let missing = |segment: String, from, through| {
        let problem = Problem::Missing { from, through };
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

/// The last sequence that may have been given, where the newest segment that is there is `newest`.
fn known_through(end: &LogEnd, newest: Option<Identity>) -> u64 {
    end.lost_through(newest).unwrap_or(0).max(end.last)
}

/// The header of a segment. None if it is not sound.
fn read_header(folder: &Folder, identity: Identity) -> Option<SegmentHeader> {
    let file = folder.open(&identity.file_name()).ok()?;
    let mut header = [0; HEADER_BYTES];
    let mut done = 0;
    while done < HEADER_BYTES {
        match file.read_at(done as u64, &mut header[done..]).ok()? {
            // One of an earlier version may be shorter.
            0 => break,
            more => done += more,
        }
    }
    SegmentHeader::read(&header[..done], identity)
}

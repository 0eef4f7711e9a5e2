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
use std::ops::ControlFlow;

use eventlog::disk::{Disk as _, DiskFile as _, Folder};
use eventlog::lane::LaneKind;
use eventlog::{
    Corruption, HEADER_BYTES, Identity, Index, Item, Problem, ReadError, Reader, Torn,
    encode_header, segments,
};

use crate::filter::Window;
use crate::place::Place;
use frames::{Frames, Stop};

pub use sweep::Part;

/// Who is told of records, one by one; breaking ends the walk.
pub type Visit<'v> = dyn FnMut(&Place, u8, &[u8]) -> ControlFlow<()> + 'v;

/// A lane as it stood when it was listed.
#[derive(Debug)]
pub struct Lane<'d> {
    kind: LaneKind,
    folder: &'d Folder,
    segments: Vec<Segment>,
    /// Files of other nodes.
    foreign: Vec<Corruption>,
}

/// A segment among its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    identity: Identity,
    /// First sequence of the next one; what is here from there on was written over by it.
    limit: Option<u64>,
    /// Whether the header of the next one is sound, so that `limit` is.
    is_bounded: bool,
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
}

/// Memory in which segments are read: one for all that a thread walks.
#[derive(Debug, Default)]
pub struct Room(Vec<u8>);

impl<'d> Lane<'d> {
    pub(crate) fn list(kind: LaneKind, folder: &'d Folder) -> Result<Self, ReadError> {
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
        let headers: Vec<_> = names.iter().map(|name| keep_from(folder, *name)).collect();
        // What was given away may be back after a loss of power, and is not wanted.
        let keep_from = headers.iter().rev().flatten().next().copied().unwrap_or(0);
        let unwanted = names.iter().skip(1).take_while(|next| next.first <= keep_from).count();
        let segment = |at: usize| Segment {
            identity: names[at],
            limit: names.get(at + 1).map(|next| next.first),
            is_bounded: headers.get(at + 1).is_none_or(Option::is_some),
        };
        let segments = (unwanted..names.len()).map(segment).collect();
        Ok(Self { kind, folder, segments, foreign })
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
        let Segment { identity, limit, is_bounded } = *segment;
        let mut frames = match Frames::open(self.folder, identity, &mut room.0) {
            Err(error) if is_gone(&error) => return Ok(Walked::default()),
            frames => frames?,
        };
        let bytes = frames.length();
        let mut walked = Walked { bytes, ..Walked::default() };
        let mut next = identity.first;
        if is_bounded && frames.has_sound_header()? {
            match frames.walk((limit, from), &mut next, visit)? {
                Stop::End => return Ok(walked),
                Stop::Told => {
                    walked.is_over = true;
                    return Ok(walked);
                }
                Stop::Damage => (),
            }
        }
        self.walk_damaged(segment, next.max(from), &mut walked, visit)?;
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
        for item in Reader::new(self.folder)?.seek(from)? {
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
                Ok(Item::Corruption(corruption)) if corruption.segment == name => {
                    walked.damage.corruptions.push(corruption);
                }
                // Of another segment, where it is told.
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

/// What the header of a segment says is still wanted; `None` when it is not sound.
fn keep_from(folder: &Folder, identity: Identity) -> Option<u64> {
    let file = folder.open(&identity.file_name()).ok()?;
    let mut header = [0; HEADER_BYTES];
    let mut done = 0;
    while done < HEADER_BYTES {
        match file.read_at(done as u64, &mut header[done..]).ok()? {
            0 => return None,
            more => done += more,
        }
    }
    sound(identity, &header)
}

/// What a sound header says is still wanted.
fn sound(identity: Identity, header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let keep_from = u64::from_le_bytes(*header[32..].first_chunk()?);
    (*header == encode_header(identity, keep_from)).then_some(keep_from)
}

//! Reads a log's segments in order: every sound record once, and a word about everything else.
//!
//! Changes nothing on the disk and holds at most a few segments in memory. Decides what is a torn
//! tail and what is damage: records carry how far the log was durable when they were appended, so
//! bytes that a later record proves durable are missed, and what nothing proves was never
//! acknowledged, or stands in the last batch, where the two cannot be told apart.

use std::collections::VecDeque;
use std::io;

use crate::bug::{Bug, planted};
use crate::disk::{Disk, DiskFile};
use crate::segment::{
    self, Found, Frame, HEADER_BYTES, Header, Identity, SEGMENT_BYTES_LIMIT, Scan,
};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The writer's incarnation that appended it.
    pub epoch: u64,
    /// Its number; one more than that of the record before.
    pub sequence: u64,
    /// The owner's.
    pub kind: u8,
    /// The owner's.
    pub payload: Vec<u8>,
}

/// What is wrong at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The segment's header is not one; its records were looked for all the same.
    #[error("the header is damaged")]
    Header,
    /// Bytes that are no record.
    #[error("no record stands here")]
    Garbage,
    /// A record whose payload changed.
    #[error("the payload of record {sequence} is damaged")]
    Payload {
        /// Which.
        sequence: u64,
    },
    /// Records that were durable and are nowhere.
    #[error("records {from} to {through} are missing")]
    Missing {
        /// The first of them.
        from: u64,
        /// The last of them.
        through: u64,
    },
    /// A record that was there before, in a segment that does not belong here.
    #[error("record {sequence} stands here once more")]
    Repeated {
        /// Which.
        sequence: u64,
    },
}

/// Durable bytes that the medium did not keep, or a file that is not the log's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{segment}, byte {offset}: {problem} ({bytes} bytes)")]
pub struct Corruption {
    /// Name of the file.
    pub segment: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes are concerned.
    pub bytes: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// The end of what was written before a crash: bytes that were not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{segment}, byte {offset}: {bytes} bytes of an unfinished write, {records} sound records among them"
)]
pub struct Torn {
    /// Name of the file.
    pub segment: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes there are.
    pub bytes: u64,
    /// Sound records behind the first that is not: dropped with it, for sequences have no holes.
    pub records: u64,
}

/// What a reader comes upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A sound record.
    Record(Record),
    /// Something durable was lost.
    Corruption(Corruption),
    /// An unfinished write; nothing comes after it.
    Torn(Torn),
}

/// Why reading ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system failed.
    #[error("{name} cannot be read: {source}")]
    Io {
        /// The file, or the directory.
        name: String,
        /// What the file system said.
        source: io::Error,
    },
    /// Written by a later release.
    #[error("{name} has format version {version}, known is {known}: use the release that wrote it",
        known = segment::FORMAT_VERSION)]
    Version {
        /// The file.
        name: String,
        /// Its version.
        version: u32,
    },
}

/// A segment in memory.
struct Loaded {
    identity: Identity,
    bytes: Vec<u8>,
    header: Header,
    /// A segment of this log beyond doubt: a good header, or a sound record under a bad one.
    /// What is not overrules nothing.
    trusted: bool,
}

/// The segment that is read.
struct Current {
    loaded: Loaded,
    scan: Scan,
    /// First sequence of the next segment: what is here from there on was written over by it.
    limit: Option<u64>,
    /// How far later records, here or in the next segment, prove the log durable; looked up at
    /// the first damage.
    proven: Option<u64>,
}

/// The last segment with something of this log in it.
pub(crate) struct Tail {
    pub identity: Identity,
    pub bytes: Vec<u8>,
    /// Where its good records end.
    pub end: usize,
}

/// Iterates over a directory.
pub struct Reader<'a, D: Disk> {
    disk: &'a D,
    names: VecDeque<Identity>,
    loaded: VecDeque<Loaded>,
    current: Option<Current>,
    ready: VecDeque<Item>,
    next: Option<u64>,
    tail: Option<Tail>,
    keep_from: u64,
    segments: Vec<Identity>,
    unborn: Vec<String>,
    epoch_max: u64,
}

/// What a start needs to know of the files, once they were read.
pub(crate) struct Files {
    /// The newest segment.
    pub tail: Option<Tail>,
    /// All segments in order, those first of which nothing is wanted.
    pub segments: Vec<Identity>,
    /// Files whose creation was cut short.
    pub unborn: Vec<String>,
    /// Records below are not wanted.
    pub keep_from: u64,
}

impl<'a, D: Disk> Reader<'a, D> {
    /// Over what is in the directory now.
    ///
    /// # Errors
    /// [`ReadError::Io`] when it cannot be listed.
    pub fn new(disk: &'a D) -> Result<Self, ReadError> {
        let listed = disk.list().map_err(|source| ReadError::Io { name: disk.place(), source })?;
        let mut names: Vec<_> =
            listed.iter().filter_map(|name| Identity::from_file_name(name)).collect();
        names.sort_unstable();
        let (keep_from, teller) = keep_from(disk, &names)?;
        // What was removed may be back after a loss of power.
        let wanted = |at: &usize| {
            names[at + 1..teller.max(at + 1)].iter().all(|next| next.first > keep_from)
        };
        let first = (0..names.len()).find(wanted).unwrap_or(0);
        let segments = names.drain(..first).collect();
        Ok(Self {
            disk,
            keep_from,
            epoch_max: names.last().map_or(0, |identity| identity.epoch),
            names: names.into(),
            loaded: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
            next: None,
            tail: None,
            segments,
            unborn: Vec::new(),
        })
    }

    /// Sequence that comes after all that was read.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next.unwrap_or(1)
    }

    /// The highest epoch that a file name tells.
    pub(crate) fn epoch_max(&self) -> u64 {
        self.epoch_max
    }

    /// To be called after the last item.
    pub(crate) fn finish(self) -> Files {
        let Self { tail, segments, unborn, keep_from, .. } = self;
        Files { tail, segments, unborn, keep_from }
    }

    /// Reads the next file of the list into memory.
    fn load(&mut self) -> Result<bool, ReadError> {
        let Some(identity) = self.names.pop_front() else { return Ok(false) };
        let (bytes, header) = read(self.disk, identity)?;
        let trusted = is_good(header) || has_record(identity, &bytes);
        if !trusted && bytes.len() <= HEADER_BYTES {
            // A segment's header is durable before anything is written behind it.
            self.unborn.push(identity.file_name());
        } else {
            self.loaded.push_back(Loaded { identity, bytes, header, trusted });
        }
        Ok(true)
    }

    /// Moves on to the next segment, when there is one.
    fn advance(&mut self) -> Result<bool, ReadError> {
        while !self.loaded.iter().skip(1).any(|loaded| loaded.trusted) && self.load()? {}
        let Some(loaded) = self.loaded.pop_front() else { return Ok(false) };
        if !is_good(loaded.header) {
            let bytes = if loaded.trusted { HEADER_BYTES } else { loaded.bytes.len() };
            self.corrupt(loaded.identity, 0..bytes, Problem::Header);
        }
        if !loaded.trusted {
            return Ok(true);
        }
        let limit =
            self.loaded.iter().find(|later| later.trusted).map(|later| later.identity.first);
        let scan = Scan::new(loaded.identity);
        self.next.get_or_insert(loaded.identity.first);
        self.segments.push(loaded.identity);
        if limit.is_none() {
            let (identity, end) = (loaded.identity, HEADER_BYTES);
            self.tail = Some(Tail { identity, bytes: Vec::new(), end });
        }
        self.current = Some(Current { loaded, scan, limit, proven: None });
        Ok(true)
    }

    fn corrupt(&mut self, identity: Identity, bytes: std::ops::Range<usize>, problem: Problem) {
        self.ready.push_back(Item::Corruption(Corruption {
            segment: identity.file_name(),
            offset: bytes.start as u64,
            bytes: bytes.len() as u64,
            problem,
        }));
    }

    /// Takes one step within the current segment.
    fn step(&mut self, mut current: Current) {
        let identity = current.loaded.identity;
        let next = self.next_sequence();
        match current.scan.next(&current.loaded.bytes) {
            None => self.end(current, None),
            Some(Found::Record(frame)) if overruled(&current, frame.sequence) => {
                self.end(current, None);
            }
            Some(Found::Record(frame)) => {
                self.record(&current, &frame);
                self.current = Some(current);
            }
            Some(Found::BadPayload { bytes, sequence }) => {
                if current.proven() < sequence {
                    return self.end(current, Some(bytes.start));
                }
                if sequence > next {
                    let problem = Problem::Missing { from: next, through: sequence - 1 };
                    self.corrupt(identity, bytes.start..bytes.start, problem);
                }
                self.corrupt(identity, bytes, Problem::Payload { sequence });
                self.next = Some(next.max(sequence + 1));
                self.current = Some(current);
            }
            Some(Found::Garbage { bytes }) => {
                if current.proven() < next {
                    return self.end(current, Some(bytes.start));
                }
                self.corrupt(identity, bytes, Problem::Garbage);
                self.current = Some(current);
            }
        }
    }

    fn record(&mut self, current: &Current, frame: &Frame) {
        let (identity, next) = (current.loaded.identity, self.next_sequence());
        let place = frame.offset..frame.payload.end;
        if frame.sequence < next {
            return self.corrupt(identity, place, Problem::Repeated { sequence: frame.sequence });
        }
        if frame.sequence > next {
            let problem = Problem::Missing { from: next, through: frame.sequence - 1 };
            self.corrupt(identity, frame.offset..frame.offset, problem);
        }
        self.next = Some(frame.sequence + 1);
        if let Some(tail) = &mut self.tail {
            tail.end = frame.payload.end.next_multiple_of(4).min(current.loaded.bytes.len());
        }
        self.ready.push_back(Item::Record(Record {
            epoch: identity.epoch,
            sequence: frame.sequence,
            kind: frame.kind,
            payload: current.loaded.bytes[frame.payload.clone()].to_vec(),
        }));
    }

    /// Ends the current segment, at `torn` when an unfinished write begins there.
    fn end(&mut self, current: Current, torn: Option<usize>) {
        let Loaded { identity, bytes, .. } = current.loaded;
        if let Some(limit) = current.limit {
            let from = self.next_sequence();
            if from < limit {
                let problem = Problem::Missing { from, through: limit - 1 };
                self.corrupt(identity, bytes.len()..bytes.len(), problem);
                self.next = Some(limit);
            }
            return;
        }
        if let Some(offset) = torn {
            let mut rest = Scan::new(identity);
            let found = std::iter::from_fn(|| rest.next(&bytes));
            let behind =
                |found: &Found| matches!(found, Found::Record(frame) if frame.offset > offset);
            self.ready.push_back(Item::Torn(Torn {
                segment: identity.file_name(),
                offset: offset as u64,
                records: found.filter(behind).count() as u64,
                bytes: (bytes.len() - offset) as u64,
            }));
        }
        if let Some(tail) = &mut self.tail {
            tail.bytes = bytes;
        }
    }
}

impl Current {
    fn proven(&mut self) -> u64 {
        let (scan, loaded) = (&self.scan, &self.loaded);
        *self.proven.get_or_insert_with(|| {
            let mut scan = scan.clone();
            let found = std::iter::from_fn(|| scan.next(&loaded.bytes));
            let durable = found.filter_map(|found| match found {
                Found::Record(frame) => Some(frame.durable),
                Found::BadPayload { .. } | Found::Garbage { .. } => None,
            });
            let here = durable.max().unwrap_or(0).max(loaded.identity.first - 1);
            match self.limit {
                // The next segment began behind what was durable, and overrules the rest.
                Some(limit) => limit - 1,
                None => here,
            }
        })
    }
}

fn read<D: Disk>(disk: &D, identity: Identity) -> Result<(Vec<u8>, Header), ReadError> {
    let name = identity.file_name();
    let read = disk.open(&name).and_then(|file| file.read(SEGMENT_BYTES_LIMIT));
    let bytes = read.map_err(|source| ReadError::Io { name: name.clone(), source })?;
    match segment::read_header(&bytes, identity) {
        Header::Version(version) => Err(ReadError::Version { name, version }),
        header => Ok((bytes, header)),
    }
}

fn is_good(header: Header) -> bool {
    matches!(header, Header::Good { .. })
}

/// What the newest sound header says is still wanted, and how many names there are up to it.
fn keep_from<D: Disk>(disk: &D, names: &[Identity]) -> Result<(u64, usize), ReadError> {
    for (at, identity) in names.iter().enumerate().rev() {
        if let (_, Header::Good { keep_from }) = read(disk, *identity)? {
            return Ok((keep_from, at + 1));
        }
    }
    Ok((0, 0))
}

fn overruled(current: &Current, sequence: u64) -> bool {
    current.limit.is_some_and(|limit| sequence >= limit) && !planted(Bug::KeepOverruled)
}

fn has_record(identity: Identity, bytes: &[u8]) -> bool {
    let mut scan = Scan::new(identity);
    std::iter::from_fn(|| scan.next(bytes)).any(|found| matches!(found, Found::Record(_)))
}

impl<D: Disk> Iterator for Reader<'_, D> {
    type Item = Result<Item, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if let Some(current) = self.current.take() {
                self.step(current);
                continue;
            }
            match self.advance() {
                Ok(true) => (),
                Ok(false) => return None,
                Err(error) => {
                    self.names.clear();
                    self.loaded.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

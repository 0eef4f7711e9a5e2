//! Reads a log's segments in order: every sound record once, and a word about everything else.
//!
//! Changes nothing on the disk and holds a window of one segment in memory. Decides what is a torn
//! tail and what is damage: records carry how far the log was durable when they were appended, so
//! bytes that a later record proves durable are missed, and what nothing proves was never
//! acknowledged, or stands in the last batch, where the two cannot be told apart.

mod follow;
mod listing;
mod newest;
mod seek;

use std::collections::VecDeque;
use std::ops::Range;

use crate::bug::{Bug, planted};
use crate::disk::{Disk, DiskFile};
use crate::end::{END_NAME, EndFile};
use crate::index::Builder;
use crate::item::{Corruption, Item, Problem, ReadError, Record, Torn};
use crate::scan::{Found, Scan};
use crate::segment::{Frame, HEADER_BYTES, Header, Identity, SEQUENCE_MAX, aligned};
use crate::source::{Source, WINDOW_BYTES};

pub use listing::segments;
use listing::{keep_from, list, sorted};
pub use newest::{begins, newest};
pub(crate) use seek::{times_ms, trusted_index};

/// A segment of which no more than the header was read, unless that is damaged.
struct Listed {
    identity: Identity,
    length: usize,
    header: Header,
    /// Where the first frame stands.
    frames_at: usize,
    /// A segment of this log beyond doubt: a good header, or a sound record under a bad one.
    /// What is not overrules nothing.
    trusted: bool,
}

/// The segment that is read.
struct Current<F> {
    source: Source<F>,
    scan: Scan,
    /// First sequence of the next segment: what is here from there on was written over by it.
    limit: Option<u64>,
    /// How far later records, here or in the next segment, prove the log durable; looked up at
    /// the first damage.
    proven: Option<u64>,
}

/// The last segment with something of this log in it.
pub(crate) struct Tail<F> {
    pub source: Source<F>,
    pub good: Good,
}

/// How far the last segment is good.
#[derive(Clone, Debug)]
pub(crate) struct Good {
    /// Where its good records end.
    pub end: usize,
    /// From here to the end no later record proves them durable.
    pub unproven: usize,
    /// Of the good records.
    pub index: Builder,
    /// The last of them; one less than the segment's first if it has none.
    pub last: u64,
    /// How many there are.
    pub records: u64,
}

impl Good {
    fn add(&mut self, frame: &Frame, end: usize) {
        if self.last <= frame.durable {
            self.unproven = frame.offset;
        }
        (self.last, self.end) = (frame.sequence, end);
        self.records += 1;
        self.index.add(frame.offset, frame.sequence, (frame.kind, frame.time_ms));
    }
}

/// Iterates over a directory.
pub struct Reader<'a, D: Disk> {
    disk: &'a D,
    window_bytes: usize,
    /// Entries of the index that is gathered of the newest segment.
    index_every_bytes: usize,
    names: VecDeque<Identity>,
    listed: VecDeque<Listed>,
    current: Option<Current<D::File>>,
    ready: VecDeque<Item>,
    next: Option<u64>,
    good: Option<Good>,
    tail: Option<Source<D::File>>,
    keep_from: u64,
    /// What the log is known to have held, whatever its segments prove.
    end: EndFile,
    /// Every sequence up to here was durable once.
    known: u64,
    segments: Vec<Identity>,
    unborn: Vec<String>,
    epoch_max: u64,
    /// Records below are read and not told.
    told_from: u64,
    indexes: Vec<Identity>,
    orphans: Vec<Identity>,
    /// Where a reader goes on that follows.
    place: Option<Place>,
}

/// What a start needs to know of the files, once they were read.
pub(crate) struct Files<F> {
    /// The newest segment.
    pub tail: Option<Tail<F>>,
    /// All segments in order, those first of which nothing is wanted.
    pub segments: Vec<Identity>,
    /// Files whose creation was cut short.
    pub unborn: Vec<String>,
    /// Records below are not wanted.
    pub keep_from: u64,
    /// Segments that have an index.
    pub indexes: Vec<Identity>,
    /// Segments that are gone, and left their index.
    pub orphans: Vec<Identity>,
    /// How far the log is known to have reached.
    pub end: EndFile,
}

/// How far a reader came.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// No segment up to here is looked at again.
    passed: Option<Identity>,
    /// The last one that was read.
    identity: Option<Identity>,
    /// What was not told of it begins here.
    offset: usize,
}

impl<'a, D: Disk> Reader<'a, D> {
    /// Over what is in the directory now, which is the log of the node that its newest segment
    /// names.
    ///
    /// # Errors
    /// [`ReadError::Io`] when it cannot be listed; [`ReadError::Version`].
    pub fn new(disk: &'a D) -> Result<Self, ReadError> {
        Self::with_window(disk, WINDOW_BYTES)
    }

    /// As [`Self::new`], holding `window_bytes` of a segment in memory, or one record.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_window(disk: &'a D, window_bytes: usize) -> Result<Self, ReadError> {
        // In this order: a writer beside this reader only adds to what its end says.
        let end = EndFile::read_known(disk)?;
        Ok(Self::over(disk, segments(disk)?, window_bytes)?.knowing(end))
    }

    /// Over the log of `node`, for its writer.
    pub(crate) fn of_node(
        disk: &'a D,
        node: u32,
        (window_bytes, index_every_bytes): (usize, usize),
    ) -> Result<Self, ReadError> {
        let end = EndFile::read_known(disk)?;
        let listed = list(disk)?;
        let names = sorted(&listed, Identity::from_file_name);
        match names.last() {
            Some(newest) if newest.node != node => {
                let name = newest.file_name();
                Err(ReadError::OtherNode { name, node: newest.node, known: node })
            }
            _ => {
                let (indexes, orphans) = sorted(&listed, Identity::from_index_name)
                    .into_iter()
                    .partition(|index| names.binary_search(index).is_ok());
                let reader = Self::over(disk, names, window_bytes)?.knowing(end);
                Ok(Self { index_every_bytes, indexes, orphans, ..reader })
            }
        }
    }

    fn over(disk: &'a D, mut names: Vec<Identity>, window_bytes: usize) -> Result<Self, ReadError> {
        let node = names.last().map(|newest| newest.node);
        let (mut reader, mut others) = (Self::empty(disk, window_bytes), Vec::new());
        names.retain(|name| {
            let own = Some(name.node) == node;
            others.extend((!own).then_some(*name));
            own
        });
        for other in others {
            let bytes = Source::open(disk, other, 0)?.length();
            reader.corrupt(other, 0..bytes, Problem::OtherNode { node: other.node });
        }
        let (keep_from, teller) = keep_from(disk, &names)?;
        // What was removed may be back after a loss of power.
        let wanted = |at: &usize| {
            names[at + 1..teller.max(at + 1)].iter().all(|next| next.first > keep_from)
        };
        let first = (0..names.len()).find(wanted).unwrap_or(0);
        // What nobody declared unwanted is there, where the newest header is to be believed.
        let from = keep_from.max(1);
        if let Some(oldest) = names.get(first).filter(|it| teller == names.len() && it.first > from)
        {
            let problem = Problem::Missing { from, through: oldest.first - 1 };
            reader.corrupt(*oldest, 0..0, problem);
        }
        reader.segments = names.drain(..first).collect();
        reader.keep_from = keep_from;
        reader.epoch_max = names.last().map_or(0, |identity| identity.epoch);
        reader.names = names.into();
        Ok(reader)
    }

    fn empty(disk: &'a D, window_bytes: usize) -> Self {
        Self {
            disk,
            window_bytes,
            index_every_bytes: usize::MAX,
            told_from: 0,
            indexes: Vec::new(),
            orphans: Vec::new(),
            names: VecDeque::new(),
            listed: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
            next: None,
            good: None,
            tail: None,
            keep_from: 0,
            end: EndFile::Absent,
            known: 0,
            segments: Vec::new(),
            unborn: Vec::new(),
            epoch_max: 0,
            place: None,
        }
    }

    /// Takes the end of the log from `end`: records up to it that are not found are reported as missing,
    /// not as an unfinished write.
    fn knowing(mut self, end: EndFile) -> Self {
        let node = self.names.back().map(|newest| newest.node);
        let reaches = end.of_node(node).filter(|_| !planted(Bug::IgnoreEnd));
        self.end = end;
        self.proven_through(reaches.map_or(0, |end| end.last))
    }

    /// Every sequence up to this one is known to have been durable, from elsewhere: what of them
    /// is not there is missing, and not an unfinished write. To be called before the first item, and
    /// not for a reader that follows.
    #[must_use]
    pub fn proven_through(mut self, sequence: u64) -> Self {
        // What says more is no sequence of a log, and must not wrap the next one.
        self.known = self.known.max(sequence.min(SEQUENCE_MAX));
        self
    }

    /// Passes over all segments but the newest, of which it reads no more than the headers. One
    /// whose header is damaged is none then, for its records would have to be looked for.
    pub(crate) fn skip_to_newest(&mut self) -> Result<(), ReadError> {
        let mut newest = None;
        for (at, identity) in self.names.iter().enumerate().rev() {
            if self.examine(*identity)?.trusted || planted(Bug::TrustNewestName) {
                newest = Some(at);
                break;
            }
        }
        let older: Vec<_> = self.names.drain(..newest.unwrap_or(0)).collect();
        for identity in older {
            let source = Source::open(self.disk, identity, self.window_bytes)?;
            if is_good(source.header()?) {
                self.segments.push(identity);
            } else if source.length() <= HEADER_BYTES {
                self.unborn.push(identity.file_name());
            }
        }
        Ok(())
    }

    /// Sequence that comes after all that was read.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next.unwrap_or(1)
    }

    /// The highest epoch that is known to have been used: by a file name, or by the file of the end.
    pub(crate) fn epoch_max(&self) -> u64 {
        let end = self.end.of_node(None).map_or(0, |end| end.newest.epoch);
        self.epoch_max.max(end)
    }

    /// To be called after the last item.
    pub(crate) fn finish(self) -> Files<D::File> {
        let Self { tail, good, segments, unborn, keep_from, indexes, orphans, end, .. } = self;
        let tail = tail.zip(good).map(|(source, good)| Tail { source, good });
        Files { tail, segments, unborn, keep_from, indexes, orphans, end }
    }

    /// Looks at a file's header, and for a record if that is damaged.
    fn examine(&self, identity: Identity) -> Result<Listed, ReadError> {
        let mut source = Source::open(self.disk, identity, self.window_bytes)?;
        let header = source.header()?;
        let frames_at = match header {
            Header::Good { before: Some(_), .. } => HEADER_BYTES,
            _ => source.frames_at()?,
        };
        let trusted = is_good(header) || has_record(&mut source, frames_at)?;
        Ok(Listed { identity, length: source.length(), header, frames_at, trusted })
    }

    /// Looks at the next file of the list.
    fn list(&mut self) -> Result<bool, ReadError> {
        let Some(identity) = self.names.pop_front() else { return Ok(false) };
        let listed = match self.examine(identity) {
            // It was removed since, and so were those before it.
            Err(error) if error.is_not_found() => return Ok(true),
            listed => listed?,
        };
        if !listed.trusted && listed.length <= HEADER_BYTES {
            // A segment's header is durable before anything is written behind it.
            self.unborn.push(identity.file_name());
        } else {
            self.listed.push_back(listed);
        }
        Ok(true)
    }

    /// Moves on to the next segment, when there is one.
    fn advance(&mut self) -> Result<bool, ReadError> {
        while !self.listed.iter().skip(1).any(|listed| listed.trusted) && self.list()? {}
        let Some(Listed { identity, length, header, frames_at, trusted }) = self.listed.pop_front()
        else {
            return Ok(self.tell_all_missing());
        };
        self.passed(identity);
        if !is_good(header) {
            let bytes = if trusted { length.min(HEADER_BYTES) } else { length };
            self.corrupt(identity, 0..bytes, Problem::Header);
        }
        if !trusted {
            return Ok(true);
        }
        let limit =
            self.listed.iter().find(|later| later.trusted).map(|later| later.identity.first);
        let source = match Source::open(self.disk, identity, self.window_bytes) {
            Err(error) if error.is_not_found() => {
                self.next = None;
                return Ok(true);
            }
            opened => opened?,
        };
        self.next.get_or_insert(identity.first);
        self.segments.push(identity);
        let Some(start) = self.start_within(&source, frames_at, limit) else { return Ok(true) };
        self.came_to(identity, start.0);
        let scan = Scan::starting_at(identity, source.length(), start);
        if limit.is_none() {
            let (end, last) = (start.0, identity.first - 1);
            let index = Builder::new(identity, self.index_every_bytes);
            self.good = Some(Good { end, unproven: end, index, last, records: 0 });
        }
        self.current = Some(Current { source, scan, limit, proven: None });
        Ok(true)
    }

    /// Tells what is known to have been there where no segment is left; whether that is any.
    fn tell_all_missing(&mut self) -> bool {
        let has_read = self.next.is_some() || !self.segments.is_empty();
        let known = self.known_behind(None);
        if has_read || self.place.is_some() || known == 0 {
            return false;
        }
        let from = self.end.of_node(None).map_or(1, |end| end.last + 1 - end.chain.records);
        let from = from.min(known);
        self.ready.push_back(Item::Corruption(Corruption {
            segment: END_NAME.to_owned(),
            offset: 0,
            bytes: 0,
            problem: Problem::Missing { from, through: known },
        }));
        self.next = Some(known + 1);
        true
    }

    /// The last sequence that may have been given, where the newest segment that is there is `newest`.
    fn known_behind(&self, newest: Option<Identity>) -> u64 {
        let end = self.end.of_node(newest.map(|newest| newest.node));
        let end = end.filter(|_| !planted(Bug::IgnoreEnd));
        self.known.max(end.and_then(|end| end.lost_through(newest)).unwrap_or(0))
    }

    fn corrupt(&mut self, identity: Identity, bytes: Range<usize>, problem: Problem) {
        self.ready.push_back(Item::Corruption(Corruption {
            segment: identity.file_name(),
            offset: bytes.start as u64,
            bytes: bytes.len() as u64,
            problem,
        }));
    }

    /// Takes one step within the current segment.
    fn step(&mut self, mut current: Current<D::File>) -> Result<(), ReadError> {
        let identity = current.source.identity();
        let next = self.next_sequence();
        match current.source.next(&mut current.scan)? {
            None => return self.end(current, None),
            Some(Found::Record(frame)) if overruled(&current, frame.sequence) => {
                return self.end(current, None);
            }
            Some(Found::Record(frame)) => self.record(&current, &frame),
            Some(Found::BadPayload { bytes, sequence }) => {
                if current.proven(self.known)? < sequence {
                    return self.end(current, Some(bytes.start));
                }
                if sequence > next {
                    let problem = Problem::Missing { from: next, through: sequence - 1 };
                    self.corrupt(identity, bytes.start..bytes.start, problem);
                }
                self.corrupt(identity, bytes, Problem::Payload { sequence });
                self.next = Some(next.max(sequence + 1));
            }
            Some(Found::Garbage { bytes }) => {
                if current.proven(self.known)? < next {
                    return self.end(current, Some(bytes.start));
                }
                self.corrupt(identity, bytes, Problem::Garbage);
            }
        }
        self.current = Some(current);
        Ok(())
    }

    fn record(&mut self, current: &Current<D::File>, frame: &Frame) {
        let (identity, next) = (current.source.identity(), self.next_sequence());
        let place = frame.offset..frame.payload.end;
        self.came_to(identity, aligned(frame.payload.end));
        if frame.sequence < next {
            return self.corrupt(identity, place, Problem::Repeated { sequence: frame.sequence });
        }
        if frame.sequence > next {
            let problem = Problem::Missing { from: next, through: frame.sequence - 1 };
            self.corrupt(identity, frame.offset..frame.offset, problem);
        }
        self.next = Some(frame.sequence + 1);
        if let Some(good) = &mut self.good {
            good.add(frame, aligned(frame.payload.end).min(current.source.length()));
        }
        if frame.sequence < self.told_from {
            return;
        }
        self.ready.push_back(Item::Record(Record {
            epoch: identity.epoch,
            sequence: frame.sequence,
            time_ms: frame.time_ms,
            kind: frame.kind,
            payload: current.source.held(&frame.payload).to_vec(),
        }));
    }

    /// Ends the current segment, at `torn` when an unfinished write begins there.
    fn end(&mut self, mut current: Current<D::File>, torn: Option<usize>) -> Result<(), ReadError> {
        let (identity, length) = (current.source.identity(), current.source.length());
        if let Some(limit) = current.limit {
            let (next, follows) = (self.next_sequence(), self.place.is_some());
            let from = if follows { next.max(self.keep_from) } else { next };
            if from < limit {
                let problem = Problem::Missing { from, through: limit - 1 };
                self.corrupt(identity, length..length, problem);
            }
            // What was told from there on had not been made durable, and never was.
            self.next = Some(if follows { limit } else { next.max(limit) });
            return Ok(());
        }
        if let Some(offset) = torn
            && self.place.is_none()
        {
            let mut records = 0;
            while let Some(found) = current.source.next(&mut current.scan)? {
                records += u64::from(matches!(found, Found::Record(_)));
            }
            self.ready.push_back(Item::Torn(Torn {
                segment: identity.file_name(),
                offset: offset as u64,
                records,
                bytes: (length - offset) as u64,
            }));
        }
        let next = self.next_sequence();
        let known = self.known_behind(Some(identity));
        if self.place.is_none() && next <= known {
            let problem = Problem::Missing { from: next, through: known };
            self.corrupt(identity, length..length, problem);
            self.next = Some(known + 1);
        }
        self.tail = Some(current.source);
        Ok(())
    }
}

impl<F: DiskFile> Current<F> {
    fn proven(&mut self, known: u64) -> Result<u64, ReadError> {
        if let Some(proven) = self.proven {
            return Ok(proven);
        }
        let mut proven = self.source.identity().first - 1;
        match self.limit {
            // The next segment began behind what was durable, and overrules the rest.
            Some(limit) => proven = limit - 1,
            None => {
                proven = proven.max(known);
                let mut scan = self.scan.clone();
                while let Some(found) = self.source.next(&mut scan)? {
                    if let Found::Record(frame) = found {
                        proven = proven.max(frame.durable);
                    }
                }
            }
        }
        Ok(*self.proven.insert(proven))
    }
}

fn is_good(header: Header) -> bool {
    matches!(header, Header::Good { .. })
}

fn overruled<F>(current: &Current<F>, sequence: u64) -> bool {
    current.limit.is_some_and(|limit| sequence >= limit) && !planted(Bug::KeepOverruled)
}

fn has_record<F: DiskFile>(source: &mut Source<F>, frames_at: usize) -> Result<bool, ReadError> {
    let mut scan = Scan::new(source.identity(), source.length(), frames_at);
    while let Some(found) = source.next(&mut scan)? {
        if matches!(found, Found::Record(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<D: Disk> Iterator for Reader<'_, D> {
    type Item = Result<Item, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            let moved = match self.current.take() {
                Some(current) => self.step(current).map(|()| true),
                None => self.advance(),
            };
            match moved {
                Ok(true) => (),
                Ok(false) => return None,
                Err(error) if self.was_cut(&error) => {
                    if let Err(error) = self.resume() {
                        return Some(Err(error));
                    }
                }
                Err(error) => {
                    self.names.clear();
                    self.listed.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

//! Reads a log's segments in order: every sound record once, and every damage with its place.
//!
//! Changes nothing on disk; holds a window of one segment in memory. Distinguishes a torn tail from
//! damage: each record states how far the log was durable when it was appended. Bytes that a later
//! record proves durable are damage; others were never acknowledged, or belong to the last batch,
//! where the two look alike.

mod follow;
mod listing;
mod newest;
mod seek;

use std::collections::VecDeque;
use std::ops::Range;

use crate::disk::{Disk, DiskFile};
use crate::end::{END_NAME, EndFile};
use crate::index::IndexBuilder;
use crate::item::{Corruption, CorruptionKind, LogEntry, LogReadError, LogRecord, TornTail};
use crate::scan::{FrameScan, ScanItem};
use crate::segment::{HEADER_BYTES, Header, LogFrame, SEQUENCE_MAX, SegmentId, aligned};
use crate::source::{SegmentSource, WINDOW_BYTES};

pub use listing::segments;
use listing::{keep_from, list, sorted};
pub use newest::{begins, begins_since, newest};
pub(crate) use seek::{times_ms, trusted_index};

/// A segment of which only the header was read, unless that is damaged.
struct ListedSegment {
    identity: SegmentId,
    length: usize,
    header: Header,
    /// Offset of the first frame.
    frames_at: usize,
    /// Whether it certainly belongs to this log: a good header, or a sound record after a bad one.
    /// A segment that does not overrules nothing.
    trusted: bool,
}

/// The segment being read.
struct CurrentSegment<F> {
    source: SegmentSource<F>,
    scan: FrameScan,
    /// First sequence of the next segment, which overrules this one from there on.
    limit: Option<u64>,
    /// How far later records prove the log durable. Computed at the first damage.
    proven: Option<u64>,
}

/// The last segment with content of this log.
pub(crate) struct SegmentTail<F> {
    pub source: SegmentSource<F>,
    pub good: GoodPrefix,
}

/// The good part of the last segment.
#[derive(Clone, Debug)]
pub(crate) struct GoodPrefix {
    /// End of its good records.
    pub end: usize,
    /// No later record proves the bytes from here to `end` durable.
    pub unproven: usize,
    pub index: IndexBuilder,
    /// Sequence of the last good record; before the first, one less than the segment's first.
    pub last: u64,
    /// Number of good records.
    pub records: u64,
}

impl GoodPrefix {
    fn add(&mut self, frame: &LogFrame, end: usize) {
        if self.last <= frame.durable {
            self.unproven = frame.offset;
        }
        (self.last, self.end) = (frame.sequence, end);
        self.records += 1;
        self.index.add(frame.offset, frame.sequence, frame.kind, frame.time_ms);
    }
}

/// Iterates over the log in a directory.
pub struct LogReader<'a, D: Disk> {
    disk: &'a D,
    window_bytes: usize,
    /// Distance of entries in the index built for the newest segment.
    index_every_bytes: usize,
    names: VecDeque<SegmentId>,
    listed: VecDeque<ListedSegment>,
    current: Option<CurrentSegment<D::File>>,
    ready: VecDeque<LogEntry>,
    next: Option<u64>,
    good: Option<GoodPrefix>,
    tail: Option<SegmentSource<D::File>>,
    keep_from: u64,
    /// How far the log is known to have reached, whatever its segments prove.
    end: EndFile,
    /// Every sequence up to here was durable.
    known: u64,
    segments: Vec<SegmentId>,
    unborn: Vec<String>,
    epoch_max: u64,
    /// Earlier records are read but not yielded.
    emit_from: u64,
    indexes: Vec<SegmentId>,
    orphans: Vec<SegmentId>,
    /// Where a following reader continues.
    place: Option<FollowPosition>,
}

/// What a writer needs to know of the files after reading them.
pub(crate) struct RecoveredFiles<F> {
    /// The newest segment.
    pub tail: Option<SegmentTail<F>>,
    /// All segments in order, unwanted ones first.
    pub segments: Vec<SegmentId>,
    /// Files whose creation was interrupted.
    pub unborn: Vec<String>,
    /// Records below are not wanted.
    pub keep_from: u64,
    /// Segments that have an index.
    pub indexes: Vec<SegmentId>,
    /// Removed segments whose index is left.
    pub orphans: Vec<SegmentId>,
    /// How far the log is known to have reached.
    pub end: EndFile,
}

/// How far a following reader has come.
#[derive(Clone, Copy, Debug, Default)]
struct FollowPosition {
    /// Segments up to this one are not read again.
    passed: Option<SegmentId>,
    /// The last segment that was read.
    identity: Option<SegmentId>,
    /// Offset of what has not been yielded yet.
    offset: usize,
}

impl<'a, D: Disk> LogReader<'a, D> {
    /// Reads what is in the directory now: the log of the node that its newest segment names.
    pub fn new(disk: &'a D) -> Result<Self, LogReadError> {
        Self::with_window(disk, WINDOW_BYTES)
    }

    /// As [`Self::new`], with `window_bytes` of a segment in memory, or one record if longer.
    pub fn with_window(disk: &'a D, window_bytes: usize) -> Result<Self, LogReadError> {
        // In this order: a concurrent writer only adds to what `end` states.
        let end = EndFile::read_known(disk)?;
        Ok(Self::over(disk, segments(disk)?, window_bytes)?.knowing(end))
    }

    /// For the writer of `node`'s log.
    pub(crate) fn of_node(
        disk: &'a D,
        node: u32,
        window_bytes: usize,
        index_every_bytes: usize,
    ) -> Result<Self, LogReadError> {
        let end = EndFile::read_known(disk)?;
        let listed = list(disk)?;
        let names = sorted(&listed, SegmentId::from_file_name);
        match names.last() {
            Some(newest) if newest.node != node => {
                let name = newest.file_name();
                Err(LogReadError::OtherNode { name, node: newest.node, known: node })
            }
            _ => {
                let (indexes, orphans) = sorted(&listed, SegmentId::from_index_name)
                    .into_iter()
                    .partition(|index| names.binary_search(index).is_ok());
                let reader = Self::over(disk, names, window_bytes)?.knowing(end);
                Ok(Self { index_every_bytes, indexes, orphans, ..reader })
            }
        }
    }

    fn over(
        disk: &'a D,
        mut names: Vec<SegmentId>,
        window_bytes: usize,
    ) -> Result<Self, LogReadError> {
        let node = names.last().map(|newest| newest.node);
        let (mut reader, mut others) = (Self::empty(disk, window_bytes), Vec::new());
        names.retain(|name| {
            let own = Some(name.node) == node;
            others.extend((!own).then_some(*name));
            own
        });
        for other in others {
            let bytes = SegmentSource::open(disk, other, 0)?.length();
            reader.corrupt(other, 0..bytes, CorruptionKind::OtherNode { node: other.node });
        }
        let (keep_from, teller) = keep_from(disk, &names)?;
        // Removed files may return after a power loss.
        let wanted = |at: &usize| {
            names[at + 1..teller.max(at + 1)].iter().all(|next| next.first > keep_from)
        };
        let first = (0..names.len()).find(wanted).unwrap_or(0);
        // If the newest header is sound, everything not declared unwanted must be there.
        let from = keep_from.max(1);
        if let Some(oldest) = names.get(first).filter(|it| teller == names.len() && it.first > from)
        {
            let problem = CorruptionKind::Missing { from, through: oldest.first - 1 };
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
            emit_from: 0,
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

    /// Takes the log's reach from `end`: missing records up to it are reported as lost, not as an
    /// unfinished write.
    fn knowing(mut self, end: EndFile) -> Self {
        let node = self.names.back().map(|newest| newest.node);
        let reaches = end.of_node(node);
        self.end = end;
        self.proven_through(reaches.map_or(0, |end| end.last))
    }

    /// Every sequence up to this one is known to have been durable: a missing one is lost, and not
    /// part of an unfinished write. Call this before the first entry, and not for a following
    /// reader.
    #[must_use]
    pub fn proven_through(mut self, sequence: u64) -> Self {
        // A higher number is not a sequence, and must not overflow the next one.
        self.known = self.known.max(sequence.min(SEQUENCE_MAX));
        self
    }

    /// Skips all segments but the newest, reading only their headers. A segment with a damaged
    /// header does not count as the newest, since its records would have to be searched.
    pub(crate) fn skip_to_newest(&mut self) -> Result<(), LogReadError> {
        let mut newest = None;
        for (at, identity) in self.names.iter().enumerate().rev() {
            if self.examine(*identity)?.trusted {
                newest = Some(at);
                break;
            }
        }
        let older: Vec<_> = self.names.drain(..newest.unwrap_or(0)).collect();
        for identity in older {
            let source = SegmentSource::open(self.disk, identity, self.window_bytes)?;
            if is_good(source.header()?) {
                self.segments.push(identity);
            } else if source.length() <= HEADER_BYTES {
                self.unborn.push(identity.file_name());
            }
        }
        Ok(())
    }

    /// Sequence after everything that was read.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next.unwrap_or(1)
    }

    /// The highest epoch known to be used, by a file name or by `end`.
    pub(crate) fn epoch_max(&self) -> u64 {
        let end = self.end.of_node(None).map_or(0, |end| end.newest.epoch);
        self.epoch_max.max(end)
    }

    /// Call this after the last entry.
    pub(crate) fn finish(self) -> RecoveredFiles<D::File> {
        let Self { tail, good, segments, unborn, keep_from, indexes, orphans, end, .. } = self;
        let tail = tail.zip(good).map(|(source, good)| SegmentTail { source, good });
        RecoveredFiles { tail, segments, unborn, keep_from, indexes, orphans, end }
    }

    /// Reads a file's header, and looks for a record if the header is damaged.
    fn examine(&self, identity: SegmentId) -> Result<ListedSegment, LogReadError> {
        let mut source = SegmentSource::open(self.disk, identity, self.window_bytes)?;
        let header = source.header()?;
        let frames_at = match header {
            Header::Good { before: Some(_), .. } => HEADER_BYTES,
            _ => source.frames_at()?,
        };
        let trusted = is_good(header) || has_record(&mut source, frames_at)?;
        Ok(ListedSegment { identity, length: source.length(), header, frames_at, trusted })
    }

    /// Examines the next file.
    fn list(&mut self) -> Result<bool, LogReadError> {
        let Some(identity) = self.names.pop_front() else { return Ok(false) };
        let listed = match self.examine(identity) {
            // It was removed meanwhile, and all before it.
            Err(error) if error.is_not_found() => return Ok(true),
            listed => listed?,
        };
        if !listed.trusted && listed.length <= HEADER_BYTES {
            // A segment's header is durable before anything is written after it.
            self.unborn.push(identity.file_name());
        } else {
            self.listed.push_back(listed);
        }
        Ok(true)
    }

    /// Moves on to the next segment, if there is one.
    fn advance(&mut self) -> Result<bool, LogReadError> {
        while !self.listed.iter().skip(1).any(|listed| listed.trusted) && self.list()? {}
        let Some(ListedSegment { identity, length, header, frames_at, trusted }) =
            self.listed.pop_front()
        else {
            return Ok(self.tell_all_missing());
        };
        self.passed(identity);
        if !is_good(header) {
            let bytes = if trusted { length.min(HEADER_BYTES) } else { length };
            self.corrupt(identity, 0..bytes, CorruptionKind::Header);
        }
        if !trusted {
            return Ok(true);
        }
        let limit =
            self.listed.iter().find(|later| later.trusted).map(|later| later.identity.first);
        let source = match SegmentSource::open(self.disk, identity, self.window_bytes) {
            Err(error) if error.is_not_found() => {
                self.next = None;
                return Ok(true);
            }
            opened => opened?,
        };
        self.next.get_or_insert(identity.first);
        self.segments.push(identity);
        let Some((offset, sequence)) = self.start_within(&source, frames_at, limit) else {
            return Ok(true);
        };
        self.came_to(identity, offset);
        let scan = FrameScan::starting_at(identity, source.length(), offset, sequence);
        if limit.is_none() {
            let (end, last) = (offset, identity.first - 1);
            let index = IndexBuilder::new(identity, self.index_every_bytes);
            self.good = Some(GoodPrefix { end, unproven: end, index, last, records: 0 });
        }
        self.current = Some(CurrentSegment { source, scan, limit, proven: None });
        Ok(true)
    }

    /// Reports everything known to have been durable as missing, if there is no segment. Returns
    /// whether there was anything to report.
    fn tell_all_missing(&mut self) -> bool {
        let has_read = self.next.is_some() || !self.segments.is_empty();
        let known = self.known_behind(None);
        if has_read || self.place.is_some() || known == 0 {
            return false;
        }
        let from = self.end.of_node(None).map_or(1, |end| end.last + 1 - end.chain.records);
        let from = from.min(known);
        self.ready.push_back(LogEntry::Corruption(Corruption {
            segment: END_NAME.to_owned(),
            offset: 0,
            bytes: 0,
            problem: CorruptionKind::Missing { from, through: known },
        }));
        self.next = Some(known + 1);
        true
    }

    /// The last sequence that may have been used, given the newest segment found.
    fn known_behind(&self, newest: Option<SegmentId>) -> u64 {
        let end = self.end.of_node(newest.map(|newest| newest.node));
        self.known.max(end.and_then(|end| end.lost_through(newest)).unwrap_or(0))
    }

    fn corrupt(&mut self, identity: SegmentId, bytes: Range<usize>, problem: CorruptionKind) {
        self.ready.push_back(LogEntry::Corruption(Corruption {
            segment: identity.file_name(),
            offset: bytes.start as u64,
            bytes: bytes.len() as u64,
            problem,
        }));
    }

    /// Takes one step within the current segment.
    fn step(&mut self, mut current: CurrentSegment<D::File>) -> Result<(), LogReadError> {
        let identity = current.source.identity();
        let next = self.next_sequence();
        match current.source.next(&mut current.scan)? {
            None => return self.end(current, None),
            Some(ScanItem::Record(frame)) if overruled(&current, frame.sequence) => {
                return self.end(current, None);
            }
            Some(ScanItem::Record(frame)) => self.record(&current, &frame),
            Some(ScanItem::BadPayload { bytes, sequence }) => {
                if current.proven(self.known)? < sequence {
                    return self.end(current, Some(bytes.start));
                }
                if sequence > next {
                    let problem = CorruptionKind::Missing { from: next, through: sequence - 1 };
                    self.corrupt(identity, bytes.start..bytes.start, problem);
                }
                self.corrupt(identity, bytes, CorruptionKind::Payload { sequence });
                self.next = Some(next.max(sequence + 1));
            }
            Some(ScanItem::Garbage { bytes }) => {
                if current.proven(self.known)? < next {
                    return self.end(current, Some(bytes.start));
                }
                self.corrupt(identity, bytes, CorruptionKind::Garbage);
            }
        }
        self.current = Some(current);
        Ok(())
    }

    fn record(&mut self, current: &CurrentSegment<D::File>, frame: &LogFrame) {
        let (identity, next) = (current.source.identity(), self.next_sequence());
        let place = frame.offset..frame.payload.end;
        self.came_to(identity, aligned(frame.payload.end));
        if frame.sequence < next {
            return self.corrupt(
                identity,
                place,
                CorruptionKind::Repeated { sequence: frame.sequence },
            );
        }
        if frame.sequence > next {
            let problem = CorruptionKind::Missing { from: next, through: frame.sequence - 1 };
            self.corrupt(identity, frame.offset..frame.offset, problem);
        }
        self.next = Some(frame.sequence + 1);
        if let Some(good) = &mut self.good {
            good.add(frame, aligned(frame.payload.end).min(current.source.length()));
        }
        if frame.sequence < self.emit_from {
            return;
        }
        self.ready.push_back(LogEntry::Record(LogRecord {
            epoch: identity.epoch,
            sequence: frame.sequence,
            time_ms: frame.time_ms,
            kind: frame.kind,
            payload: current.source.held(&frame.payload).to_vec(),
        }));
    }

    /// Ends the current segment; an unfinished write begins at `torn`.
    fn end(
        &mut self,
        mut current: CurrentSegment<D::File>,
        torn: Option<usize>,
    ) -> Result<(), LogReadError> {
        let (identity, length) = (current.source.identity(), current.source.length());
        if let Some(limit) = current.limit {
            let (next, follows) = (self.next_sequence(), self.place.is_some());
            let from = if follows { next.max(self.keep_from) } else { next };
            if from < limit {
                let problem = CorruptionKind::Missing { from, through: limit - 1 };
                self.corrupt(identity, length..length, problem);
            }
            // Records yielded from there on were never durable.
            self.next = Some(if follows { limit } else { next.max(limit) });
            return Ok(());
        }
        if let Some(offset) = torn
            && self.place.is_none()
        {
            let mut records = 0;
            while let Some(found) = current.source.next(&mut current.scan)? {
                records += u64::from(matches!(found, ScanItem::Record(_)));
            }
            self.ready.push_back(LogEntry::Torn(TornTail {
                segment: identity.file_name(),
                offset: offset as u64,
                records,
                bytes: (length - offset) as u64,
            }));
        }
        let next = self.next_sequence();
        let known = self.known_behind(Some(identity));
        if self.place.is_none() && next <= known {
            let problem = CorruptionKind::Missing { from: next, through: known };
            self.corrupt(identity, length..length, problem);
            self.next = Some(known + 1);
        }
        self.tail = Some(current.source);
        Ok(())
    }
}

impl<F: DiskFile> CurrentSegment<F> {
    fn proven(&mut self, known: u64) -> Result<u64, LogReadError> {
        if let Some(proven) = self.proven {
            return Ok(proven);
        }
        let mut proven = self.source.identity().first - 1;
        match self.limit {
            // The next segment began after what was durable, and overrules the rest.
            Some(limit) => proven = limit - 1,
            None => {
                proven = proven.max(known);
                let mut scan = self.scan.clone();
                while let Some(found) = self.source.next(&mut scan)? {
                    if let ScanItem::Record(frame) = found {
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

fn overruled<F>(current: &CurrentSegment<F>, sequence: u64) -> bool {
    current.limit.is_some_and(|limit| sequence >= limit)
}

fn has_record<F: DiskFile>(
    source: &mut SegmentSource<F>,
    frames_at: usize,
) -> Result<bool, LogReadError> {
    let mut scan = FrameScan::new(source.identity(), source.length(), frames_at);
    while let Some(found) = source.next(&mut scan)? {
        if matches!(found, ScanItem::Record(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<D: Disk> Iterator for LogReader<'_, D> {
    type Item = Result<LogEntry, LogReadError>;

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

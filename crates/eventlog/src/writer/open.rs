//! Opening a log for writing: reads it, secures what nothing proves durable, and continues in a new
//! epoch.

use std::cell::RefCell;
use std::io;

use super::{LogWriter, WriterOptions, write_index};
use crate::chain::ChainPoint;
use crate::disk::{Disk, DiskFile};
use crate::end::{EndFile, LogEnd};
use crate::item::{LogEntry, LogReadError};
use crate::reader::{LogReader, SegmentTail};
use crate::segment::{Header, SEGMENT_BYTES_LIMIT, SegmentId};

/// Bytes per write when a tail is rewritten.
const REWRITE_BYTES: usize = 1 << 20;

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum LogOpenError {
    /// Another process writes it.
    #[error("{place} is in use by {holder}: end it, or name another directory")]
    InUse { place: String, holder: String },
    /// The file system failed.
    #[error("{place}: {source}")]
    Io { place: String, source: io::Error },
    /// A segment could not be read, or is of another node.
    #[error("{place}: {source}")]
    Read { place: String, source: LogReadError },
}

/// What was found when the log was opened, besides what `visit` got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Number of sound records.
    pub records: u64,
    /// Number of places where durable data was lost.
    pub corruptions: u64,
    /// Whether an unfinished write was cut off.
    pub torn: bool,
    /// Bytes that were rewritten and synced because nothing proved them durable.
    pub rewritten_bytes: u64,
    /// The last sequence that was found.
    pub last: u64,
    /// The last sequence known to have been durable. Records between `last` and this are lost.
    pub durable: u64,
    /// How the log ended, by the file `end`.
    pub end: RecoveredEnd,
}

/// How a log had ended, as found when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveredEnd {
    /// Unknown: the log is empty, or an earlier release wrote it.
    #[default]
    Unknown,
    /// The file `end` is missing.
    Missing,
    /// The file `end` cannot be read.
    Unreadable(io::ErrorKind),
    /// The file `end` is damaged.
    Damaged,
    /// By a clean stop, and the newest segment is unchanged.
    Sealed(LogEnd),
    /// By a clean stop; since then records of the newest segment were lost or changed.
    Altered {
        /// How it was sealed.
        sealed: LogEnd,
        /// What was found.
        found: ChainPoint,
    },
    /// By a crash or a kill; records that were not durable are lost.
    Open {
        /// What was known when the newest segment began.
        end: LogEnd,
        /// Whether that segment is gone.
        is_gone: bool,
    },
}

/// How much of a log is read when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadScope {
    /// All of it.
    Everything,
    /// Headers, and the records of the newest segment: fast for a log of any length.
    Newest,
}

impl<D: Disk> LogWriter<D> {
    /// Opens the log in `disk`'s directory. `visit` gets everything in it, in order; it must not
    /// act on it before this returns, because only then is all of it durable. An error loses no
    /// record.
    pub fn open(
        disk: D,
        options: WriterOptions,
        visit: impl FnMut(LogEntry),
    ) -> Result<(Self, Recovery), LogOpenError> {
        Self::open_proven(disk, options, ReadScope::Everything, 0, visit)
    }

    /// As [`Self::open`], and finds the same end, but reads only all headers and the newest
    /// segment: fast for a log of any length. `visit` gets the newest segment only; readers verify
    /// sealed segments.
    ///
    /// A segment with a damaged header is ignored. It stays until a full open finds it unwanted.
    pub fn open_at_end(
        disk: D,
        options: WriterOptions,
        visit: impl FnMut(LogEntry),
    ) -> Result<(Self, Recovery), LogOpenError> {
        Self::open_proven(disk, options, ReadScope::Newest, 0, visit)
    }

    /// As [`Self::open`] or [`Self::open_at_end`] by `scope`, when every sequence up to `proven` is
    /// known to have been durable. Missing ones are reported as lost, and are not used again.
    pub fn open_proven(
        disk: D,
        options: WriterOptions,
        scope: ReadScope,
        proven: u64,
        mut visit: impl FnMut(LogEntry),
    ) -> Result<(Self, Recovery), LogOpenError> {
        let place = disk.place();
        let lock = disk.lock().map_err(|source| in_use(&place, source))?;
        let failed = |name: String| {
            let place = format!("{place}/{name}");
            move |source| LogOpenError::Io { place, source }
        };
        let mut recovery = Recovery::default();
        let read_failed = |source| LogOpenError::Read { place: place.clone(), source };
        let WriterOptions { node, window_bytes, index_every_bytes, .. } = options;
        let reader = LogReader::of_node(&disk, node, window_bytes, index_every_bytes);
        let mut reader = reader.map_err(read_failed)?.proven_through(proven);
        if scope == ReadScope::Newest {
            reader.skip_to_newest().map_err(read_failed)?;
        }
        for item in reader.by_ref() {
            let item = item.map_err(read_failed)?;
            match item {
                LogEntry::Record(_) => recovery.records += 1,
                LogEntry::Corruption(_) => recovery.corruptions += 1,
                LogEntry::Torn(_) => recovery.torn = true,
            }
            visit(item);
        }
        let (durable, epoch) = (reader.next_sequence() - 1, reader.epoch_max() + 1);
        let mut files = reader.finish();
        let end = files.end.of_node(Some(options.node));
        let start = ChainStart::of(&mut files.tail, end).map_err(read_failed)?;
        recovery.end = start.found_end(files.end);
        (recovery.last, recovery.durable) = (start.last.min(durable), durable);
        // The chain continues from what was sealed, so that a later change stays visible for ever.
        let newest = end.map(|end| (end.newest, end.is_sealed)).max(start.tail);
        if let Some(mut tail) = files.tail {
            let name = tail.source.identity().file_name();
            let trims = options.preallocate;
            let is_sealed = end.is_some_and(|end| end.is_sealed);
            if !is_sealed && durable == tail.good.last {
                recovery.rewritten_bytes = secure_tail(&mut tail, trims).map_err(failed(name))?;
            }
            // It is not written any more, so it gets its index.
            let known = files.indexes.contains(&tail.source.identity());
            if let Some(index) = tail.good.index.finish().filter(|_| !known) {
                write_index(&disk, &index);
            }
        }
        for orphan in files.orphans {
            // Harmless, and retried at every start.
            let _left = disk.remove(&orphan.index_name());
        }
        for name in files.unborn {
            disk.remove(&name).map_err(failed(name))?;
        }
        disk.sync_directory().map_err(failed(String::new()))?;
        let next = durable + 1;
        let writer = Self {
            disk,
            _lock: lock,
            options: within_limits(options),
            epoch,
            durable,
            next,
            batch: Vec::new(),
            flushed: 0,
            index: None,
            active: None,
            spare: None,
            segments: files.segments,
            keep_from: files.keep_from,
            chain: start.chain,
            newest,
            times: RefCell::default(),
        };
        Ok((writer, recovery))
    }
}

fn within_limits(options: WriterOptions) -> WriterOptions {
    WriterOptions {
        segment_bytes: options.segment_bytes.min(SEGMENT_BYTES_LIMIT / 2),
        batch_bytes_max: options.batch_bytes_max.min(batch_limit()),
        ..options
    }
}

/// The state of the chain at a start.
struct ChainStart {
    end: Option<LogEnd>,
    /// The last segment with content, marked unsealed: only `end` can say that it is sealed.
    tail: Option<(SegmentId, bool)>,
    /// The last sequence that was found.
    last: u64,
    /// The chain after what was found.
    found: ChainPoint,
    /// The chain that the next segment continues.
    chain: ChainPoint,
}

impl ChainStart {
    fn of<F: DiskFile>(
        tail: &mut Option<SegmentTail<F>>,
        end: Option<LogEnd>,
    ) -> Result<Self, LogReadError> {
        let Some(SegmentTail { source, good }) = tail else {
            let (last, found) = (0, ChainPoint::START);
            let chain = end.map_or(found, |end| end.chain);
            return Ok(Self { end, tail: None, last, found, chain });
        };
        let identity = source.identity();
        let before = match source.header()? {
            Header::Good { before, .. } => before,
            // The file `end` noted it when the segment began.
            Header::Damaged | Header::Version(_) => {
                end.filter(|end| end.newest == identity && !end.is_sealed).map(|end| end.chain)
            }
        };
        let found = match before {
            None => ChainPoint::START,
            Some(before) if good.records == 0 => before,
            Some(before) => before.then(good.records, source.hash(good.end)?),
        };
        // An older `end`, put back beside newer segments, is not trusted.
        let end_is_newer =
            |end: &LogEnd| end.newest > identity || end.is_sealed && end.newest == identity;
        let chain = end.filter(end_is_newer).map_or(found, |end| end.chain);
        Ok(Self { end, tail: Some((identity, false)), last: good.last, found, chain })
    }

    fn found_end(&self, file: EndFile) -> RecoveredEnd {
        match self.end {
            None => match file {
                EndFile::Damaged => RecoveredEnd::Damaged,
                EndFile::Unreadable(kind) => RecoveredEnd::Unreadable(kind),
                // `end` is written before the first record of a chain.
                EndFile::Absent if !self.found.is_start() => RecoveredEnd::Missing,
                _ => RecoveredEnd::Unknown,
            },
            Some(sealed) if sealed.is_sealed => {
                let found = self.found;
                if (sealed.last, sealed.chain) == (self.last, found) {
                    RecoveredEnd::Sealed(sealed)
                } else {
                    RecoveredEnd::Altered { sealed, found }
                }
            }
            Some(end) => {
                let newest = self.tail.map(|(identity, _)| identity);
                RecoveredEnd::Open { end, is_gone: newest < Some(end.newest) }
            }
        }
    }
}

fn batch_limit() -> usize {
    usize::try_from(SEGMENT_BYTES_LIMIT / 2).unwrap_or(usize::MAX)
}

fn in_use(place: &str, source: io::Error) -> LogOpenError {
    let place = place.to_owned();
    match source.kind() {
        io::ErrorKind::WouldBlock => LogOpenError::InUse { place, holder: source.to_string() },
        _ => LogOpenError::Io { place, source },
    }
}

/// Truncates the newest segment after its last good record and makes the rest durable. Records that
/// no later one proves durable are rewritten: after a failed sync the page cache shows bytes that
/// are not on the medium, and would never write them.
fn secure_tail<F: DiskFile>(tail: &mut SegmentTail<F>, trims: bool) -> io::Result<u64> {
    let SegmentTail { source, good } = tail;
    // Truncating at the end frees what was preallocated beyond.
    if good.end < source.length() || trims {
        source.truncate(good.end)?;
    }
    let mut at = good.unproven;
    while at < good.end {
        let piece = at..good.end.min(at + REWRITE_BYTES);
        let bytes = source.reread(piece.clone())?;
        source.file().write_at(at as u64, &bytes)?;
        at = piece.end;
    }
    source.file().sync_data()?;
    Ok((good.end - good.unproven) as u64)
}

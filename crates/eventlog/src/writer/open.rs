//! How a writer starts: it reads what is there, settles what nothing proves durable, and goes on
//! behind it in a new epoch.
//!
//! Owns what of a log is believed at a start. What is written from then on is the writer's.

use std::cell::RefCell;
use std::io;

use super::{Options, Writer, write_index};
use crate::bug::{Bug, planted};
use crate::chain::ChainPoint;
use crate::disk::{Disk, DiskFile};
use crate::end::{EndFile, LogEnd};
use crate::item::{Item, ReadError};
use crate::reader::{Reader, Tail};
use crate::segment::{Header, Identity, SEGMENT_BYTES_LIMIT};

/// How much is written at once when a tail is written once more.
const REWRITE_BYTES: usize = 1 << 20;

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else writes it.
    #[error("{place} is in use by {holder}: end it, or name another directory")]
    InUse {
        /// The directory.
        place: String,
        /// Who holds it.
        holder: String,
    },
    /// The file system failed.
    #[error("{place}: {source}")]
    Io {
        /// The file, or the directory.
        place: String,
        /// What the file system said.
        source: io::Error,
    },
    /// A segment could not be read, or is not this node's.
    #[error("{place}: {source}")]
    Read {
        /// The directory.
        place: String,
        /// Which, and why.
        source: ReadError,
    },
}

/// What a start found, beside what it handed to its visitor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Sound records.
    pub records: u64,
    /// Places where something durable was lost.
    pub corruptions: u64,
    /// Whether an unfinished write was cut off.
    pub torn: bool,
    /// Bytes that were written and synced once more, because nothing proved them durable.
    pub rewritten_bytes: u64,
    /// The last sequence that was found.
    pub last: u64,
    /// The last sequence that was durable, by all that is known: what lies between is lost.
    pub durable: u64,
    /// How the log ended, by the file of its end.
    pub end: FoundEnd,
}

/// How a log ended, as a start finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FoundEnd {
    /// Not known: the log is empty, or of an earlier release.
    #[default]
    Unknown,
    /// The file of the end is missing.
    Missing,
    /// The file of the end cannot be read.
    Unreadable(io::ErrorKind),
    /// The file of the end is damaged.
    Damaged,
    /// By a clean stop, and the newest segment is what it was then.
    Sealed(LogEnd),
    /// By a clean stop; since then something was lost from the newest segment, or changed in it.
    Altered {
        /// How it was sealed.
        sealed: LogEnd,
        /// What is there now.
        found: ChainPoint,
    },
    /// Without notice, by a crash or a kill: what was not durable then is lost.
    Open {
        /// What was known when the newest segment began.
        end: LogEnd,
        /// Whether that segment is gone.
        is_gone: bool,
    },
}

/// How much of a log a start reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Everything,
    /// Headers, and the newest segment.
    Newest,
}

impl<D: Disk> Writer<D> {
    /// Opens the log in `disk`'s directory. `visit` is shown everything in it, in order; it must
    /// not act on it before this returns, for then only all of it is durable.
    ///
    /// # Errors
    /// The directory is held by another process, or cannot be read or written, or holds a segment
    /// of a later release, or its newest segment is another node's. No record is lost by it.
    pub fn open(
        disk: D,
        options: Options,
        visit: impl FnMut(Item),
    ) -> Result<(Self, Recovery), OpenError> {
        Self::start(disk, options, (Reading::Everything, 0), visit)
    }

    /// As [`Self::open`], and finds the same end, but reads only the headers of all segments and
    /// the newest one, which alone `visit` is shown: however long the log, it starts at once. What
    /// is sealed is verified by whom reads it. The newest segment is read once more for its hash, and
    /// again if it is damaged, where it is longer than the window.
    ///
    /// A segment with a damaged header is not looked at. It stays until a full open has seen it
    /// and then is not wanted.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_at_end(
        disk: D,
        options: Options,
        visit: impl FnMut(Item),
    ) -> Result<(Self, Recovery), OpenError> {
        Self::start(disk, options, (Reading::Newest, 0), visit)
    }

    /// As [`Self::open_at_end`], or as [`Self::open`] where `everything` is read, of a log of which it
    /// is known from elsewhere that every sequence up to `proven` was durable: what of them is not
    /// there is told as missing, and its sequences are not given again.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_proven(
        disk: D,
        options: Options,
        (everything, proven): (bool, u64),
        visit: impl FnMut(Item),
    ) -> Result<(Self, Recovery), OpenError> {
        let reading = if everything { Reading::Everything } else { Reading::Newest };
        Self::start(disk, options, (reading, proven), visit)
    }

    fn start(
        disk: D,
        options: Options,
        (reading, proven): (Reading, u64),
        mut visit: impl FnMut(Item),
    ) -> Result<(Self, Recovery), OpenError> {
        let place = disk.place();
        let lock = disk.lock().map_err(|source| in_use(&place, source))?;
        let failed = |name: String| {
            let place = format!("{place}/{name}");
            move |source| OpenError::Io { place, source }
        };
        let mut recovery = Recovery::default();
        let read_failed = |source| OpenError::Read { place: place.clone(), source };
        let bounds = (options.window_bytes, options.index_every_bytes);
        let reader = Reader::of_node(&disk, options.node, bounds);
        let mut reader = reader.map_err(read_failed)?.proven_through(proven);
        if reading == Reading::Newest {
            reader.skip_to_newest().map_err(read_failed)?;
        }
        for item in reader.by_ref() {
            let item = item.map_err(read_failed)?;
            match item {
                Item::Record(_) => recovery.records += 1,
                Item::Corruption(_) => recovery.corruptions += 1,
                Item::Torn(_) => recovery.torn = true,
            }
            visit(item);
        }
        let (durable, epoch) = (reader.next_sequence() - 1, reader.epoch_max() + 1);
        let mut files = reader.finish();
        let end = files.end.of_node(Some(options.node));
        let start = ChainStart::of(&mut files.tail, end).map_err(read_failed)?;
        recovery.end = start.found_end(files.end);
        (recovery.last, recovery.durable) = (start.last.min(durable), durable);
        // The chain goes on from what was sealed, so that what changed since is told for ever.
        let newest = end.map(|end| (end.newest, end.is_sealed)).max(start.tail);
        if let Some(mut tail) = files.tail {
            let name = tail.source.identity().file_name();
            let trims = options.preallocate;
            let is_sealed = end.is_some_and(|end| end.is_sealed);
            if !is_sealed && durable == tail.good.last {
                recovery.rewritten_bytes = settle(&mut tail, trims).map_err(failed(name))?;
            }
            // It will not be written any more, so it is sealed.
            let known = files.indexes.contains(&tail.source.identity());
            if let Some(index) = tail.good.index.finish().filter(|_| !known) {
                write_index(&disk, &index);
            }
        }
        for orphan in files.orphans {
            // It is in nobody's way, and tried again at every start.
            let _left = disk.remove(&orphan.index_name());
        }
        for name in files.unborn {
            disk.remove(&name).map_err(failed(name))?;
        }
        disk.sync_directory().map_err(failed(String::new()))?;
        let next = if planted(Bug::ReuseSequence) { durable.max(1) } else { durable + 1 };
        let writer = Self {
            disk,
            _lock: lock,
            options: Options {
                segment_bytes: options.segment_bytes.min(SEGMENT_BYTES_LIMIT / 2),
                batch_bytes_max: options.batch_bytes_max.min(batch_limit()),
                ..options
            },
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

/// Where the chain stands at a start.
struct ChainStart {
    end: Option<LogEnd>,
    /// The last segment with something in it. It counts as not sealed: what says so is the end.
    tail: Option<(Identity, bool)>,
    /// The last sequence that was found.
    last: u64,
    /// The chain behind what was found.
    found: ChainPoint,
    /// The chain that the next segment goes on from.
    chain: ChainPoint,
}

impl ChainStart {
    fn of<F: DiskFile>(tail: &mut Option<Tail<F>>, end: Option<LogEnd>) -> Result<Self, ReadError> {
        let Some(Tail { source, good }) = tail else {
            let (last, found) = (0, ChainPoint::START);
            let chain = end.map_or(found, |end| end.chain);
            return Ok(Self { end, tail: None, last, found, chain });
        };
        let identity = source.identity();
        let before = match source.header()? {
            Header::Good { before, .. } => before,
            // What it said was noted when it began.
            Header::Damaged | Header::Version(_) => {
                end.filter(|end| end.newest == identity && !end.is_sealed).map(|end| end.chain)
            }
        };
        let found = match before {
            None => ChainPoint::START,
            Some(before) if good.records == 0 => before,
            Some(before) => before.then(good.records, source.hash(good.end)?),
        };
        // Of an older file of the end, put back beside newer segments, nothing is believed.
        let end_is_newer =
            |end: &LogEnd| end.newest > identity || end.is_sealed && end.newest == identity;
        let chain = end.filter(end_is_newer).map_or(found, |end| end.chain);
        Ok(Self { end, tail: Some((identity, false)), last: good.last, found, chain })
    }

    fn found_end(&self, file: EndFile) -> FoundEnd {
        match self.end {
            None => match file {
                EndFile::Damaged => FoundEnd::Damaged,
                EndFile::Unreadable(kind) => FoundEnd::Unreadable(kind),
                // It is written before the first record of a chain.
                EndFile::Absent if !self.found.is_start() => FoundEnd::Missing,
                _ => FoundEnd::Unknown,
            },
            Some(sealed) if sealed.is_sealed => {
                let found = self.found;
                if (sealed.last, sealed.chain) == (self.last, found) {
                    FoundEnd::Sealed(sealed)
                } else {
                    FoundEnd::Altered { sealed, found }
                }
            }
            Some(end) => {
                let newest = self.tail.map(|(identity, _)| identity);
                FoundEnd::Open { end, is_gone: newest < Some(end.newest) }
            }
        }
    }
}

fn batch_limit() -> usize {
    usize::try_from(SEGMENT_BYTES_LIMIT / 2).unwrap_or(usize::MAX)
}

fn in_use(place: &str, source: io::Error) -> OpenError {
    let place = place.to_owned();
    match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse { place, holder: source.to_string() },
        _ => OpenError::Io { place, source },
    }
}

/// Cuts the newest segment behind its last good record, and makes that durable, however much of
/// it was before. What no later record proves durable is written once more: after a failed sync
/// the page cache shows bytes that the medium does not have, and would never write them again.
fn settle<F: DiskFile>(tail: &mut Tail<F>, trims: bool) -> io::Result<u64> {
    let Tail { source, good } = tail;
    // To cut a file at its end gives back what was set aside behind that.
    if good.end < source.length() || trims {
        source.truncate(good.end)?;
    }
    if planted(Bug::TrustPageCache) {
        return Ok(0);
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

//! The one writer of a log: appends into memory, commits in groups, recovers at its start.
//!
//! Owns which segment is written and what counts as durable. Its owner decides when to commit,
//! and answers nobody before [`Writer::commit`] has returned.

use std::io;

use crate::bug::{Bug, planted};
use crate::disk::{Disk, DiskFile};
use crate::reader::{Item, ReadError, Reader, Tail};
use crate::segment::{
    self, Found, HEADER_BYTES, Identity, PAYLOAD_BYTES_MAX, SEGMENT_BYTES_LIMIT, Scan,
};

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that has grown this long is the last of its file; at most half of
    /// [`SEGMENT_BYTES_LIMIT`].
    pub segment_bytes: u64,
    /// Bytes that may be appended between commits; at most half of [`SEGMENT_BYTES_LIMIT`].
    pub batch_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, batch_bytes_max: 8 << 20 }
    }
}

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
    /// A segment could not be read.
    #[error("{place}: {source}")]
    Read {
        /// The directory.
        place: String,
        /// Which, and why.
        source: ReadError,
    },
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It can never be.
    #[error("a payload of {bytes} bytes, at most {PAYLOAD_BYTES_MAX} are written")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It can be after a commit.
    #[error("the batch is full: commit first")]
    BatchFull,
}

/// A commit failed. What had been appended since the last one is not durable and forgotten; the
/// log goes on in a new segment, so a later commit can succeed.
#[derive(Debug, thiserror::Error)]
#[error("{segment}: {records} records were not made durable: {source}")]
pub struct CommitError {
    /// The file.
    pub segment: String,
    /// How many records are lost.
    pub records: u64,
    /// What the file system said.
    pub source: io::Error,
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
}

/// The segment that is written.
struct Active<F> {
    file: F,
    identity: Identity,
    /// Durable bytes.
    length: usize,
}

/// Writes a log.
pub struct Writer<D: Disk> {
    disk: D,
    _lock: D::Lock,
    options: Options,
    epoch: u64,
    /// Last durable sequence, 0 before the first.
    durable: u64,
    /// Sequence of the next record.
    next: u64,
    batch: Vec<u8>,
    active: Option<Active<D::File>>,
    /// A file that was created and could not be begun.
    spare: Option<(Identity, D::File)>,
    /// Every segment, oldest first.
    segments: Vec<Identity>,
    /// Below here nothing is wanted.
    keep_from: u64,
}

impl<D: Disk> Writer<D> {
    /// Opens the log in `disk`'s directory. `visit` is shown everything in it, in order; it must
    /// not act on it before this returns, for then only all of it is durable.
    ///
    /// # Errors
    /// The directory is held by another process, or cannot be read or written, or holds a segment
    /// of a later release. No record is lost by it.
    pub fn open(
        disk: D,
        options: Options,
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
        let mut reader = Reader::new(&disk).map_err(read_failed)?;
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
        let files = reader.finish();
        if let Some(tail) = files.tail {
            let name = tail.identity.file_name();
            recovery.rewritten_bytes = settle(&disk, &tail).map_err(failed(name))?;
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
            },
            epoch,
            durable,
            next,
            batch: Vec::new(),
            active: None,
            spare: None,
            segments: files.segments,
            keep_from: files.keep_from,
        };
        Ok((writer, recovery))
    }

    /// The last durable sequence; 0 when there is none.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The epoch that new records belong to.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Appends a record to the batch, and tells its sequence should the batch be committed.
    ///
    /// # Errors
    /// The payload is too long, or the batch is full.
    pub fn append(&mut self, kind: u8, payload: &[u8]) -> Result<u64, AppendError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::TooLong { bytes: payload.len() });
        }
        let fits = self.batch.len() + segment::FRAME_BYTES + payload.len();
        if fits > self.options.batch_bytes_max && !self.batch.is_empty() {
            return Err(AppendError::BatchFull);
        }
        let (identity, base) = match &self.active {
            Some(active) => (active.identity, active.length),
            None => (self.upcoming(), HEADER_BYTES),
        };
        let place = (identity, base + self.batch.len());
        let sequence = self.next;
        segment::encode_frame(&mut self.batch, place, (sequence, self.durable), kind, payload);
        self.next += 1;
        Ok(sequence)
    }

    /// Makes everything that was appended durable, and tells the last durable sequence.
    ///
    /// # Errors
    /// The file system failed: see [`CommitError`].
    pub fn commit(&mut self) -> Result<u64, CommitError> {
        if self.batch.is_empty() {
            return Ok(self.durable);
        }
        match self.write() {
            Ok(()) => {
                self.durable = self.next - 1;
                self.batch.clear();
                let full =
                    |active: &Active<D::File>| active.length as u64 >= self.options.segment_bytes;
                self.active = self.active.take().filter(|active| !full(active));
                Ok(self.durable)
            }
            Err(_) if planted(Bug::AcknowledgeEarly) => {
                let last = self.next - 1;
                let _failed = self.abandon();
                Ok(last)
            }
            Err(source) => {
                let records = self.next - 1 - self.durable;
                Err(CommitError { segment: self.abandon(), records, source })
            }
        }
    }

    /// Records below `sequence` are not wanted any more. The next segment to begin says so in its
    /// header, and once that is durable the files that hold only such records are removed; the
    /// newest ones stay, so that sequences go on from them.
    pub fn remove_before(&mut self, sequence: u64) {
        self.keep_from = self.keep_from.max(sequence.min(self.durable + 1));
    }

    /// Removes files whose records the header that was just made durable has declared unwanted. In
    /// what order they vanish for good does not matter, nor whether one comes back; what fails is
    /// tried again when the next segment begins.
    fn sweep(&mut self) {
        while let [oldest, second, ..] = self.segments[..] {
            let removed = || match self.disk.remove(&oldest.file_name()) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            if second.first > self.keep_from || !removed() {
                break;
            }
            self.segments.remove(0);
        }
    }

    /// The segment that the next batch begins, when none is open.
    fn upcoming(&self) -> Identity {
        let next = Identity { epoch: self.epoch, first: self.durable + 1 };
        self.spare.as_ref().map_or(next, |(identity, _)| *identity)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.active.is_none() {
            self.active = Some(self.create()?);
        }
        let active = self.active.as_mut().expect("a segment was just opened");
        active.file.write_at(active.length as u64, &self.batch)?;
        if !planted(Bug::DropSync) {
            let synced = active.file.sync_data();
            if planted(Bug::RetrySync) && synced.is_err() {
                active.file.sync_data()?;
            } else {
                synced?;
            }
        }
        active.length += self.batch.len();
        Ok(())
    }

    fn create(&mut self) -> io::Result<Active<D::File>> {
        let (identity, mut file) = match self.spare.take() {
            Some(spare) => spare,
            None => {
                let identity = self.upcoming();
                (identity, self.disk.create(&identity.file_name())?)
            }
        };
        // The header is durable before any record, so a file without one never held any.
        let header = segment::encode_header(identity, self.keep_from);
        if let Err(error) = file.write_at(0, &header).and_then(|()| file.sync_data()) {
            // It is written anew when it is tried again. It is not removed: a file that comes back
            // when power is lost would seem to overrule what was written after its removal.
            self.spare = Some((identity, file));
            return Err(error);
        }
        if !planted(Bug::SkipDirectorySync) {
            // Should this fail the file stays, with no record in it; its name may never be durable.
            self.disk.sync_directory()?;
        }
        self.segments.push(identity);
        self.sweep();
        Ok(Active { file, identity, length: HEADER_BYTES })
    }

    /// Gives up the batch and the segment that could not take it. What of the batch reached the
    /// disk is overruled by the next segment, which begins at the same sequence in a new epoch;
    /// cutting it off only frees the space.
    fn abandon(&mut self) -> String {
        let identity = self.active.as_ref().map_or(self.upcoming(), |active| active.identity);
        if let Some(mut active) = self.active.take() {
            let _uncut = active.file.truncate(active.length as u64);
        }
        self.batch.clear();
        self.next = self.durable + 1;
        self.epoch += 1;
        identity.file_name()
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
fn settle<D: Disk>(disk: &D, tail: &Tail) -> io::Result<u64> {
    let mut scan = Scan::new(tail.identity);
    let frames: Vec<_> = std::iter::from_fn(|| scan.next(&tail.bytes[..tail.end]))
        .filter_map(|found| match found {
            Found::Record(frame) => Some(frame),
            Found::BadPayload { .. } | Found::Garbage { .. } => None,
        })
        .collect();
    let proven = frames.last().map_or(0, |frame| frame.durable);
    let unproven = frames.iter().find(|frame| frame.sequence > proven);
    let from = unproven.map_or(tail.end, |frame| frame.offset);
    let mut file = disk.open(&tail.identity.file_name())?;
    if tail.end < tail.bytes.len() {
        file.truncate(tail.end as u64)?;
    }
    if planted(Bug::TrustPageCache) {
        return Ok(0);
    }
    file.write_at(from as u64, &tail.bytes[from..tail.end])?;
    file.sync_data()?;
    Ok((tail.end - from) as u64)
}

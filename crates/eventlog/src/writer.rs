//! The one writer of a log: appends into memory, commits in groups, recovers at its start.
//!
//! Owns which segment is written and what counts as durable. Its owner decides when to commit,
//! and answers nobody before [`Writer::commit`] has returned. Whoever answers nobody may
//! [`Writer::flush`] meanwhile, and commit more rarely.

mod open;
mod retention;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::bug::{Bug, planted};
use crate::chain::{ChainPoint, SegmentHasher};
use crate::disk::{Disk, DiskFile};
use crate::end::LogEnd;
use crate::index::{Builder, Index};
use crate::segment::{self, HEADER_BYTES, Identity, PAYLOAD_BYTES_MAX};
use crate::source::WINDOW_BYTES;

pub use open::{FoundEnd, OpenError, Recovery};
pub use retention::{CLOCK_STEP_MAX_MS, Removed, RetainError};

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment that has grown this long is the last of its file; at most half of
    /// [`SEGMENT_BYTES_LIMIT`](crate::SEGMENT_BYTES_LIMIT).
    pub segment_bytes: u64,
    /// Bytes that may be appended between commits; at most half of
    /// [`SEGMENT_BYTES_LIMIT`](crate::SEGMENT_BYTES_LIMIT).
    pub batch_bytes_max: usize,
    /// Which node of a cluster this is; its directory is no other's.
    pub node: u32,
    /// How much of a segment is in memory while it is read at the start; a record where that is
    /// more.
    pub window_bytes: usize,
    /// How far entries of a segment's index are apart; they are fewer where they would be too many.
    pub index_every_bytes: usize,
    /// Whether the file system is asked to set a segment's bytes aside when it begins, so that
    /// they lie together and are there. Where it cannot, the segment grows as it is written.
    pub preallocate: bool,
}

impl Options {
    /// Of a node alone.
    pub const DEFAULT: Self = Self {
        segment_bytes: 16 << 20,
        batch_bytes_max: 8 << 20,
        node: 0,
        window_bytes: WINDOW_BYTES,
        index_every_bytes: 256 << 10,
        preallocate: false,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
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
    /// It can be after a commit: the batch is full, or the clock stepped and a new segment begins.
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

/// The segment that is written.
struct Active<F> {
    file: F,
    identity: Identity,
    /// Durable bytes.
    length: usize,
    /// Of these.
    durable: SegmentHasher,
    /// And of what was written behind them.
    written: SegmentHasher,
}

/// A segment that was created and could not be begun.
struct Spare<F> {
    file: F,
    identity: Identity,
    /// Its header, once that and its name are durable. The file of the end may name the segment then, so
    /// the header must not be torn by a change.
    durable_header: Option<DurableHeader>,
}

/// The header of a segment, which stays as it is.
#[derive(Clone, Copy)]
struct DurableHeader {
    bytes: [u8; HEADER_BYTES],
    /// What it declares: records below are not wanted.
    keep_from: u64,
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
    /// What was appended since the last commit or flush.
    batch: Vec<u8>,
    /// Bytes before the batch that stand in the file and are not durable.
    flushed: usize,
    /// Of the segment that is written, the batch included.
    index: Option<Builder>,
    active: Option<Active<D::File>>,
    /// A file that was created and could not be begun.
    spare: Option<Spare<D::File>>,
    /// Every segment, oldest first.
    segments: Vec<Identity>,
    /// Below here nothing is wanted.
    keep_from: u64,
    /// The chain before the segment that is written.
    chain: ChainPoint,
    /// The newest segment, and whether the file of the end says that the log is sealed behind it.
    newest: Option<(Identity, bool)>,
    /// Times of sealed segments that were asked for.
    times: RefCell<BTreeMap<Identity, Option<SegmentTimes>>>,
}

/// Times of a segment's records.
#[derive(Clone, Copy, Debug)]
struct SegmentTimes {
    first_ms: u64,
    max_ms: u64,
}

impl<D: Disk> Writer<D> {
    /// The last durable sequence; 0 when there is none.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The last sequence that was appended, durable or not.
    pub(crate) fn appended(&self) -> u64 {
        self.next - 1
    }

    /// The epoch that new records belong to.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The chain behind the last durable record.
    pub fn chain(&self) -> ChainPoint {
        self.active.as_ref().map_or(self.chain, |active| self.chain_behind(active))
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Appends a record to the batch, and tells its sequence should the batch be committed. The
    /// time, Unix milliseconds, is kept with it and may be any.
    ///
    /// # Errors
    /// The payload is too long, or the batch is full.
    pub fn append(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> Result<u64, AppendError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::TooLong { bytes: payload.len() });
        }
        let begun = self.flushed + self.batch.len();
        let fits = begun + segment::FRAME_BYTES + payload.len();
        if fits > self.options.batch_bytes_max && begun > 0 {
            return Err(AppendError::BatchFull);
        }
        let latest = self.index.as_ref().and_then(Builder::times).map(|(_, latest)| latest);
        if latest.is_some_and(|latest| time_ms > latest.saturating_add(CLOCK_STEP_MAX_MS)) {
            // Time that may not have passed lies between segments, never within one.
            if begun > 0 {
                return Err(AppendError::BatchFull);
            }
            self.seal();
        }
        let (identity, base) = match &self.active {
            Some(active) => (active.identity, active.length),
            None => (self.upcoming(), HEADER_BYTES),
        };
        let (offset, sequence) = (base + begun, self.next);
        let (numbers, about) = ((sequence, self.durable), (kind, time_ms));
        segment::encode_frame(&mut self.batch, (identity, offset), numbers, about, payload);
        let every = self.options.index_every_bytes;
        let index = self.index.get_or_insert_with(|| Builder::new(identity, every));
        index.add(offset, sequence, about);
        self.next += 1;
        Ok(sequence)
    }

    /// Makes everything that was appended durable, and tells the last durable sequence.
    ///
    /// # Errors
    /// The file system failed: see [`CommitError`].
    pub fn commit(&mut self) -> Result<u64, CommitError> {
        if self.is_committed() {
            return Ok(self.durable);
        }
        match self.write().and_then(|()| self.sync()) {
            Ok(()) => {
                self.durable = self.next - 1;
                let length = self.active.as_ref().map_or(0, |active| active.length as u64);
                if length >= self.options.segment_bytes {
                    self.seal();
                }
                Ok(self.durable)
            }
            Err(_) if planted(Bug::AcknowledgeEarly) => {
                let last = self.next - 1;
                let _failed = self.abandon();
                Ok(last)
            }
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Writes what was appended, for readers to see: it is durable after the next commit, and
    /// outlives this process, though not the machine.
    ///
    /// # Errors
    /// The file system failed: what was flushed since the last commit is lost as well, see
    /// [`CommitError`].
    pub fn flush(&mut self) -> Result<(), CommitError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.write().map_err(|source| self.failed(source))
    }

    fn is_committed(&self) -> bool {
        self.batch.is_empty() && self.flushed == 0
    }

    fn failed(&mut self, source: io::Error) -> CommitError {
        let records = self.next - 1 - self.durable;
        CommitError { segment: self.abandon(), records, source }
    }

    /// Seals the log: everything in it is durable, and a later start finds out what of it is missing
    /// or changed. What is appended after that opens it again.
    ///
    /// # Errors
    /// The file system failed, or something was appended since the last commit, or the start found that
    /// the newest segment is gone and nothing was written since: the log is as sound as before, and not
    /// sealed.
    pub fn seal_end(&mut self, unix_ms: u64) -> io::Result<()> {
        if !self.is_committed() && !planted(Bug::SealBeforeSync) {
            return Err(io::Error::other("records were appended since the last commit"));
        }
        self.seal();
        let Some((newest, is_sealed)) = self.newest else { return Ok(()) };
        if is_sealed {
            return Ok(());
        }
        if self.segments.last() < Some(&newest) {
            let name = newest.file_name();
            return Err(io::Error::other(format!(
                "{name} had begun and is gone, and no record has been written since"
            )));
        }
        let (last, chain) = (self.next - 1, self.chain);
        let end = LogEnd { newest, is_sealed: true, last, chain, time_ms: unix_ms };
        end.write(&self.disk)?;
        self.newest = Some((newest, true));
        Ok(())
    }

    /// The chain behind a segment that is or was written.
    fn chain_behind(&self, active: &Active<D::File>) -> ChainPoint {
        let records = self.durable + 1 - active.identity.first;
        self.chain.then(records, active.durable.hash())
    }

    /// Stops writing to the active segment, and moves the chain behind it.
    fn detach_active(&mut self) -> Option<Active<D::File>> {
        let active = self.active.take()?;
        if !planted(Bug::SkipChain) {
            self.chain = self.chain_behind(&active);
        }
        Some(active)
    }

    /// Ends the segment that is written.
    fn seal(&mut self) {
        if let Some(mut active) = self.detach_active()
            && self.options.preallocate
            && (active.length as u64) < self.options.segment_bytes
        {
            // What was set aside behind it is not needed.
            let _untrimmed = active.file.truncate(active.length as u64);
        }
        if let Some(index) = self.index.take().and_then(Builder::finish) {
            write_index(&self.disk, &index);
        }
    }

    /// Records below `sequence` are not wanted any more. The next segment to begin says so in its
    /// header, and once that is durable the files that hold only such records are removed; the
    /// newest ones stay, so that sequences go on from them.
    pub fn remove_before(&mut self, sequence: u64) {
        self.keep_from = self.keep_from.max(sequence.min(self.durable + 1));
    }

    /// Removes files whose records a durable header has declared unwanted, those below `keep_from`. In
    /// what order they vanish for good does not matter, nor whether one comes back; what fails is
    /// tried again when the next segment begins.
    fn sweep(&mut self, keep_from: u64) {
        while let [oldest, second, ..] = self.segments[..] {
            let removed = || match self.disk.remove(&oldest.file_name()) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            if second.first > keep_from || !removed() {
                break;
            }
            self.segments.remove(0);
            // One that stays is found to be an orphan at the next start.
            let _left = self.disk.remove(&oldest.index_name());
        }
    }

    /// The segment that the next batch begins, when none is open.
    fn upcoming(&self) -> Identity {
        let (epoch, first, node) = (self.epoch, self.durable + 1, self.options.node);
        let next = Identity { epoch, first, node };
        self.spare.as_ref().map_or(next, |spare| spare.identity)
    }

    fn write(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        if self.active.is_none() {
            self.active = Some(self.create()?);
        }
        let active = self.active.as_mut().expect("a segment was just opened");
        active.file.write_at((active.length + self.flushed) as u64, &self.batch)?;
        active.written.update(&self.batch);
        self.flushed += self.batch.len();
        self.batch.clear();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let active = self.active.as_mut().expect("what was written stands in a segment");
        if !planted(Bug::DropSync) {
            let synced = active.file.sync_data();
            if planted(Bug::RetrySync) && synced.is_err() {
                active.file.sync_data()?;
            } else {
                synced?;
            }
        }
        active.length += std::mem::take(&mut self.flushed);
        active.durable.clone_from(&active.written);
        Ok(())
    }

    fn create(&mut self) -> io::Result<Active<D::File>> {
        let Spare { identity, mut file, durable_header } = self.begin_file()?;
        let header = durable_header.expect("what was begun has a durable header");
        if self.segments.last() != Some(&identity) {
            self.segments.push(identity);
        }
        // On a nearly full disk the file of the end needs the room that this frees.
        self.sweep(header.keep_from);
        // Whether or not its end is written now: the file stands there, and a clean stop seals behind it.
        let before = self.newest.replace((identity, false));
        if !(planted(Bug::KeepSeal) && before.is_some_and(|(_, is_sealed)| is_sealed))
            && let Err(error) = self.end_at_begin(identity).write(&self.disk)
        {
            // Its name is durable, so it serves the next try.
            self.spare = Some(Spare { file, identity, durable_header });
            return Err(error);
        }
        if self.options.preallocate {
            // Last, for it may take all room that is left. A failure here is reported by the write that
            // finds no room.
            let _growing = file.allocate(self.options.segment_bytes);
        }
        let mut durable = SegmentHasher::default();
        durable.update(&header.bytes);
        Ok(Active { file, identity, length: HEADER_BYTES, written: durable.clone(), durable })
    }

    /// A file with a durable header and a durable name.
    fn begin_file(&mut self) -> io::Result<Spare<D::File>> {
        let (identity, mut file) = match self.spare.take() {
            Some(begun @ Spare { durable_header: Some(_), .. }) => return Ok(begun),
            Some(Spare { file, identity, durable_header: None }) => (identity, file),
            None => {
                let identity = self.upcoming();
                (identity, self.disk.create(&identity.file_name())?)
            }
        };
        // The header is durable before any record, so a file without one never held any.
        let keep_from = self.keep_from;
        let bytes = segment::encode_header(identity, keep_from, &self.chain);
        if let Err(error) = file.write_at(0, &bytes).and_then(|()| file.sync_data()) {
            // It is written anew when it is tried again. It is not removed: a file that comes back
            // when power is lost would seem to overrule what was written after its removal.
            self.spare = Some(Spare { file, identity, durable_header: None });
            return Err(error);
        }
        if !planted(Bug::SkipDirectorySync) {
            // Should this fail the file stays, with no record in it; its name may never be durable.
            self.disk.sync_directory()?;
        }
        let durable_header = Some(DurableHeader { bytes, keep_from });
        Ok(Spare { file, identity, durable_header })
    }

    /// What the file of the end says before a record stands in a segment that has begun.
    fn end_at_begin(&self, newest: Identity) -> LogEnd {
        let (last, chain) = (self.durable, self.chain);
        LogEnd { newest, is_sealed: false, last, chain, time_ms: 0 }
    }

    /// Gives up the batch and the segment that could not take it. What of the batch reached the
    /// disk is overruled by the next segment, which begins at the same sequence in a new epoch;
    /// cutting it off only frees the space.
    fn abandon(&mut self) -> String {
        let identity = self.active.as_ref().map_or(self.upcoming(), |active| active.identity);
        if let Some(mut active) = self.detach_active() {
            let _uncut = active.file.truncate(active.length as u64);
        }
        self.batch.clear();
        self.flushed = 0;
        // It counts records that are not there: this segment stays without.
        self.index = None;
        self.next = self.durable + 1;
        self.epoch += 1;
        identity.file_name()
    }
}

/// Writes an index beside its segment, when that can be done: nothing depends on it, so it is not
/// made durable either, and its check tells whether all of it is there.
fn write_index<D: Disk>(disk: &D, index: &Index) {
    let name = index.identity.index_name();
    let Ok(mut file) = disk.create(&name) else { return };
    if file.write_at(0, &index.encode()).is_err() {
        let _left = disk.remove(&name);
    }
}

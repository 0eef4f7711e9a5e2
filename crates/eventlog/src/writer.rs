//! The writer of a log: appends to memory, commits in groups, recovers when it opens.
//!
//! Owns which segment is written and what is durable. Its owner decides when to commit, and
//! acknowledges nothing before [`LogWriter::commit`] returns. An owner that acknowledges nothing
//! may [`LogWriter::flush`], and commit less often.

mod open;
mod retention;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::chain::{ChainPoint, SegmentHasher};
use crate::disk::{Disk, DiskFile};
use crate::end::LogEnd;
use crate::index::{IndexBuilder, SegmentIndex};
use crate::segment::{self, FrameFields, HEADER_BYTES, PAYLOAD_BYTES_MAX, SegmentId};
use crate::source::WINDOW_BYTES;

pub use open::{LogOpenError, ReadScope, RecoveredEnd, Recovery};
pub use retention::{CLOCK_STEP_MAX_MS, RemovedSegments, RetainError};

/// Options of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// A segment of this length is sealed; at most half of
    /// [`SEGMENT_BYTES_LIMIT`](crate::SEGMENT_BYTES_LIMIT).
    pub segment_bytes: u64,
    /// Most bytes between two commits; at most half of
    /// [`SEGMENT_BYTES_LIMIT`](crate::SEGMENT_BYTES_LIMIT).
    pub batch_bytes_max: usize,
    /// The node that writes; a directory belongs to one node.
    pub node: u32,
    /// How much of a segment is held in memory while it is read at the start; more for a longer
    /// record.
    pub window_bytes: usize,
    /// Distance of the entries of a segment's index; more if there would be too many.
    pub index_every_bytes: usize,
    /// Whether to preallocate a segment when it begins. Where the file system cannot, the segment
    /// grows as it is written.
    pub preallocate: bool,
}

impl WriterOptions {
    /// For a single node.
    pub const DEFAULT: Self = Self {
        segment_bytes: 16 << 20,
        batch_bytes_max: 8 << 20,
        node: 0,
        window_bytes: WINDOW_BYTES,
        index_every_bytes: 256 << 10,
        preallocate: false,
    };
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It can never be appended.
    #[error("a payload of {bytes} bytes, at most {PAYLOAD_BYTES_MAX} are written")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Commit first: the batch is full, or the clock stepped and a new segment begins.
    #[error("the batch is full: commit first")]
    BatchFull,
}

/// A commit failed. Everything appended since the last commit is lost. The log continues in a new
/// segment, so a later commit can succeed.
#[derive(Debug, thiserror::Error)]
#[error("{segment}: {records} records were not made durable: {source}")]
pub struct CommitError {
    /// The file.
    pub segment: String,
    /// Number of lost records.
    pub records: u64,
    /// The cause.
    pub source: io::Error,
}

/// The segment being written.
struct ActiveSegment<F> {
    file: F,
    identity: SegmentId,
    /// Durable bytes.
    length: usize,
    /// Hash of the durable bytes.
    durable: SegmentHasher,
    /// Hash including the bytes written after them.
    written: SegmentHasher,
}

/// A segment file that was created, but whose segment could not begin.
struct SpareSegment<F> {
    file: F,
    identity: SegmentId,
    /// The header, once it and the file's name are durable. The file `end` may name the segment
    /// from then on, so a rewrite must not tear the header.
    durable_header: Option<DurableHeader>,
}

/// The header of a segment, never changed.
#[derive(Clone, Copy)]
struct DurableHeader {
    bytes: [u8; HEADER_BYTES],
    /// Records below are not wanted.
    keep_from: u64,
}

/// Writes a log.
pub struct LogWriter<D: Disk> {
    disk: D,
    _lock: D::Lock,
    options: WriterOptions,
    epoch: u64,
    /// The last durable sequence; 0 before the first.
    durable: u64,
    /// Sequence of the next record.
    next: u64,
    /// Records appended since the last commit or flush.
    batch: Vec<u8>,
    /// Bytes before the batch that are in the file and not durable.
    flushed: usize,
    /// Index of the active segment, including the batch.
    index: Option<IndexBuilder>,
    active: Option<ActiveSegment<D::File>>,
    spare: Option<SpareSegment<D::File>>,
    /// Every segment, oldest first.
    segments: Vec<SegmentId>,
    /// Records below are not wanted.
    keep_from: u64,
    /// The chain before the active segment.
    chain: ChainPoint,
    /// The newest segment, and whether the file `end` says that the log is sealed after it.
    newest: Option<(SegmentId, bool)>,
    /// Cached times of sealed segments.
    times: RefCell<BTreeMap<SegmentId, Option<SegmentTimes>>>,
}

/// Times of a segment's records.
#[derive(Clone, Copy, Debug)]
struct SegmentTimes {
    first_ms: u64,
    max_ms: u64,
}

impl<D: Disk> LogWriter<D> {
    /// The last durable sequence; 0 before the first.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The epoch of new records.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The chain after the last durable record.
    pub fn chain(&self) -> ChainPoint {
        self.active.as_ref().map_or(self.chain, |active| self.chain_behind(active))
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Appends a record to the batch; returns its sequence if the batch is committed. Any Unix
    /// milliseconds are accepted as its time.
    pub fn append(&mut self, kind: u8, time_ms: u64, payload: &[u8]) -> Result<u64, AppendError> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(AppendError::TooLong { bytes: payload.len() });
        }
        let begun = self.flushed + self.batch.len();
        let fits = begun + segment::FRAME_BYTES + payload.len();
        if fits > self.options.batch_bytes_max && begun > 0 {
            return Err(AppendError::BatchFull);
        }
        let latest = self.index.as_ref().and_then(IndexBuilder::times).map(|(_, latest)| latest);
        if latest.is_some_and(|latest| time_ms > latest.saturating_add(CLOCK_STEP_MAX_MS)) {
            // A gap in time that may be a clock step lies between segments, never within one.
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
        let frame = FrameFields { offset, sequence, durable: self.durable, time_ms, kind };
        segment::encode_frame(&mut self.batch, identity, &frame, payload);
        let every = self.options.index_every_bytes;
        let index = self.index.get_or_insert_with(|| IndexBuilder::new(identity, every));
        index.add(offset, sequence, kind, time_ms);
        self.next += 1;
        Ok(sequence)
    }

    /// Makes everything that was appended durable; returns the last durable sequence.
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
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Writes what was appended so that readers see it. It survives this process, and is durable
    /// after the next commit. If this fails, everything flushed since the last commit is lost too.
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

    /// Seals the log, so that a later start detects missing or changed records. Appending opens it
    /// again.
    ///
    /// Fails if records were appended since the last commit, or if the newest segment was found
    /// missing and nothing was written since.
    pub fn seal_end(&mut self, unix_ms: u64) -> io::Result<()> {
        if !self.is_committed() {
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

    /// The chain after a segment that is or was active.
    fn chain_behind(&self, active: &ActiveSegment<D::File>) -> ChainPoint {
        let records = self.durable + 1 - active.identity.first;
        self.chain.then(records, active.durable.hash())
    }

    /// Stops writing to the active segment and moves the chain past it.
    fn detach_active(&mut self) -> Option<ActiveSegment<D::File>> {
        let active = self.active.take()?;
        self.chain = self.chain_behind(&active);
        Some(active)
    }

    /// Ends the active segment.
    fn seal(&mut self) {
        if let Some(mut active) = self.detach_active()
            && self.options.preallocate
            && (active.length as u64) < self.options.segment_bytes
        {
            // Gives back what was preallocated.
            let _untrimmed = active.file.truncate(active.length as u64);
        }
        if let Some(index) = self.index.take().and_then(IndexBuilder::finish) {
            write_index(&self.disk, &index);
        }
    }

    /// Declares records below `sequence` unwanted. The next segment states this in its header; once
    /// that is durable, files with only such records are removed. The newest files stay, so that
    /// sequences continue from them.
    pub fn remove_before(&mut self, sequence: u64) {
        self.keep_from = self.keep_from.max(sequence.min(self.durable + 1));
    }

    /// Removes files of records that a durable header has declared unwanted. Neither their order
    /// nor the return of one after a crash matters; failures are retried when the next segment
    /// begins.
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
            // A remaining index is removed as an orphan at the next start.
            let _left = self.disk.remove(&oldest.index_name());
        }
    }

    /// The segment that the next batch begins, if none is active.
    fn upcoming(&self) -> SegmentId {
        let (epoch, first, node) = (self.epoch, self.durable + 1, self.options.node);
        let next = SegmentId { epoch, first, node };
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
        active.file.sync_data()?;
        active.length += std::mem::take(&mut self.flushed);
        active.durable.clone_from(&active.written);
        Ok(())
    }

    fn create(&mut self) -> io::Result<ActiveSegment<D::File>> {
        let SpareSegment { identity, mut file, durable_header } = self.begin_file()?;
        let header = durable_header.expect("what was begun has a durable header");
        if self.segments.last() != Some(&identity) {
            self.segments.push(identity);
        }
        // On a nearly full disk, the file `end` needs the space that this frees.
        self.sweep(header.keep_from);
        // The file exists whether or not `end` can be written now, and a clean stop seals after it.
        self.newest = Some((identity, false));
        if let Err(error) = self.end_at_begin(identity).write(&self.disk) {
            // Its name is durable, so the next attempt uses it.
            self.spare = Some(SpareSegment { file, identity, durable_header });
            return Err(error);
        }
        if self.options.preallocate {
            // Last, because it may take all free space. A write that finds no space reports the
            // failure.
            let _growing = file.allocate(self.options.segment_bytes);
        }
        let mut durable = SegmentHasher::default();
        durable.update(&header.bytes);
        Ok(ActiveSegment {
            file,
            identity,
            length: HEADER_BYTES,
            written: durable.clone(),
            durable,
        })
    }

    /// A segment file whose header and name are durable.
    fn begin_file(&mut self) -> io::Result<SpareSegment<D::File>> {
        let (identity, mut file) = match self.spare.take() {
            Some(begun @ SpareSegment { durable_header: Some(_), .. }) => return Ok(begun),
            Some(SpareSegment { file, identity, durable_header: None }) => (identity, file),
            None => {
                let identity = self.upcoming();
                (identity, self.disk.create(&identity.file_name())?)
            }
        };
        // The header is durable before any record, so a file without one never had records.
        let keep_from = self.keep_from;
        let bytes = segment::encode_header(identity, keep_from, &self.chain);
        if let Err(error) = file.write_at(0, &bytes).and_then(|()| file.sync_data()) {
            // The next attempt rewrites it. It is not removed: a removed file that returns after a
            // power loss would seem to overrule what was written since.
            self.spare = Some(SpareSegment { file, identity, durable_header: None });
            return Err(error);
        }
        // If this fails, the file stays without records; its name may never be durable.
        self.disk.sync_directory()?;
        let durable_header = Some(DurableHeader { bytes, keep_from });
        Ok(SpareSegment { file, identity, durable_header })
    }

    /// What `end` states when a segment has begun and holds no record.
    fn end_at_begin(&self, newest: SegmentId) -> LogEnd {
        let (last, chain) = (self.durable, self.chain);
        LogEnd { newest, is_sealed: false, last, chain, time_ms: 0 }
    }

    /// Abandons the batch and its segment. What of the batch reached the disk is overruled by the
    /// next segment, which begins at the same sequence in a new epoch; truncating only frees the
    /// space.
    fn abandon(&mut self) -> String {
        let identity = self.active.as_ref().map_or(self.upcoming(), |active| active.identity);
        if let Some(mut active) = self.detach_active() {
            let _uncut = active.file.truncate(active.length as u64);
        }
        self.batch.clear();
        self.flushed = 0;
        // It counts records that do not exist: this segment gets no index.
        self.index = None;
        self.next = self.durable + 1;
        self.epoch += 1;
        identity.file_name()
    }
}

/// Writes an index beside its segment, if possible. Nothing depends on it, so it is not synced; its
/// check detects a partial one.
fn write_index<D: Disk>(disk: &D, index: &SegmentIndex) {
    let name = index.identity.index_name();
    let Ok(mut file) = disk.create(&name) else { return };
    if file.write_at(0, &index.encode()).is_err() {
        let _left = disk.remove(&name);
    }
}
